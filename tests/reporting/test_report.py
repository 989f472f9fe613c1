"""The report: every kind of it balanced, escaped and small; its numbers those of an independent count; in a browser."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from genlabel import diagnose, write_report
from genlabel.data.tables import ColumnSpec, Table, make_splits, table_pipeline
from genlabel.evaluation.comparison import PRIOR_BASELINE, compare
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.diagnose import SENTENCES, DiagnosisVerdict
from genlabel.evaluation.verdict import rank_methods

METHODS = {
    "vanilla": LogisticRegression(),
    "mixup": GaussianNB(),
    "GenLabel": LinearDiscriminantAnalysis(),
    "<b>other</b>": KNeighborsClassifier(15),
    PRIOR_BASELINE: DummyClassifier(strategy="prior"),
}
PLAIN = ["a", "b", "c"]
HOSTILE = ["<script>document.title = 'owned'</script>", "\"'</style>\u202e\N{PILE OF POO}", "x" * 300]


def a_table(names: list[str]) -> Table:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [28, 22, 10])
    points = rng.normal(size=(60, 2)) + np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 1.0]])[y]
    X = pd.DataFrame(points, columns=[f"first {names[0]}", f"second {names[1]}"])
    left = ColumnSpec(f"gone {names[2]}", "text", (), f"it names the rows, such as {names[0]}")
    columns = [*(ColumnSpec(name, "number", (name,)) for name in X.columns), left]
    notes = [f"left out column {names[2]!r}: it names the rows"]
    return Table(f"a table {names[0]}", X, pd.Series(np.array(names)[y]), notes, columns)


@pytest.fixture(scope="module")
def diagnosed() -> Diagnosis:
    table = a_table(PLAIN)
    return diagnose(table.X, table.y, cv=2, n_mixed=300)


@pytest.fixture(scope="module")
def results() -> pd.DataFrame:
    return compare(a_table(PLAIN), METHODS, repeats=5)


def renamed(diagnosis: Diagnosis, names: list[str]) -> Diagnosis:
    """The same diagnosis of classes with other names."""
    assert diagnosis.mixed is not None
    new = dict(zip(PLAIN, names, strict=True))
    frames = {
        part: frame.assign(class_1=frame["class_1"].map(new), class_2=frame["class_2"].map(new))
        for part, frame in (("pairs", diagnosis.mixed.pairs), ("lambdas", diagnosis.mixed.lambdas))
    }
    return replace(diagnosis, classes=np.array(names, dtype=object), mixed=diagnosis.mixed._replace(**frames))


def without_a_plane(diagnosis: Diagnosis) -> Diagnosis:
    """As of a table of four features."""
    assert diagnosis.mixed is not None
    more = np.random.default_rng(1).normal(size=(60, 2))
    points = np.concatenate([diagnosis.mixed.points, more], axis=1)
    return replace(diagnosis, d=4, regions=None, mixed=diagnosis.mixed._replace(points=points))


def of_many_classes(diagnosis: Diagnosis) -> tuple[Table, None, Diagnosis]:
    """As of a table of thirty classes, of which three have rows."""
    assert diagnosis.experiment is not None
    names = np.array([f"kind {c:02}" for c in range(30)], dtype=object)
    counts = {
        name: replace(count, classes=tuple(names), confusion=np.pad(count.confusion, (0, 27)))
        for name, count in diagnosis.experiment.counts.items()
    }
    wide = renamed(diagnosis, names[:3].tolist())
    assert wide.mixed is not None
    samples = wide.mixed.samples
    linear, generated = (np.pad(part, ((0, 0), (0, 27))) for part in (samples.linear_labels, samples.density_labels))
    mixed = wide.mixed._replace(samples=samples._replace(linear_labels=linear, density_labels=generated))
    experiment = diagnosis.experiment._replace(counts=counts)
    return a_table(names[:3].tolist()), None, replace(wide, classes=names, mixed=mixed, experiment=experiment)


KINDS = [
    "many classes",
    "both",
    "hostile",
    "comparison",
    "not counted",
    "diagnosis",
    "one split",
    "not trusted",
    "four features",
    "two classes",
]
every = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def reports(results: pd.DataFrame, diagnosed: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    folder, table = tmp_path_factory.mktemp("reports"), a_table(PLAIN)
    named = results.assign(held_out=[held | {"classes": HOSTILE} for held in results["held_out"]])
    two = replace(table, X=table.X[:50], y=table.y[:50])
    lost = replace(
        diagnosed,
        verdict=DiagnosisVerdict("not trusted", SENTENCES["not trusted"], ["it knows nothing"]),
        mixed=None,
        experiment=None,
        regions=None,
    )
    parts: dict[str, tuple[Any, ...]] = {
        "both": (table, results, diagnosed),
        "hostile": (a_table(HOSTILE), named, renamed(diagnosed, HOSTILE)),
        "comparison": (table, results.drop(columns="held_out")),
        "not counted": (table, results.drop(columns="held_out"), diagnosed),  # as read from a CSV of compare
        "diagnosis": (table, None, diagnosed),
        "one split": (table, results[results["split"] == 0]),
        "not trusted": (table, results, lost),
        "four features": (table, None, without_a_plane(diagnosed)),
        "many classes": of_many_classes(diagnosed),
        "two classes": (two, compare(two, METHODS, repeats=5)),
    }
    for kind, given in parts.items():
        words = HOSTILE[0] if kind == "hostile" else "words"
        write_report(folder / f"{kind}.html", *given, settings={"of": words}, command=f"genlabel compare {words}")
    return {kind: folder / f"{kind}.html" for kind in KINDS}


def shown(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def numbers(path: Path) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return dict(json.loads(path.with_suffix(".json").read_text(encoding="utf-8"), parse_constant=refuse))


@every
def test_a_report_is_valid_small_and_self_contained(
    reports: dict[str, Path], kind: str, read_html: Callable[[str], Any]
) -> None:
    text = shown(reports[kind])
    reader = read_html(text)
    names = [tag for tag, _ in reader.tags]
    assert len(text.encode()) < 300_000
    assert not set(names) & {"link", "iframe", "object", "img", "image"}
    assert not re.search(r"https?:|url\((?!#)|@import", text)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    links = [str(attributes["href"]) for tag, attributes in reader.tags if tag == "a"]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)
    assert names.count("figure") == names.count("figcaption") == names.count("svg") == names.count("desc")
    assert "nan" not in reader.text.lower().split()


def test_the_same_input_gives_the_same_files(reports: dict[str, Path], diagnosed: Diagnosis) -> None:
    path = reports["diagnosis"].with_name("again.html")
    told = {"settings": {"of": "words"}, "command": "genlabel compare words"}
    write_report(path, a_table(PLAIN), None, diagnosed, **told)
    assert shown(path).replace("again.json", "diagnosis.json") == shown(reports["diagnosis"])
    assert numbers(path) == numbers(reports["diagnosis"])


def test_names_of_the_user_are_text_and_nothing_else(reports: dict[str, Path], read_html: Callable[[str], Any]) -> None:
    plain, hostile = (read_html(shown(reports[kind])) for kind in ("both", "hostile"))
    kinds = {"script", "style", "b", "section", "figure", "table", "tr", "td"}
    counts = [[[tag for tag, _ in reader.tags].count(kind) for kind in sorted(kinds)] for reader in (plain, hostile)]
    assert counts[0] == counts[1]
    assert HOSTILE[0] in hostile.text
    assert "<b>other</b>" in hostile.text


@pytest.mark.parametrize("kind", ["both", "two classes"])
def test_counts_and_classes_are_those_of_scikit_learn(reports: dict[str, Path], kind: str) -> None:
    table = a_table(PLAIN)
    table = table if kind == "both" else replace(table, X=table.X[:50], y=table.y[:50])
    found = numbers(reports[kind])
    best = next(name for name in found["comparison"]["ranking"] if name != PRIOR_BASELINE)
    truth, said = [], []
    for train, test in make_splits(table, 5, 0.3, 0):
        model = table_pipeline(table.X, METHODS[best]).fit(table.X.iloc[train], table.y.iloc[train])
        truth += table.y.iloc[test].tolist()
        said += model.predict(table.X.iloc[test]).tolist()
    names = sorted(set(truth))
    counted = np.zeros((len(names),) * 2, dtype=int)
    for i, j, times in found["held_out"][best]["confusion"]:
        counted[i, j] = times
    np.testing.assert_array_equal(counted, confusion_matrix(truth, said, labels=names))
    precision, recall, f1, _ = precision_recall_fscore_support(truth, said, labels=names, zero_division=np.nan)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", _table(reports[kind], f"Each class by {best}"))
    width = len(cells) // len(names)
    for place in range(len(names)):
        written = cells[width * place + 2 : width * place + 5]
        expected = [precision[place], recall[place], f1[place]]
        assert written == ["" if np.isnan(value) else f"{100 * value:.1f} %" for value in expected]


def _table(path: Path, caption: str) -> str:
    text = shown(path)
    return text[text.index("<tbody>", text.index(f"<caption><span>{caption}")) :].split("</tbody>")[0]


def test_the_answers_follow_from_the_numbers(reports: dict[str, Path], read_html: Callable[[str], Any]) -> None:
    text = read_html(shown(reports["both"])).text
    found = numbers(reports["both"])
    best = next(name for name in found["comparison"]["ranking"] if name != PRIOR_BASELINE)
    methods = found["comparison"]["methods"]
    assert best == min(set(methods) - {PRIOR_BASELINE}, key=lambda name: methods[name]["log_loss"]["mean"])
    assert f"{best} has the lowest mean log-loss, {methods[best]['log_loss']['mean']:.3f} nats over 5 splits" in text
    assert found["diagnosis"]["verdict"]["sentence"] in text
    for name, gain in found["diagnosis"]["experiment"]["gains"].items():
        assert f"{name} {gain['mean']:+.3f}".replace("-", "\N{MINUS SIGN}") in text
    assert text.index("Would mixing help?") < text.index("The methods side by side")
    assert found["table"]["notes"][0] in text


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leave nothing to report"):
        write_report(tmp_path / "x.html", a_table(PLAIN))
    with pytest.raises(ValueError, match="no fit succeeded"):
        write_report(tmp_path / "x.html", a_table(PLAIN), pd.DataFrame())
    with pytest.raises(ValueError, match="end it in"):
        write_report(tmp_path / "x.json", a_table(PLAIN), pd.DataFrame())


def test_uncounted_predictions_are_those_of_the_paired_experiment(
    reports: dict[str, Path], read_html: Callable[[str], Any]
) -> None:
    text, found = read_html(shown(reports["not counted"])).text, numbers(reports["not counted"])
    trial = found["diagnosis"]["experiment"]
    assert found["held_out"] == trial["counts"]
    assert "in the folds of the paired experiment" in text
    best = min(trial["log_loss"], key=trial["log_loss"].get)
    assert f"Confusion matrix of {best}" in text
    assert f"On held-out rows {best} has an accuracy of" in text


def test_the_ranking_is_that_of_the_comparison(reports: dict[str, Path], results: pd.DataFrame) -> None:
    assert numbers(reports["both"])["comparison"]["ranking"] == rank_methods(results)


SECTIONS = {
    "many classes": ["mixing", "intrusion", "labels", "projection", "regions", "trust", "table", "repeat"],
    "both": ["methods", "mixing", "intrusion", "labels", "projection", "regions", "trust", "table", "repeat"],
    "comparison": ["methods", "table", "repeat"],
    "not counted": ["methods", "mixing", "intrusion", "labels", "projection", "regions", "trust", "table", "repeat"],
    "diagnosis": ["mixing", "intrusion", "labels", "projection", "regions", "trust", "table", "repeat"],
    "not trusted": ["methods", "mixing", "trust", "table", "repeat"],
    "four features": ["mixing", "intrusion", "labels", "projection", "trust", "table", "repeat"],
}


@pytest.mark.parametrize("kind, expected", SECTIONS.items(), ids=SECTIONS)
def test_sections_follow_from_the_data(
    reports: dict[str, Path], kind: str, expected: list[str], read_html: Callable[[str], Any]
) -> None:
    tags = read_html(shown(reports[kind])).tags
    assert [attributes["id"] for tag, attributes in tags if tag == "section"] == expected


VIEWS = [(kind, 360, True) for kind in KINDS] + [("both", 1280, False), ("hostile", 1280, False)]


@pytest.mark.parametrize("kind, width, dark", VIEWS, ids=[f"{kind}-{width}" for kind, width, _ in VIEWS])
def test_a_browser_shows_every_figure_without_errors(
    browser: Any, reports: dict[str, Path], kind: str, width: int, dark: bool
) -> None:
    browser.open(reports[kind], width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [reports[kind].as_uri()]
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.title") != "owned"
    sizes = browser.run(
        "return [...document.querySelectorAll('figure svg')].map((one) => {"
        "const box = one.getBoundingClientRect(); return Math.min(box.width, box.height)})"
    )
    assert len(sizes) >= 2
    assert min(sizes) > 30


def test_in_a_browser_every_figure_opens_and_closes(browser: Any, reports: dict[str, Path]) -> None:
    browser.open(reports["hostile"])
    for place in range(browser.run("return document.querySelectorAll('figure').length")):
        browser.run(f"document.querySelectorAll('figure .larger')[{place}].click()")
        assert browser.run("return document.querySelector('dialog svg').getBoundingClientRect().height") > 30
        browser.press("\ue00c")
        assert browser.wait("!document.querySelector('dialog')")
    assert browser.complaints() == []


def test_in_a_browser_the_scores_sort(browser: Any, reports: dict[str, Path]) -> None:
    browser.open(reports["both"])
    column = "return [...document.querySelectorAll('#methods tbody')[0].rows].map((row) => row.cells[7].dataset.v)"
    before = browser.run(column)
    browser.click("#methods thead th:nth-child(8) button")
    assert browser.run(column) == sorted(before, key=float)


def test_one_split_shows_no_noise_and_reasons_are_sentences(
    reports: dict[str, Path], read_html: Callable[[str], Any]
) -> None:
    one, lost = (read_html(shown(reports[kind])).text for kind in ("one split", "not trusted"))
    assert "one split shows no noise" in one
    assert "within noise of it" not in one
    assert "within noise of it" not in one
    assert "It knows nothing." in lost


def test_training_warnings_are_not_notes_on_the_table(
    tmp_path: Path, results: pd.DataFrame, read_html: Callable[[str], Any]
) -> None:
    table = replace(a_table(PLAIN), notes=["rows that equal an earlier row: 3"])
    write_report(tmp_path / "t.html", table, results, notes=[*table.notes, "some density was slow"])
    text = read_html(shown(tmp_path / "t.html")).text
    assert text.count("rows that equal an earlier row: 3") == 2
    assert text.count("some density was slow") == 1

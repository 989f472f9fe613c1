"""The report: valid, escaped and small HTML; numbers equal to an independent count; behavior in a browser."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from itertools import combinations
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
from genlabel.data.tables import Table, make_splits, table_pipeline
from genlabel.data.tables.columns import ColumnSpec
from genlabel.data.tables.leaks import QUESTION
from genlabel.evaluation.comparison import PLAIN_TRAINING, PRIOR_BASELINE, compare, rank_methods
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.diagnose import SENTENCES, DiagnosisVerdict, describe_gains

METHODS = {
    PLAIN_TRAINING: LogisticRegression(),
    "mixup": GaussianNB(),
    "GenLabel": LinearDiscriminantAnalysis(),
    "<b>other</b>": KNeighborsClassifier(15),
    PRIOR_BASELINE: DummyClassifier(strategy="prior"),
}
PLAIN = ["a", "b", "c"]
HOSTILE = ["<script>document.title = 'owned'</script>", "\"'</style>\u202e\N{PILE OF POO}", "x" * 300]


def make_table(names: list[str]) -> Table:
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
    table = make_table(PLAIN)
    return diagnose(table.X, table.y, cv=2, n_mixed=300)


@pytest.fixture(scope="module")
def results() -> pd.DataFrame:
    return compare(make_table(PLAIN), METHODS, n_splits=5)


def rename_classes(diagnosis: Diagnosis, names: list[str]) -> Diagnosis:
    """Return the diagnosis with other class names."""
    assert diagnosis.mixed is not None
    new = dict(zip(PLAIN, names, strict=True))
    frames = {
        part: frame.assign(class_1=frame["class_1"].map(new), class_2=frame["class_2"].map(new))
        for part, frame in (("pairs", diagnosis.mixed.pairs), ("lambdas", diagnosis.mixed.lambdas))
    }
    return replace(diagnosis, classes=np.array(names, dtype=object), mixed=diagnosis.mixed._replace(**frames))


def with_four_features(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis as if the table had four features."""
    assert diagnosis.mixed is not None
    more = np.random.default_rng(1).normal(size=(60, 2))
    points = np.concatenate([diagnosis.mixed.points, more], axis=1)
    return replace(diagnosis, d=4, regions=None, mixed=diagnosis.mixed._replace(points=points))


def with_many_classes(diagnosis: Diagnosis) -> tuple[Table, None, Diagnosis]:
    """Return a table and its diagnosis as if it had thirty classes, three of them with rows."""
    assert diagnosis.experiment is not None
    names = np.array([f"kind {c:02}" for c in range(30)], dtype=object)
    counts = {
        name: replace(count, classes=tuple(names), confusion=np.pad(count.confusion, (0, 27)))
        for name, count in diagnosis.experiment.counts.items()
    }
    wide = rename_classes(diagnosis, names[:3].tolist())
    assert wide.mixed is not None
    samples = wide.mixed.samples
    linear, generated = (np.pad(part, ((0, 0), (0, 27))) for part in (samples.linear_labels, samples.density_labels))
    mixed = wide.mixed._replace(samples=samples._replace(linear_labels=linear, density_labels=generated))
    experiment = diagnosis.experiment._replace(counts=counts)
    return make_table(names[:3].tolist()), None, replace(wide, classes=names, mixed=mixed, experiment=experiment)


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
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def reports(results: pd.DataFrame, diagnosed: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a page of each kind; return their paths."""
    folder, table = tmp_path_factory.mktemp("reports"), make_table(PLAIN)
    hostile = results.assign(held_out=[counts | {"classes": HOSTILE} for counts in results["held_out"]])
    two_classes = replace(table, X=table.X[:50], y=table.y[:50])
    not_trusted = replace(
        diagnosed,
        verdict=DiagnosisVerdict("not trusted", SENTENCES["not trusted"], ["it knows nothing"]),
        mixed=None,
        experiment=None,
        regions=None,
    )
    parts: dict[str, tuple[Any, ...]] = {
        "both": (table, results, diagnosed),
        "hostile": (make_table(HOSTILE), hostile, rename_classes(diagnosed, HOSTILE)),
        "comparison": (table, results.drop(columns="held_out")),
        "not counted": (table, results.drop(columns="held_out"), diagnosed),  # as read from the CSV of compare
        "diagnosis": (table, None, diagnosed),
        "one split": (table, results[results["split"] == 0]),
        "not trusted": (table, results, not_trusted),
        "four features": (table, None, with_four_features(diagnosed)),
        "many classes": with_many_classes(diagnosed),
        "two classes": (two_classes, compare(two_classes, METHODS, n_splits=5)),
    }
    for kind, arguments in parts.items():
        text = HOSTILE[0] if kind == "hostile" else "words"
        write_report(folder / f"{kind}.html", *arguments, settings={"of": text}, command=f"genlabel compare {text}")
    return {kind: folder / f"{kind}.html" for kind in KINDS}


def page_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def page_json(path: Path) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return dict(json.loads(path.with_suffix(".json").read_text(encoding="utf-8"), parse_constant=refuse))


@each_kind
def test_report_is_valid_small_and_self_contained(
    reports: dict[str, Path], kind: str, read_html: Callable[[str], Any]
) -> None:
    text = page_text(reports[kind])
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


def test_same_input_gives_the_same_files(reports: dict[str, Path], diagnosed: Diagnosis) -> None:
    path = reports["diagnosis"].with_name("again.html")
    options = {"settings": {"of": "words"}, "command": "genlabel compare words"}
    write_report(path, make_table(PLAIN), None, diagnosed, **options)
    assert page_text(path).replace("again.json", "diagnosis.json") == page_text(reports["diagnosis"])
    assert page_json(path) == page_json(reports["diagnosis"])


def test_user_names_are_escaped(reports: dict[str, Path], read_html: Callable[[str], Any]) -> None:
    plain, hostile = (read_html(page_text(reports[kind])) for kind in ("both", "hostile"))
    kinds = {"script", "style", "b", "section", "figure", "table", "tr", "td"}
    counts = [[[tag for tag, _ in reader.tags].count(kind) for kind in sorted(kinds)] for reader in (plain, hostile)]
    assert counts[0] == counts[1]
    assert HOSTILE[0] in hostile.text
    assert "<b>other</b>" in hostile.text


@pytest.mark.parametrize("kind", ["both", "two classes"])
def test_confusion_and_class_scores_equal_scikit_learn(reports: dict[str, Path], kind: str) -> None:
    table = make_table(PLAIN)
    table = table if kind == "both" else replace(table, X=table.X[:50], y=table.y[:50])
    report = page_json(reports[kind])
    best = next(name for name in report["comparison"]["ranking"] if name != PRIOR_BASELINE)
    truth, predictions = [], []
    for train, test in make_splits(table, 5, 0.3, 0):
        model = table_pipeline(table.X, METHODS[best]).fit(table.X.iloc[train], table.y.iloc[train])
        truth += table.y.iloc[test].tolist()
        predictions += model.predict(table.X.iloc[test]).tolist()
    names = sorted(set(truth))
    confusion = np.zeros((len(names),) * 2, dtype=int)
    for i, j, count in report["held_out"][best]["confusion"]:
        confusion[i, j] = count
    np.testing.assert_array_equal(confusion, confusion_matrix(truth, predictions, labels=names))
    precision, recall, f1, _ = precision_recall_fscore_support(truth, predictions, labels=names, zero_division=np.nan)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", _table(reports[kind], f"Each class by {best}, "))
    width = len(cells) // len(names)
    for index in range(len(names)):
        cells_of_class = cells[width * index + 2 : width * index + 5]
        expected = [precision[index], recall[index], f1[index]]
        assert cells_of_class == ["" if np.isnan(value) else f"{100 * value:.1f} %" for value in expected]


def _table(path: Path, caption: str) -> str:
    text = page_text(path)
    return text[text.index("<tbody>", text.index(f"<caption><span>{caption}")) :].split("</tbody>")[0]


def test_sentences_follow_from_the_numbers(reports: dict[str, Path], read_html: Callable[[str], Any]) -> None:
    text = read_html(page_text(reports["both"])).text
    report = page_json(reports["both"])
    best = next(name for name in report["comparison"]["ranking"] if name != PRIOR_BASELINE)
    methods = report["comparison"]["methods"]
    assert best == min(set(methods) - {PRIOR_BASELINE}, key=lambda name: methods[name]["log_loss"]["mean"])
    assert f"has the lowest log-loss: {methods[best]['log_loss']['mean']:.3f} on average over 5 splits" in text
    assert report["diagnosis"]["verdict"]["sentence"] in text
    assert all(line in text for line in report["comparison"]["verdict"])
    assert text.index("Does mixing matter?") < text.index("The methods side by side")
    assert report["table"]["notes"][0] in text


def test_gains_have_one_sign_and_size(
    reports: dict[str, Path], diagnosed: Diagnosis, read_html: Callable[[str], Any]
) -> None:
    assert diagnosed.experiment is not None
    for kind in ("both", "diagnosis"):
        page, terminal = read_html(page_text(reports[kind])).text, str(diagnosed)
        for sentence in describe_gains(diagnosed.experiment):
            assert sentence in page
            assert sentence in terminal
        for name, gain in diagnosed.experiment.gains.items():
            arm, _, rival = name.partition(" over ")
            (words,) = set(re.findall(rf"{arm} against {rival}: [^,]+, log-loss (?:less than )?[\d.]+ (\w+)", page))
            assert words == ("lower" if gain.mean > 0 else "higher")


@each_kind
def test_probabilities_of_a_method_are_off_by_one_number(
    reports: dict[str, Path], kind: str, read_html: Callable[[str], Any]
) -> None:
    page = read_html(page_text(reports[kind])).text
    sentences = set(re.findall(r"(?:Its|The) probabilities (?:of \S+ )?are off by ([\d.]+)", page))
    assert len(sentences) <= 1
    assert not re.search(r"\b(nats?|blends?|class shares|vanilla|within noise)\b", page)


def test_empty_cells_are_named_with_what_fills_them(
    tmp_path: Path, results: pd.DataFrame, read_html: Callable[[str], Any]
) -> None:
    table = make_table(PLAIN)
    write_report(tmp_path / "full.html", replace(table, notes=[]), results)
    X = table.X.assign(color=["red", None] * 30)
    X.iloc[:7, 0] = np.nan
    write_report(tmp_path / "gaps.html", replace(table, X=X, notes=[]), results)
    full, gaps = (read_html(page_text(tmp_path / f"{name}.html")).text for name in ("full", "gaps"))
    assert "no cell is empty" in full
    assert "no cell is empty" not in gaps
    assert "7 empty cells of numbers" in gaps
    assert "30 empty cells of text" in gaps


def test_empty_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="report"):
        write_report(tmp_path / "x.html", make_table(PLAIN))
    with pytest.raises(ValueError, match="fit"):
        write_report(tmp_path / "x.html", make_table(PLAIN), pd.DataFrame())
    with pytest.raises(ValueError, match="json"):
        write_report(tmp_path / "x.json", make_table(PLAIN), pd.DataFrame())


def test_predictions_default_to_the_paired_experiment(
    reports: dict[str, Path], read_html: Callable[[str], Any]
) -> None:
    text, report = read_html(page_text(reports["not counted"])).text, page_json(reports["not counted"])
    experiment = report["diagnosis"]["experiment"]
    assert report["held_out"] == experiment["counts"]
    assert "in the folds of the short experiment" in text
    best = min(experiment["log_loss"], key=experiment["log_loss"].get)
    assert f"Confusion matrix of {best}" in text
    assert f"{best} finds" in text


def test_ranking_equals_the_comparison(reports: dict[str, Path], results: pd.DataFrame) -> None:
    assert page_json(reports["both"])["comparison"]["ranking"] == rank_methods(results)


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
    tags = read_html(page_text(reports[kind])).tags
    assert [attributes["id"] for tag, attributes in tags if tag == "section"] == expected


VIEWS = [(kind, 360, True) for kind in KINDS] + [("both", 1280, False), ("hostile", 1280, False)]


@pytest.mark.parametrize("kind, width, dark", VIEWS, ids=[f"{kind}-{width}" for kind, width, _ in VIEWS])
def test_browser_shows_every_figure_without_errors(
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


TEXTS = """return [...document.querySelectorAll('figure svg')].map((svg) => {
  const whole = svg.getBoundingClientRect(), box = (one) => { const r = one.getBoundingClientRect();
    return [r.left - whole.left, r.top - whole.top, r.right - whole.left, r.bottom - whole.top]; };
  const flat = (one) => { for (let e = one; e !== svg; e = e.parentElement)
    if (/rotate\\((?!0)/.test(e.getAttribute('transform') || '')) return false; return true; };
  const scale = (matrix) => Math.hypot(matrix.c, matrix.d);
  return { size: [whole.width, whole.height], texts: [...svg.querySelectorAll('text')].map((one) =>
    ({ text: one.textContent, box: box(one), flat: flat(one),
       height: parseFloat(getComputedStyle(one).fontSize) * scale(one.getScreenCTM()) })) }; })"""
"""Boxes of the texts of each figure, whether they are horizontal, and the height of their letters on the screen."""


@pytest.mark.parametrize("kind", ["both", "hostile", "two classes", "four features", "not trusted"])
def test_charts_are_readable_on_a_phone(browser: Any, reports: dict[str, Path], kind: str) -> None:
    browser.open(reports[kind], 400)
    for chart in browser.run(TEXTS):
        width, height = chart["size"]
        for text in chart["texts"]:
            left, top, right, bottom = text["box"]
            assert text["height"] >= 7.0, text
            assert -2 <= left <= right <= width + 2, (text, width)
            assert -2 <= top <= bottom <= height + 2, (text, height)
        boxes = [text for text in chart["texts"] if text["flat"]]
        for first, second in combinations(boxes, 2):
            across, down = (
                min(first["box"][i + 2], second["box"][i + 2]) - max(first["box"][i], second["box"][i]) for i in (0, 1)
            )
            assert min(across, down) <= 3, (first["text"], second["text"])


def test_figures_open_and_close_in_a_browser(browser: Any, reports: dict[str, Path]) -> None:
    browser.open(reports["hostile"])
    for index in range(browser.run("return document.querySelectorAll('figure').length")):
        browser.run(f"document.querySelectorAll('figure .larger')[{index}].click()")
        assert browser.run("return document.querySelector('dialog svg').getBoundingClientRect().height") > 30
        browser.press("\ue00c")
        assert browser.wait("!document.querySelector('dialog')")
    assert browser.complaints() == []


def test_scores_sort_in_a_browser(browser: Any, reports: dict[str, Path]) -> None:
    browser.open(reports["both"])
    column = "return [...document.querySelectorAll('#methods tbody')[0].rows].map((row) => row.cells[7].dataset.v)"
    before = browser.run(column)
    browser.click("#methods thead th:nth-child(8) button")
    assert browser.run(column) == sorted(before, key=float)


def test_one_split_states_no_noise_and_reasons_are_sentences(
    reports: dict[str, Path], read_html: Callable[[str], Any]
) -> None:
    one_split, not_trusted = (read_html(page_text(reports[kind])).text for kind in ("one split", "not trusted"))
    assert "--n-splits 10" in one_split
    assert "not clearly worse" not in one_split
    assert "It knows nothing." in not_trusted


def test_training_warnings_are_not_notes_on_the_table(
    tmp_path: Path, results: pd.DataFrame, read_html: Callable[[str], Any]
) -> None:
    table = replace(make_table(PLAIN), notes=["rows that equal an earlier row: 3"])
    write_report(tmp_path / "t.html", table, results, notes=[*table.notes, "some density was slow"])
    text = read_html(page_text(tmp_path / "t.html")).text
    assert text.count("rows that equal an earlier row: 3") == 2
    assert text.count("some density was slow") == 1


def test_questions_about_leaks_stand_whole_in_the_head(results: pd.DataFrame, tmp_path: Path) -> None:
    names = [f"a_long_name_of_a_column_{i}" for i in range(5)]
    reason = "it alone gives the class " * 9
    questions = [f"column {name!r}: {reason}; is it {QUESTION} If not, drop it" for name in names]
    notes = [*(f"a note {i}" for i in range(5)), *questions]
    table = replace(make_table(PLAIN), notes=notes)
    write_report(tmp_path / "q.html", table, results)
    head = unescape((tmp_path / "q.html").read_text(encoding="utf-8").split("<nav")[0])
    assert all(" ".join(question.split()) in " ".join(head.split()) for question in questions)
    assert "2 more notes" in head

"""Peers of the suite: each as it comes, any labels, a reason where it cannot run, a record where it fails."""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.data.datasets import Table, load_table
from genlabel.data.tables import make_splits
from genlabel.evaluation.records import SUITE, Fit, fingerprint, read_records
from genlabel_paper.benchmark import (
    BASELINES,
    METHODS,
    Baseline,
    BaselineClassifier,
    cost_ratios,
    count_worse_than_prior,
    report,
    run_suite,
    set_means,
    why_not,
)

REASONS = {name: why_not(name) for name in BASELINES}
ABSENT = Baseline("Absent", "no_such_package.Classifier", "no-such-package")
MODULE = """
from sklearn.dummy import DummyClassifier

class Forgetful(DummyClassifier):
    def fit(self, X, y):
        return super().fit(X[y != 1], y[y != 1])
"""


def each_that_can_run(aims: bool = True) -> list[Any]:
    """The names of the peers; without the aims, each class once."""
    return [
        pytest.param(name, marks=pytest.mark.skipif(reason is not None, reason=f"{name}: {reason}"))
        for name, reason in REASONS.items()
        if aims or not BASELINES[name].aim
    ]


def sample(rare: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two classes of 40 rows, further ones of `rare` rows, a constant column and one of zeros and ones."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2 + len(rare)), [40, 40, *rare])
    X = rng.normal(size=(len(y), 4)) + 3 * y[:, None]
    X[:, 0], X[:, 1] = 1.0, X[:, 1] > 1.5
    return X, y


# The registry


def test_a_peer_is_no_method() -> None:
    assert not set(BASELINES) & set(METHODS)
    as_they_come = {name for name, peer in BASELINES.items() if not peer.aim}
    assert {"catboost", "lightgbm", "xgboost", "forest", "realmlp", "tabm", "tabicl", "tabpfn"} == as_they_come
    assert len({peer.title for peer in BASELINES.values()}) == len(BASELINES)


@pytest.mark.parametrize("name", BASELINES)
def test_what_cannot_run_says_why_and_what_helps(name: str) -> None:
    reason, peer = REASONS[name], BASELINES[name]
    if reason is None:
        assert callable(peer.load())
        return
    assert ("pip install" in reason) or ("weights" in reason)
    with pytest.raises(ImportError, match=f"peer='{name}' cannot run here: ") as caught:
        BaselineClassifier(name).fit([[0.0], [1.0]], [0, 1])
    assert reason in str(caught.value)


def test_reasons() -> None:
    assert REASONS["forest"] is None
    hint = 'install it with pip install "genlabel[peers]"'
    assert ABSENT.why_not() == f"no-such-package is not installed; {hint}"
    lacking = Baseline("Lacking", "sklearn.dummy.DummyClassifier", "scikit-learn", weights=lambda: "no weights here")
    assert lacking.why_not() == "no weights here"
    broken = replace(lacking, weights=lambda: ABSENT.load())
    assert broken.why_not() == f"scikit-learn cannot be imported (No module named 'no_such_package'); {hint}"
    moved = replace(lacking, weights=lambda: object().path)  # type: ignore[attr-defined]
    assert "does not say where its weights are (AttributeError" in str(moved.why_not())
    with pytest.raises(ValueError, match="peer='boost' is not known; choose one of 'catboost'"):
        why_not("boost")


@pytest.mark.parametrize("name", each_that_can_run())
def test_only_threads_device_output_seed_and_aim_are_set(name: str) -> None:
    peer = BASELINES[name]
    assert any(value == 1 for value in peer.settings.values()) or name == "tabpfn"
    as_it_comes, made = peer.load()().get_params(), peer.make(7).get_params()
    changed = {key for key, value in made.items() if key not in as_it_comes or repr(as_it_comes[key]) != repr(value)}
    assert made[peer.seed] == 7
    assert changed <= {*peer.settings, *peer.aim, peer.seed}
    assert {"val_metric_name"} <= set(peer.aim) <= {"val_metric_name", "use_ls"} or not peer.aim


def test_a_fingerprint_covers_the_settings_behind_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = {name: fingerprint(estimator=BaselineClassifier(name)) for name in BASELINES}
    assert len(set(prints.values())) == len(BASELINES)
    monkeypatch.setitem(BASELINES, "forest", replace(BASELINES["forest"], settings={"n_jobs": 1, "max_depth": 3}))
    assert fingerprint(estimator=BaselineClassifier("forest")) != prints["forest"]
    assert fingerprint(estimator=BaselineClassifier("catboost")) == prints["catboost"]


@pytest.mark.parametrize("name", BASELINES)
def test_a_device_is_for_those_that_know_of_it(name: str) -> None:
    there, here = BASELINES[name].settings_on("cuda"), BASELINES[name].settings_on("cpu")
    knows = "device" in here
    assert there == (here | {"device": "cuda"} if knows else here)
    prints = {fingerprint(estimator=BaselineClassifier(name, device=device)) for device in ("cpu", "cuda")}
    assert len(prints) == 2
    assert fingerprint(estimator=BaselineClassifier(name)) in prints


# The classifier


@pytest.mark.filterwarnings("ignore")  # what other packages warn of is theirs
@pytest.mark.long
@pytest.mark.parametrize("name", each_that_can_run(aims=False))
def test_a_peer_takes_any_labels_and_rare_classes_and_says_nothing(
    name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and texts in the same order are the same problem; the same seed gives the same model."""
    monkeypatch.chdir(tmp_path)
    X, y = sample(rare=(1, 2))
    heard = logging.root.manager.disable
    found = []
    for labels in (np.array([-3, 5, 7, 100]), np.array(["no", "perhaps", "there", "yes"])):
        model = clone(BaselineClassifier(name, random_state=0)).fit(X, labels[y])
        assert model.classes_.tolist() == labels.tolist()
        proba = model.predict_proba(X[:50])
        assert proba.shape == (50, 4)
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
        assert set(model.predict(X)) <= set(labels)
        found.append(proba)
    np.testing.assert_array_equal(*found)
    assert (model.predict(X[:80]) == labels[y[:80]]).mean() > 0.9
    assert list(model.versions_) == [BASELINES[name].package]
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == heard
    assert list(tmp_path.iterdir()) == []


def test_what_a_peer_did_not_learn_has_no_probability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its module is imported when it is copied, which is before the clock starts."""
    (tmp_path / "forgetful_peer.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BASELINES, "forgetful", Baseline("Forgetful", "forgetful_peer.Forgetful", "scikit-learn"))
    model = BaselineClassifier("forgetful")
    assert "forgetful_peer" not in sys.modules
    copy = clone(model)
    assert "forgetful_peer" in sys.modules
    proba = copy.fit(np.zeros((4, 1)), list("abbc")).predict_proba(np.zeros((1, 1)))
    assert proba.tolist() == [[0.5, 0.0, 0.5]]


# Records


def load(number: int) -> Table:
    return load_table("iris" if number == 1 else "wine")


def test_a_peer_that_cannot_run_is_a_failure_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BASELINES, "absent", ABSENT)
    methods = {name: BaselineClassifier(name) for name in ("absent", "forest")}
    found = run_suite([1, 2], methods, 1, records=None, load=load)
    assert found.frame["method"].tolist() == ["forest", "forest"]
    assert set(found.failures) == {Fit(1, "absent", 0), Fit(2, "absent", 0)}
    assert all(
        "absent' cannot run here: no-such-package is not installed; " in text for text in found.failures.values()
    )
    assert {versions["scikit-learn"] for versions in found.frame["versions"]} == {sys.modules["sklearn"].__version__}


def test_a_record_has_the_cost_of_both_and_what_the_class_shares_get() -> None:
    table = load(2)
    found = run_suite([2], {"forest": BaselineClassifier("forest")}, 2, seed=3, records=None, load=load).frame
    assert (found[["seconds", "predict_seconds"]] > 0).all(axis=None)
    for (train, test), row in zip(make_splits(table, 2, 0.3, 3), found.to_dict("records"), strict=True):
        shares = DummyClassifier(strategy="prior").fit(table.X.iloc[train], table.y.iloc[train])
        expected = log_loss(table.y.iloc[test], shares.predict_proba(table.X.iloc[test]))
        assert row["shares_log_loss"] == pytest.approx(expected)
        assert row["log_loss"] < expected


# The report


def made() -> pd.DataFrame:
    """Two methods on three sets of one split: "a" has one accident, one that is not quite, and one good fit."""
    scores = {"a": ([1.111, 1.099, 0.2], [6.0, 2.0, 9.0]), "b": ([0.9, 0.8, 0.3], [1.0, 2.0, 3.0])}
    return pd.concat(
        pd.DataFrame({"dataset": [1, 2, 3], "method": name, "log_loss": losses, "seconds": seconds})
        for name, (losses, seconds) in scores.items()
    ).assign(
        split=0, name="t", accuracy=50.0, brier=0.2, calibration_error=0.1, shares_log_loss=1.0, predict_seconds=0.25
    )


def test_accidents_and_costs_by_hand() -> None:
    records = made()
    assert count_worse_than_prior(records).to_dict() == {"a": 1, "b": 0}
    assert cost_ratios(records, "a").loc["b"].to_dict() == {"median": 3.0, "total": 17 / 6}
    with pytest.raises(ValueError, match="reference='c' is not known"):
        cost_ratios(records, "c")


def test_the_report_has_accidents_and_costs() -> None:
    _, cost, log_losses, _ = report(made(), reference="a")
    assert cost.rows is not None
    assert cost.rows.loc["a"].tolist() == ["6", "0.25", "1", "1", "1"]
    assert cost.rows.loc["b"].tolist() == ["2", "0.25", "0", "3", "2.83"]
    assert "accidents: of 3 fits, those with a log-loss more than 10 % above the class shares'" in cost.lines
    assert "a has lower log-loss than b on 33 % of 3 sets, higher on 67 %" in log_losses.lines[0]
    older = made().drop(columns=["shares_log_loss", "predict_seconds"])
    mixed = made().assign(shares_log_loss=[np.nan, *[1.0] * 5], predict_seconds=np.nan)
    for records in (older, mixed):
        rows = report(records, reference="a")[1].rows
        assert rows is not None
        assert list(rows.columns) == ["fit (s)", "times, median", "in total"]


# The command line


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["suite", *arguments], prog_name="genlabel", env={"COLUMNS": "160"})


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command in an empty folder, with one cheap method, one peer that can run and one that cannot."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "genlabel_paper.benchmark.methods.METHODS", {"default": lambda **_: LogisticRegression(max_iter=5000)}
    )
    for name in [name for name in BASELINES if name != "forest"]:
        monkeypatch.delitem(BASELINES, name)
    monkeypatch.setitem(BASELINES, "absent", ABSENT)
    monkeypatch.setitem(BASELINES, "aimed", replace(BASELINES["forest"], title="Aimed", aim={"criterion": "log_loss"}))
    monkeypatch.setattr("genlabel.data.datasets.load_openml", lambda number, data_home: load(number))
    return tmp_path


def test_the_list_names_methods_and_peers(few: Path) -> None:
    listed = invoke("--list")
    assert listed.exit_code == 0
    assert listed.stdout.splitlines() == [
        "methods: default",
        "peer: forest (random forest): can run here",
        f"peer: absent (Absent): {ABSENT.why_not()}",
        "peer: aimed (Aimed): can run here",
    ]
    assert list(few.iterdir()) == []


def test_peers_join_the_methods_and_the_others_are_told(few: Path) -> None:
    result = invoke("1", "2", "--peers", "--repeats", "1")
    assert result.exit_code == 0, result.output
    assert f"skipped: absent: {ABSENT.why_not()}" in result.stderr.splitlines()
    records = read_records("build/suite.sqlite", SUITE)
    assert records.groupby("method").size().to_dict() == {"default": 2, "forest": 2}
    for name, mean in set_means(records, "log_loss").mean().items():
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [name] and "%" not in line][:1]
        assert f"{mean:.4f}" in line
    named = invoke("1", "--methods", "forest", "--repeats", "1", "--records", "f.sqlite")
    assert named.exit_code == 0
    assert read_records("f.sqlite", SUITE)["method"].tolist() == ["forest"]
    aimed = invoke("1", "--methods", "aimed", "--repeats", "1", "--records", "a.sqlite")
    assert aimed.exit_code == 0
    assert read_records("a.sqlite", SUITE)["method"].tolist() == ["aimed"]
    both = invoke("1", "--methods", "forest", "--peers", "--repeats", "1", "--records", "f.sqlite")
    assert "fits on record: 1; to do: 0" in both.stderr
    assert invoke("--report-only", "--methods", "default,forest").exit_code == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["1", "--methods", "default,absent"], "methods='absent' cannot run here: no-such-package is not installed"),
        (
            ["1", "--methods", "magic"],
            "methods='magic' is not known; choose among 'default', 'forest', 'absent',",
        ),
        (["--report-only", "--peers"], "--peers trains; --report-only has all that is on record"),
    ],
)
def test_what_cannot_be_run_ends_in_one_line(few: Path, arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert list(few.iterdir()) == []

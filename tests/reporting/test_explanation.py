"""The section of the report on the columns that move the predictions, and the option of `genlabel compare`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from genlabel import GenerativeClassifier, explain
from genlabel.cli import app
from genlabel.data.tables import Table, read_table
from genlabel.evaluation import comparison
from genlabel.evaluation.comparison import PRIOR_BASELINE, compare
from genlabel.evaluation.table_explanations import MAX_HELD_OUT, explain_held_out
from genlabel.evaluation.table_models import TABLE_METHODS
from genlabel.reporting import write_report
from genlabel.reporting.report.explanation import MAX_BARS, explanation_section


def wide_table(d: int) -> Table:
    """A table whose first column alone decides."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(60) % 2)
    X = pd.DataFrame(rng.normal(size=(60, d)), columns=["a<b>", *(f"x{j}" for j in range(1, d))])
    X["a<b>"] += 2 * y
    return Table("t", X, pd.Series(np.where(y, "yes", "no")))


@pytest.mark.parametrize("d", [1, 3, MAX_BARS + 5])
def test_bars_are_the_mean_absolute_contributions(d: int, tmp_path: Path) -> None:
    table = wide_table(d)
    model = GenerativeClassifier().fit(table.X, table.y)
    explanation = explain(model, table.X[:10], table.X, table.y, n_background=10)
    expected = np.abs(explanation.contributions[:, :, 0]).mean(axis=0)
    np.testing.assert_allclose(explanation.mean_absolute, expected)  # of two classes
    chart = explanation_section(explanation).blocks[1]
    (ax,) = chart.figure.axes  # type: ignore[union-attr]
    widths = [bar.get_width() for bar in ax.patches]
    assert len(widths) == min(d, MAX_BARS + 1)
    assert widths[0] == pytest.approx(100 * expected.max())
    assert sum(widths) == pytest.approx(100 * expected.sum())
    results = compare(table, {"gaussian": GenerativeClassifier()}, 2)
    write_report(tmp_path / "page.html", table, results, explanation=explanation)
    values = json.loads((tmp_path / "page.json").read_text())["explanation"]
    assert values["mean_absolute"] == pytest.approx(dict(zip(table.X.columns, expected, strict=True)))
    page = (tmp_path / "page.html").read_text()
    assert 'id="columns"' in page
    assert "a<b>" not in page
    write_report(tmp_path / "page.html", table, results)
    assert 'id="columns"' not in (tmp_path / "page.html").read_text()


def test_held_out_rows_are_explained_in_columns_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    late = rng.random(120) < 0.5
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, 120), "D")
    frame = pd.DataFrame({"since": days.strftime("%m/%d/%Y"), "calls": rng.poisson(1 + 3 * late), "late": late})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", "late")
    assert table.X.shape[1] > 2
    explanation = explain_held_out(table, GenerativeClassifier(), test_size=0.3, seed=1)
    assert explanation.columns == ["since", "calls"]
    assert len(explanation.values) == MAX_HELD_OUT
    assert explanation.neighbors["distance"].groupby(level=0).min().median() > 0  # they are not training rows
    assert explanation.mean_absolute[1] > explanation.mean_absolute[0]


@pytest.mark.parametrize("method", [GenerativeClassifier(), LogisticRegression()], ids=["ours", "other"])
def test_compare_explains_its_best_method_or_says_why_not(
    method: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = wide_table(2)
    table.X.set_axis(["a", "b"], axis=1).assign(y=table.y).to_csv("t.csv", index=False)
    name = next(iter(TABLE_METHODS.values()))
    monkeypatch.setattr(comparison, "default_methods", lambda *_: {name: method, PRIOR_BASELINE: DummyClassifier()})
    arguments = ["compare", "t.csv", "--target", "y", "--n-splits", "2", "--jobs", "1", "--no-diagnosis"]
    result = CliRunner().invoke(app, [*arguments, "--report", "page.html"], prog_name="genlabel")
    assert result.exit_code == 0, result.output
    values = json.loads(Path("page.json").read_text())
    notes = [note for note in values["table"]["notes"] if "LogisticRegression" in note]
    if isinstance(method, LogisticRegression):
        assert len(notes) == 1
        assert "explanation" not in values
    else:
        assert not notes
        assert values["explanation"]["model"] == name
        assert set(values["explanation"]["mean_absolute"]) == {"a", "b"}
    again = CliRunner().invoke(app, [*arguments, "--report", "page.html", "--no-explanation"], prog_name="genlabel")
    assert again.exit_code == 0, again.output
    assert "explanation" not in json.loads(Path("page.json").read_text())

"""Command `genlabel reproduce`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel.cli import add_commands, app
from genlabel.evaluation.records import Record, open_store
from genlabel_paper.exports import load_records
from genlabel_paper.registry import find
from genlabel_paper.report.experiment import rerun_command, select_cells
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell
from genlabel_paper.runs.trials import fingerprint_cell

RESULTS = Path(__file__).parents[2] / "results" / "paper"
MIRROR = Path(__file__).parents[3] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs the OpenML mirror")
SAME = ["id", "setting", "dataset", "method", "alpha", "split", "seed", "parameters", "accuracy", "log_loss"]


def run(*words: str | Path) -> tuple[int, str]:
    add_commands()
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


def test_list_names_every_table_and_figure() -> None:
    code, text = run("reproduce", "--list")
    assert code == 0
    for name in (*(f"table{i}" for i in range(1, 10)), *(f"figure{i}" for i in (2, 3, 4, 5, 6, 7, 8, 9))):
        assert re.search(rf"^{name} ", text, flags=re.M), name
    assert text.count("computed, nothing is trained") == 4


DRAWN = ["figure2", *(pytest.param(name, marks=pytest.mark.long) for name in ("figure4", "figure7", "figure8"))]
"""The documentation renders all of them, also in CI."""


@pytest.mark.parametrize("name", DRAWN)
def test_computed_figure_ignores_the_records(tmp_path: Path, name: str) -> None:
    records = tmp_path / "records.sqlite"
    records.write_text("not to be touched")
    code, text = run("reproduce", name, "--restart", "--records", records, "--figures", tmp_path / "figures")
    assert code == 0, text
    assert records.read_text() == "not to be touched"
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn
    assert all(file.startswith(name) and file in text.replace("\n", "") for file in drawn)


@pytest.mark.parametrize(
    ("words", "keyword"),
    [
        ((), "table"),
        (("table16",), "'table16'"),
        (("table7", "--dataset", "imagenet"), "'imagenet'"),
        (("figure2", "--dataset", "mnist"), "--dataset"),
        (("table4", "--budget", "smoke", "--dask", "localhost"), "tcp://"),
        (("table4", "--budget", "huge"), "--budget 'huge'"),
        (("figure2", "--budget", "huge"), "--budget 'huge'"),
        (("table4", "--jobs", "0"), "--jobs 0"),
        (("table4", "--budget", "smoke", "--dask", "tcp://127.0.0.1:9"), "127.0.0.1:9"),
    ],
)
def test_invalid_input_is_one_error_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], keyword: str
) -> None:
    monkeypatch.setattr("genlabel.evaluation.records.run.TIMEOUT_SECONDS", 1)
    code, text = run("reproduce", *words, "--records", tmp_path / "records.sqlite")
    assert code == 2
    assert keyword in text
    assert "Traceback" not in text


CHECK_ERRORS = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import add_commands, app
from genlabel_paper.exports import load_records
add_commands()
for words, keyword in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2, (words, result.output)
    assert keyword in result.output.replace("\\n", ""), (words, result.output)
    assert "torch" not in sys.modules, words
"""


def test_errors_are_reported_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    note, none, records = (str(tmp_path / name) for name in ("note.txt", "none.sqlite", "records.sqlite"))
    reproduce = ["reproduce", "--records", records]
    page = ["reproduce", "--report-only", "--report", str(tmp_path / "page.html")]
    invalid = [
        ([*reproduce, "table16"], "'table16'"),
        ([*reproduce, "table4", "--budget", "huge"], "--budget 'huge'"),
        ([*reproduce, "table4", "--jobs", "-2"], "--jobs -2"),
        ([*reproduce, "table4", "--dask", "localhost"], "tcp://"),
        (["reproduce", "table4", "--records", note], "is not a store of records"),
        (["reproduce", "table4", "--records", str(tmp_path)], "is a folder"),
        ([*reproduce, "figure3", "--figures", note], "cannot be made a folder"),
        ([*page, "table16"], "'table16'"),
        ([*page, "all", "--records", none], "none.sqlite"),
        ([*page, "all", "--records", note], "(.sqlite)"),
        ([*page, "all", "--records", str(tmp_path)], "*.json"),
    ]
    command = [sys.executable, "-c", CHECK_ERRORS, json.dumps(invalid)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_page_of_computed_figures_needs_no_records(tmp_path: Path) -> None:
    page, none = tmp_path / "report.html", tmp_path / "none.sqlite"
    code, text = run("reproduce", "figure2", "--report", page, "--records", none)
    assert code == 0, text
    assert "7/16" in page.read_text()
    assert "none needed" in page.read_text()
    code, text = run("reproduce", "figure2", "table4", "--report-only", "--report", page, "--records", none)
    assert code == 2
    assert "none.sqlite" in text.replace("\n", "")


@needs_mirror
def test_table_end_to_end(tmp_path: Path) -> None:
    store, page, exports = tmp_path / "records.sqlite", tmp_path / "report.html", tmp_path / "results"
    words = ("reproduce", "table4", "--budget", "smoke", "--jobs", "1", "--records", store, "--data-home", MIRROR)
    code, text = run(*words)
    assert code == 0, text
    assert "61.33" in text  # printed for 817, one of the two smallest
    before = load_records(store, PAPER_SCHEMA).frame
    assert len(before) == 24  # under both protocols
    code, text = run(*words)
    assert code == 0
    assert "cells recorded: 24; to do: 0" in text
    pd.testing.assert_frame_equal(load_records(store, PAPER_SCHEMA).frame, before)

    code, text = run("reproduce", "table4", "--report-only", "--report", page, "--records", store, "--export", exports)
    assert code == 0, text
    html = page.read_text()
    assert "table4" in html
    assert f"{100 * before['accuracy'].dropna().iloc[0]:.2f}" in html
    assert json.loads((exports / "logistic.json").read_text())
    exported = load_records(exports, PAPER_SCHEMA).frame
    assert sorted(exported["id"]) == sorted(before["id"])
    other = tmp_path / "other.html"
    assert run("reproduce", "table4", "--report-only", "--report", other, "--records", exports)[0] == 0
    assert "cannot be told" in text_of(run(*words))

    save(store, {Cell("logistic", "817", "vanilla", 1, 0): 0.0, Cell("gone", "817", "vanilla", 0, 0): 0.0}, "old")
    code, output_with_outdated = run(*words)
    assert code == 0
    assert LEFT_OUT + "2." in output_with_outdated.replace("\n", " ")
    assert f"{100 * before['accuracy'].dropna().iloc[0]:.2f}" in output_with_outdated
    before = load_records(store, PAPER_SCHEMA).frame

    code, text = run("reproduce", "table4", "--report-only", "--report", store, "--records", store)
    assert code == 2
    assert "HTML" in text
    pd.testing.assert_frame_equal(load_records(store, PAPER_SCHEMA).frame, before)


LEFT_OUT = "Records left out, because they were made with other settings: "


def save(path: Path, accuracies: dict[Cell, float], made: str | None = None) -> None:
    """Write records to a store, with the current fingerprint if none is given."""
    with open_store(path, PAPER_SCHEMA) as store:
        for cell, accuracy in accuracies.items():
            metrics = {"accuracy": accuracy, "log_loss": 0.5}
            record = Record(key=cell, parameters={}, metrics=metrics, seconds=0.1, versions={})
            store.write([record], {cell.id: made or fingerprint_cell(cell)})


def test_outdated_records_are_left_out_and_counted(tmp_path: Path) -> None:
    store, page = tmp_path / "records.sqlite", tmp_path / "page.html"
    words = ("reproduce", "table4", "--report-only", "--report", page, "--records", store)
    save(store, {Cell("logistic", "817", "vanilla", 0, seed): 0.7123 for seed in range(2)})
    assert LEFT_OUT not in text_of(run(*words)).replace("\n", " ")
    assert LEFT_OUT not in page.read_text()
    unknown = [Cell("logistic", "817", "magic", 0, 0), Cell("synthetic", "spiral", "vanilla", 0, 0)]
    unknown += [Cell("logistic", "817", "vanilla", 0, 0, alpha=7.0), Cell("old", "817", "vanilla", 0, 0)]
    save(store, {Cell("logistic", "817", "vanilla", 0, 2): 0.1123} | dict.fromkeys(unknown, 0.1123), "old")
    code, text = run(*words, "--export", tmp_path / "all")
    assert code == 0, text
    for output in (text.replace("\n", " "), page.read_text()):
        assert LEFT_OUT + "5." in output
    assert "71.23" in page.read_text()
    assert "51.23" not in page.read_text()
    exported = load_records(tmp_path / "all", PAPER_SCHEMA).frame
    assert exported["fingerprint"].tolist() == load_records(store, PAPER_SCHEMA).frame["fingerprint"].tolist()
    save(store, dict.fromkeys([Cell("logistic", "817", "vanilla", 0, seed) for seed in range(2)], 0.0), "older")
    assert run(*words)[0] == 0
    assert "71.23" not in page.read_text()
    assert LEFT_OUT + "7." in page.read_text()


def text_of(result: tuple[int, str]) -> str:
    return result[1]


@needs_mirror
def test_exports_of_a_larger_study_are_not_overwritten(tmp_path: Path) -> None:
    words = ("reproduce", "table1", "--budget", "smoke", "--jobs", "1", "--data-home", MIRROR)
    assert run(*words, "--records", tmp_path / "a.sqlite")[0] == 0
    page = ("reproduce", "table1", "--report-only", "--report", tmp_path / "page.html")
    assert run(*page, "--records", tmp_path / "a.sqlite", "--export", tmp_path / "exports")[0] == 0
    exports = {path.name: path.read_bytes() for path in (tmp_path / "exports").iterdir()}
    names = ["logistic.json", "multiverse-logistic.json", "multiverse-synthetic.json", "synthetic.json"]
    assert sorted(exports) == names
    assert run(*page, "--records", tmp_path / "exports" / "logistic.json", "--export", tmp_path / "exports")[0] == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "exports").iterdir()} == exports
    assert run(*page, "--records", tmp_path / "a.sqlite", "--export", tmp_path / "exports")[0] == 0


def test_records_go_to_a_file_and_figures_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    code, text = run("reproduce", "table1", "--budget", "smoke", "--records", tmp_path)
    assert (code, "is a folder; records are written to one file" in text) == (2, True)
    code, text = run("reproduce", "table1", "--budget", "smoke", "--records", tmp_path / "note.txt")
    assert (code, "is not a store of records" in text) == (2, True)
    words = ("--records", tmp_path / "r.sqlite", "--figures", tmp_path / "note.txt")
    code, text = run("reproduce", "figure3", "--budget", "smoke", *words)
    assert (code, "cannot be made a folder" in text) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_report_without_records_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, text = run("reproduce", "all", "--report-only", "--report", page, "--records", tmp_path / "none.sqlite")
    assert code == 2
    assert "none.sqlite" in text
    assert not page.exists()


@needs_mirror
def test_missing_datasets_are_reported_and_the_others_run(tmp_path: Path) -> None:
    """Without cached datasets and network, each dataset is one line, and the exit code is 1."""
    words = ["reproduce", "table1", "--budget", "smoke", "--jobs", "1", "--records", tmp_path / "r.sqlite"]
    words += ["--dataset", "61", "--dataset", "927", "--dataset", "circle"]
    code, text = run(*words, "--data-home", tmp_path)
    assert code == 1
    assert text.count("is not cached in") >= 2
    assert "failed: 4 of the trials" in text  # each dataset under both protocols
    assert set(load_records(tmp_path / "r.sqlite", PAPER_SCHEMA).frame["dataset"]) == {"circle"}


@pytest.mark.long  # kills are tested with the runner
@needs_mirror
def test_killed_run_resumes_to_the_same_records(tmp_path: Path) -> None:
    words = ["reproduce", "table1", "table6", "--budget", "smoke", "--jobs", "1"]
    words += ["--data-home", str(MIRROR), "--figures", str(tmp_path)]
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    assert run(*words, "--records", whole)[0] == 0
    command = [sys.executable, "-m", "genlabel", *words, "--records", str(killed)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not _count(killed):
        assert child.poll() is None
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    done = _count(killed)
    assert 0 < done < _count(whole)
    code, text = run(*words, "--records", killed)
    assert code == 0, text
    assert f"cells recorded: {done}" in text
    pd.testing.assert_frame_equal(
        load_records(killed, PAPER_SCHEMA).frame[SAME], load_records(whole, PAPER_SCHEMA).frame[SAME]
    )


def _count(path: Path) -> int:
    try:
        return len(load_records(path, PAPER_SCHEMA).frame)
    except (OSError, ValueError):
        return 0


IMPORTS = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import add_commands, app
add_commands()
result = CliRunner().invoke(app, json.loads(sys.argv[1]))
assert result.exit_code == 0, result.output
print(json.dumps([name for name in sys.modules if name.startswith("genlabel")]))
"""


def test_one_table_imports_only_its_settings(tmp_path: Path) -> None:
    words = ["reproduce", "table1", "--budget", "smoke", "--jobs", "1", "--dataset", "circle"]
    words += ["--records", str(tmp_path / "records.sqlite")]
    result = subprocess.run([sys.executable, "-c", IMPORTS, json.dumps(words)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    imported = set(json.loads(result.stdout.splitlines()[-1]))
    assert "genlabel_paper.runs.table_settings" in imported
    settings = ("genmix", "genmix_hidden", "images", "schedules")
    assert not imported & {f"genlabel_paper.runs.{name}" for name in settings}
    assert {name for name in imported if ".experiments." in name} == {"genlabel_paper.experiments.table1"}


@needs_mirror
@pytest.mark.parametrize("table, draw", [("table2", 0), ("table3", 1), ("table6", 2)])
def test_command_of_the_page_repeats_a_recorded_cell_drawn_at_random(tmp_path: Path, table: str, draw: int) -> None:
    records = load_records(RESULTS, PAPER_SCHEMA).frame.set_index("id", drop=False)
    (experiment,) = find([table])
    cells = [cell.id for cell in select_cells([experiment], "full") if cell.id in records.index]
    cheap = records.loc[cells].query("seconds < 1")
    drawn = cheap.sample(1, random_state=draw)
    words = rerun_command(experiment, drawn).split()[1:-1]
    code, text = run(*words, tmp_path / "again.sqlite", "--jobs", "1", "--data-home", MIRROR)
    assert code == 0, text
    again = load_records(tmp_path / "again.sqlite", PAPER_SCHEMA).frame.set_index("id", drop=False)
    assert set(drawn["id"]) <= set(again.index)
    recorded = records.reindex(again.index)
    assert again["fingerprint"].eq(recorded["fingerprint"]).all()
    metrics = again.select_dtypes("float").drop(columns=["seconds", "alpha"]).dropna(axis=1)
    assert len(metrics.columns)
    for metric, values in metrics.items():
        assert values.to_numpy() == pytest.approx(recorded[metric].to_numpy(float), abs=1e-4), metric

"""`genlabel reproduce` and `genlabel report` as a user runs them."""

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
from genlabel.evaluation.records import Record, open_store, read_records
from genlabel_paper.runs.cells import STUDY, Cell
from genlabel_paper.runs.trials import fingerprint_cell

MIRROR = Path(__file__).parents[3] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="the OpenML mirror is not at hand")
SAME = ["id", "setting", "dataset", "method", "alpha", "split", "seed", "parameters", "accuracy", "log_loss"]


def run(*words: str | Path) -> tuple[int, str]:
    add_commands()
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, found.output


def test_the_list_names_every_table_and_figure() -> None:
    code, text = run("reproduce", "--list")
    assert code == 0
    for name in (*(f"table{i}" for i in range(1, 10)), *(f"figure{i}" for i in (2, 3, 4, 5, 6, 7, 8, 9))):
        assert re.search(rf"^{name} ", text, flags=re.M), name
    assert text.count("computed, nothing is trained") == 4


DRAWN = ["figure2", *(pytest.param(name, marks=pytest.mark.long) for name in ("figure4", "figure7", "figure8"))]
"""The site draws them all, in the gate too."""


@pytest.mark.parametrize("name", DRAWN)
def test_a_computed_figure_is_drawn_without_records_and_leaves_those_there_are(tmp_path: Path, name: str) -> None:
    records = tmp_path / "records.sqlite"
    records.write_text("not to be touched")
    code, text = run("reproduce", name, "--restart", "--records", records, "--pictures", tmp_path / "pictures")
    assert code == 0, text
    assert records.read_text() == "not to be touched"
    drawn = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert drawn
    assert all(file.startswith(name) and file in text.replace("\n", "") for file in drawn)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a table or figure"),
        (("table16",), "table or figure 'table16' is not known"),
        (("table7", "--dataset", "imagenet"), "dataset 'imagenet' is not one of table7"),
        (("figure2", "--dataset", "mnist"), "nothing is trained; leave out --dataset"),
        (("table4", "--budget", "smoke", "--dask", "localhost"), "write it as tcp://host:8786"),
        (("table4", "--budget", "huge"), "budget='huge' is not known"),
        (("figure2", "--budget", "huge"), "budget='huge' is not known"),
        (("table4", "--jobs", "0"), "jobs=0 must be at least 1"),
        (("table4", "--budget", "smoke", "--dask", "tcp://127.0.0.1:9"), "127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr("genlabel.evaluation.records.run.TIMEOUT_SECONDS", 1)
    code, text = run("reproduce", *words, "--records", tmp_path / "records.sqlite")
    assert code == 2
    assert message in text
    assert "Traceback" not in text


AT_ONCE = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import add_commands, app
from genlabel.evaluation.records import read_records
add_commands()
for words, message in json.loads(sys.argv[1]):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2, (words, found.output)
    assert message in found.output.replace("\\n", " "), (words, found.output)
    assert "torch" not in sys.modules, words
"""


def test_what_is_wrong_is_told_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    note, none, records = (str(tmp_path / name) for name in ("note.txt", "none.sqlite", "records.sqlite"))
    reproduce = ["reproduce", "--records", records]
    page = ["report", "-o", str(tmp_path / "page.html")]
    wrong = [
        ([*reproduce, "table16"], "table or figure 'table16' is not known"),
        ([*reproduce, "table4", "--budget", "huge"], "budget='huge' is not known"),
        ([*reproduce, "table4", "--jobs", "-2"], "jobs=-2 must be at least 1"),
        ([*reproduce, "table4", "--dask", "localhost"], "write it as tcp://host:8786"),
        (["reproduce", "table4", "--records", note], "is no store of records"),
        (["reproduce", "table4", "--records", str(tmp_path)], "is a folder"),
        ([*reproduce, "figure3", "--pictures", note], "cannot be made a folder"),
        ([*page, "--only", "table16"], "table or figure 'table16' is not known"),
        ([*page, "--records", none], "there is no file of records"),
        ([*page, "--records", note], "name a store (.sqlite), an export (.json) or a folder of exports"),
        ([*page, "--records", str(tmp_path)], "there is no export (*.json) in the folder"),
    ]
    command = [sys.executable, "-c", AT_ONCE, json.dumps(wrong)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_page_of_computed_figures_needs_no_records(tmp_path: Path) -> None:
    page, none = tmp_path / "report.html", tmp_path / "none.sqlite"
    code, text = run("report", "-o", page, "--only", "figure2", "--records", none)
    assert code == 0, text
    assert "7/16" in page.read_text()
    assert "none needed" in page.read_text()
    code, text = run("report", "-o", page, "--only", "figure2", "--only", "table4", "--records", none)
    assert code == 2
    assert "none.sqlite" in text.replace("\n", "")


@needs_mirror
def test_a_table_is_run_shown_resumed_reported_and_exported(tmp_path: Path) -> None:
    store, page, exports = tmp_path / "records.sqlite", tmp_path / "report.html", tmp_path / "results"
    words = ("reproduce", "table4", "--budget", "smoke", "--jobs", "1", "--records", store, "--data-home", MIRROR)
    code, text = run(*words)
    assert code == 0, text
    assert "61.33" in text  # printed for 817, one of the two smallest
    before = read_records(store, STUDY)
    assert len(before) == 12
    code, text = run(*words)
    assert code == 0
    assert "cells on record: 12; to do: 0" in text
    pd.testing.assert_frame_equal(read_records(store, STUDY), before)

    code, text = run("report", "-o", page, "--only", "table4", "--records", store, "--export", exports)
    assert code == 0, text
    html = page.read_text()
    assert "table4" in html
    assert f"{before['accuracy'].iloc[0]:.2f}" in html
    assert json.loads((exports / "logistic.json").read_text())
    again = read_records(exports, STUDY)
    assert sorted(again["id"]) == sorted(before["id"])
    assert run("report", "-o", tmp_path / "other.html", "--only", "table4", "--records", exports)[0] == 0
    assert "so far" in text_of(run(*words))

    keep(store, {Cell("logistic", "817", "vanilla", 1, 0): 0.0, Cell("gone", "817", "vanilla", 0, 0): 0.0}, "of old")
    code, again_shown = run(*words)
    assert code == 0
    assert LEFT_OUT + "2." in again_shown.replace("\n", " ")
    assert f"{before['accuracy'].iloc[0]:.2f}" in again_shown
    before = read_records(store, STUDY)

    code, text = run("report", "-o", store, "--records", store)
    assert code == 2
    assert "the page is HTML" in text
    pd.testing.assert_frame_equal(read_records(store, STUDY), before)


LEFT_OUT = "Records left out, because they were made with other settings than those of today: "


def keep(path: Path, accuracies: dict[Cell, float], made: str | None = None) -> None:
    """Put records in a store, with a fingerprint, that of today if none is given."""
    with open_store(path, STUDY) as store:
        for cell, accuracy in accuracies.items():
            metrics = {"accuracy": accuracy, "log_loss": 0.5}
            record = Record(cell=cell, parameters={}, metrics=metrics, seconds=0.1, versions={})
            store.write([record], {cell.id: made or fingerprint_cell(cell)})


def test_records_of_other_settings_are_left_out_of_the_page_and_counted(tmp_path: Path) -> None:
    store, page = tmp_path / "records.sqlite", tmp_path / "page.html"
    words = ("report", "-o", page, "--only", "table4", "--records", store)
    keep(store, {Cell("logistic", "817", "vanilla", 0, seed): 71.23 for seed in range(2)})
    assert "left out" not in text_of(run(*words))
    assert "left out" not in page.read_text()
    gone = [Cell("logistic", "817", "magic", 0, 0), Cell("synthetic", "spiral", "vanilla", 0, 0)]
    gone += [Cell("logistic", "817", "vanilla", 0, 0, alpha=7.0), Cell("of old", "817", "vanilla", 0, 0)]
    keep(store, {Cell("logistic", "817", "vanilla", 0, 2): 11.23} | dict.fromkeys(gone, 11.23), "of old")
    code, text = run(*words, "--export", tmp_path / "all")
    assert code == 0, text
    for told in (text.replace("\n", " "), page.read_text()):
        assert LEFT_OUT + "5." in told
    assert "71.23" in page.read_text()
    assert "51.23" not in page.read_text()
    exported = read_records(tmp_path / "all", STUDY)
    assert exported["fingerprint"].tolist() == read_records(store, STUDY)["fingerprint"].tolist()
    keep(store, dict.fromkeys([Cell("logistic", "817", "vanilla", 0, seed) for seed in range(2)], 0.0), "older")
    assert run(*words)[0] == 0
    assert "71.23" not in page.read_text()
    assert LEFT_OUT + "7." in page.read_text()


def text_of(found: tuple[int, str]) -> str:
    return found[1]


@needs_mirror
def test_exports_of_a_larger_study_are_not_overwritten(tmp_path: Path) -> None:
    words = ("reproduce", "table1", "--budget", "smoke", "--jobs", "1", "--data-home", MIRROR)
    assert run(*words, "--records", tmp_path / "a.sqlite")[0] == 0
    page = ("report", "-o", tmp_path / "page.html", "--only", "table1")
    assert run(*page, "--records", tmp_path / "a.sqlite", "--export", tmp_path / "kept")[0] == 0
    kept = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    assert sorted(kept) == ["logistic.json", "synthetic.json"]
    assert run(*page, "--records", tmp_path / "kept" / "logistic.json", "--export", tmp_path / "kept")[0] == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == kept
    assert run(*page, "--records", tmp_path / "a.sqlite", "--export", tmp_path / "kept")[0] == 0


def test_records_go_to_a_file_and_pictures_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    code, text = run("reproduce", "table1", "--budget", "smoke", "--records", tmp_path)
    assert (code, "is a folder; records are written to one file" in text) == (2, True)
    code, text = run("reproduce", "table1", "--budget", "smoke", "--records", tmp_path / "note.txt")
    assert (code, "is no store of records" in text) == (2, True)
    words = ("--records", tmp_path / "r.sqlite", "--pictures", tmp_path / "note.txt")
    code, text = run("reproduce", "figure3", "--budget", "smoke", *words)
    assert (code, "cannot be made a folder" in text) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_report_without_records_says_what_to_do(tmp_path: Path) -> None:
    code, text = run("report", "-o", tmp_path / "report.html", "--records", tmp_path / "none.sqlite")
    assert code == 2
    assert "none.sqlite" in text
    assert not (tmp_path / "report.html").exists()


@needs_mirror
def test_a_set_that_cannot_be_had_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    """A cache without the sets, and no network: one line for each set, and exit code 1."""
    words = ["reproduce", "table1", "--budget", "smoke", "--jobs", "1", "--records", tmp_path / "r.sqlite"]
    words += ["--dataset", "61", "--dataset", "927", "--dataset", "circle"]
    code, text = run(*words, "--data-home", tmp_path)
    assert code == 1
    assert text.count("is not cached in") == 2
    assert "failed: 2 of the trials" in text
    assert set(read_records(tmp_path / "r.sqlite", STUDY)["dataset"]) == {"circle"}


@pytest.mark.long  # kills are tested with the runner
@needs_mirror
def test_kill_9_in_the_middle_and_start_again_is_as_if_nothing_had_happened(tmp_path: Path) -> None:
    words = ["reproduce", "table1", "table6", "--budget", "smoke", "--jobs", "1"]
    words += ["--data-home", str(MIRROR), "--pictures", str(tmp_path)]
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
    assert f"cells on record: {done}" in text
    pd.testing.assert_frame_equal(read_records(killed, STUDY)[SAME], read_records(whole, STUDY)[SAME])


def _count(path: Path) -> int:
    try:
        return len(read_records(path, STUDY))
    except (OSError, ValueError):
        return 0

"""Faults done for real: full disks, read-only folders, locks, kills, interrupts; nothing is lost, doubled or half.

What a run does with killed processes and workers is in `records/test_run.py` and `records/test_store.py`; that an
interrupted fit leaves an estimator as it was, in `test_progress_and_time_limit.py`.
"""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from typer.testing import CliRunner

import genlabel
from genlabel import GenerativeClassifier, load_model, save_model
from genlabel._atomic_io import atomic_write, atomic_writer
from genlabel._progress import LambdaCallback
from genlabel.cli import add_commands, app, main
from genlabel.cli.options import one_line_errors
from genlabel.data.tables import write_frame
from genlabel.evaluation.images import ImageScores, TrainedImages
from genlabel.evaluation.records import Record, load_records, open_store, run_trials
from genlabel.evaluation.records import store as store_module
from genlabel.evaluation.records.exports import export_records
from genlabel.evaluation.records.run import exit_with_parent
from genlabel.evaluation.records.schema import COMPARISON, Fit, make_frame
from genlabel.training import train_network
from genlabel.training.networks import MLP, LeNet5
from genlabel_paper.report.page import write_report
from genlabel_paper.runs.cells import PAPER_SCHEMA

resource = pytest.importorskip("resource", reason="needs limits of processes")
needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs processes that can be forked"
)
SOURCES = Path(genlabel.__file__).parents[1]
X, Y = load_iris(return_X_y=True)
CELLS = [Fit("iris", name, split) for split in range(6) for name in ("a", "b")]
LONG = 10_000
"""Letters of a parameter in the records that fill a disk."""


# Disks


@contextmanager
def mounted(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own, so small that it can be filled."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def no_room(folder: Path) -> Iterator[None]:
    """Fill the disk of a folder to the last page."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert shutil.disk_usage(folder).free == 0
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def short_files(folder: Path) -> Iterator[None]:
    """Let this process write no file of more than some bytes: the system stops it in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("disk") / "small", 2048) as folder:
        yield folder


@pytest.fixture(params=["full disk", "limit"])
def tight(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    """A folder, and what takes away the room in it."""
    if request.param == "limit":
        yield tmp_path, short_files
        return
    folder = request.getfixturevalue("disk") / "inside"
    folder.mkdir()
    yield folder, lambda inside: no_room(inside.parent)
    shutil.rmtree(folder)


# Files


def frame_of(which: int) -> pd.DataFrame:
    return pd.DataFrame({"number": np.arange(200.0) + which, "text": ["some text"] * 200})


def record_of(cell: Any, text: str = "") -> Record:
    return Record(key=cell, parameters={"text": text}, metrics={"accuracy": 0.5}, seconds=0.5, versions={})


@cache
def kept_model(which: int) -> GenerativeClassifier:
    return GenerativeClassifier().fit(X[:, which:], Y)


def trained_images(which: int) -> TrainedImages:
    made = ("lenet5", {"classes": 3, "size": 8})
    scores = ImageScores(0.5, 1.0)
    return TrainedImages(LeNet5(3, size=8, seed=which), made, list("abc"), [], scores, None, None, None, 1.0)


def export(path: Path, which: int) -> None:
    row = {"id": f"{which}", "dataset": "iris", "method": "mixup", "split": which, "seconds": 1.5, "parameters": {}}
    rest = {"versions": {}, "fingerprint": "f", "facts": {}, "metrics": {"log_loss": 0.5}}
    export_records(make_frame([row | rest], COMPARISON), path, COMPARISON)


def draw(path: Path, which: int) -> None:
    figure = Figure()
    figure.subplots().plot([0, which])
    with atomic_writer(path) as beside:
        figure.savefig(beside)


def keep_state(path: Path, which: int) -> None:
    x, y = torch.arange(8.0)[:, None] + which, torch.arange(8) % 2
    path.unlink(missing_ok=True) if which == 0 else None
    train_network(MLP(1, 2, seed=which), [(x, y)], epochs=1 + which, checkpoint=path)


def write_page(path: Path, which: int) -> None:
    write_report(make_frame([], PAPER_SCHEMA), path, [], description=f"page {which}")


Writer = Callable[[Path, int], None]
WRITERS: dict[str, Writer] = {
    **{
        f"predictions.{ending}": lambda path, which: write_frame(frame_of(which), path)
        for ending in ("csv", "tsv", "csv.gz", "parquet", "feather", "jsonl")
    },
    "model": lambda path, which: save_model(kept_model(which), path),
    "network.pt": lambda path, which: trained_images(which).save(path),
    "checkpoint.pt": keep_state,
    "export.json": export,
    "page.html": write_page,
    "picture.png": draw,
}


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder; and the folders, which hold nothing."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in found}


@pytest.mark.parametrize("name", WRITERS)
def test_no_room_leaves_the_old_file_whole_and_nothing_beside_it(
    name: str, tight: tuple[Path, Callable[[Path], Any]]
) -> None:
    folder, full = tight
    path, write = folder / name, WRITERS[name]
    if "parquet" in name or "feather" in name:
        pytest.importorskip("pyarrow")
    why = r"\(.*(No space left on device|File too large).*\); free some space"
    with full(folder), pytest.raises(OSError, match=rf"'.*{name}' cannot be written {why}"):
        write(path, 1)
    assert contents(folder) == {}
    write(path, 0)
    before = contents(folder)
    with full(folder), pytest.raises(OSError, match=r"cannot be written"):
        write(path, 1)
    assert contents(folder) == before
    write(path, 1)
    assert contents(folder).keys() == before.keys()
    assert contents(folder) != before


def test_an_interrupt_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "old")
    path.chmod(0o640)
    with suppress(KeyboardInterrupt), atomic_writer(path) as beside:
        beside.write_text("half of the n")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"a.txt": b"old"}
    atomic_write(path, "new")
    assert contents(tmp_path) == {"a.txt": b"new"}
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "there" / "a.csv")
    write_frame(frame_of(0), link)
    assert link.is_symlink()
    assert len(pd.read_csv(tmp_path / "there" / "a.csv")) == 200
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    read: list[str] = []
    reader.start()
    atomic_write(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()


def told(*words: object) -> tuple[int, str]:
    """The exit code of a command, and what it says on the error stream but for its progress."""
    add_commands()
    found = CliRunner().invoke(app, [str(word) for word in words])
    return found.exit_code, "\n".join(line for line in found.stderr.splitlines() if not line.endswith("..."))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with a model of a file, and the file."""
    place = tmp_path_factory.mktemp("model")
    table = pd.DataFrame(X[::3], columns=list("abcd")).assign(kind=np.array(["u", "v", "w"])[Y[::3]])
    table.to_csv(place / "table.csv", index=False)
    words = ("--target", "kind", "--method", "vanilla", "--network", "logistic", "--epochs", "1", "--test-size", "0")
    assert told("fit", place / "table.csv", *words, "-o", place / "model")[0] == 0
    return place / "model", place / "table.csv"


def test_a_command_tells_of_a_full_disk_in_one_line(disk: Path, model: tuple[Path, Path]) -> None:
    output = disk / "predictions.csv"
    output.write_text("those of yesterday")
    with no_room(disk):
        code, line = told("predict", *model, "-o", output)
    assert (code, output.read_text()) == (2, "those of yesterday")
    why = "free some space, or choose another path; an old file is unchanged"
    assert line == f"Error: '{output}' cannot be written (No space left on device); {why}"
    assert [path.name for path in disk.iterdir()] == ["predictions.csv"]
    output.unlink()


@needs_fork
def test_a_full_disk_behind_the_standard_output_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(sys, "argv", ["genlabel", "datasets"])

    def command() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = (tmp_path / "said").open("w", buffering=1)
        try:
            main()
        finally:
            sys.stdout.flush()

    process = forked(command)
    process.join(60)
    why = "the standard output cannot be written (No space left on device)"
    lines = (tmp_path / "said").read_text().splitlines()
    assert (process.exitcode, len(lines)) == (2, 1)
    assert lines[0].startswith(f"Error: {why}")


# The store


def noted(cells: Sequence[Fit], calls: list[str], text: str = "") -> list[Record]:
    calls += [cell.id for cell in cells]
    return [record_of(cell, text) for cell in cells]


run = partial(run_trials, fingerprint=lambda cell: "today")


def ids(path: Path) -> list[str]:
    return load_records(path, COMPARISON).frame["id"].tolist()


def test_a_full_disk_stops_a_run_and_what_ended_is_kept(disk: Path) -> None:
    path, calls = disk / "run.sqlite", []
    filler = disk / "filler"
    with open_store(path, COMPARISON) as store:
        run(CELLS[:3], partial(noted, calls=calls), store=store)
        filler.write_bytes(bytes(1024 * (2048 - 60 - path.stat().st_size // 1024)))
        with pytest.raises(OSError, match=r"run.sqlite' cannot be used \(database or disk is full\)"):
            run(CELLS, partial(noted, calls=calls, text="x" * LONG), store=store)
        ended = ids(path)
        assert 3 <= len(ended) < len(CELLS)
        assert sorted(store.done) == ended
        assert calls[: len(ended)] == [cell.id for cell in CELLS[: len(ended)]]
        assert len(calls) == len(ended) + 1
    filler.unlink()
    with open_store(path, COMPARISON) as store:
        run(CELLS, partial(noted, calls=calls), store=store)
    assert ids(path) == sorted(cell.id for cell in CELLS)
    assert len(calls) == len(CELLS) + 1
    assert sorted(file.name for file in disk.iterdir()) == ["run.sqlite", "run.sqlite.lock"]
    for file in disk.iterdir():
        file.unlink()


def test_a_limit_of_the_system_stops_a_run_and_what_ended_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        run(CELLS[:3], partial(noted, calls=[]), store=store)
        with short_files(tmp_path), pytest.raises(OSError, match=r"run.sqlite' cannot be used \(disk I/O error\)"):
            run(CELLS, partial(noted, calls=[], text="x" * LONG), store=store)
        assert ids(path) == sorted(store.done) == sorted(cell.id for cell in CELLS[:3])
        run(CELLS, partial(noted, calls=[]), store=store)
    assert len(ids(path)) == len(CELLS)


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.3, lambda: other.execute("COMMIT"))
        release.start()
        run(CELLS, partial(noted, calls=[]), store=store)
        release.join()
        other.close()
    assert len(ids(path)) == len(CELLS)


def test_a_database_that_stays_locked_is_told_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "TIMEOUT_SECONDS", 0.1)
    path, calls = tmp_path / "run.sqlite", []
    other = sqlite3.connect(path, isolation_level=None)
    message = r"run.sqlite' cannot be used \(database is locked\)"
    with open_store(path, COMPARISON) as store:

        def lock(outcome: Any) -> None:
            if len(store.done) == 4:
                other.execute("BEGIN IMMEDIATE")

        with pytest.raises(OSError, match=message):
            run(CELLS, partial(noted, calls=calls), store=store, callback=LambdaCallback(on_trial_end=lock))
        assert len(store.done) == len(ids(path)) == 4
        other.execute("ROLLBACK")
        run(CELLS, partial(noted, calls=calls), store=store)
    other.close()
    assert len(ids(path)) == len(CELLS)
    assert len(calls) == len(CELLS) + 1  # the one whose record found no way in is done again


def test_a_second_command_on_a_store_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        run(CELLS, partial(noted, calls=[]), store=store)
        for restart in ([], ["--restart"]):
            code, line = told("compare", "iris", "--records", path, "--output", tmp_path / "a.png", *restart)
            assert (code, line) == (
                2,
                f"Error: another run is writing '{path}'; wait until it ends, stop it, or name another file",
            )
    assert len(ids(path)) == len(CELLS)
    assert not (tmp_path / "a.png").exists()


@pytest.fixture
def read_only(tmp_path: Path, model: tuple[Path, Path]) -> Iterator[Path]:
    """A folder with a store and a model, where nothing can be written: root does not mind the rights of a folder."""

    def fill(folder: Path) -> None:
        with open_store(folder / "run.sqlite", COMPARISON) as store:
            run(CELLS, partial(noted, calls=[]), store=store)
        shutil.copytree(model[0], folder / "model")

    if os.geteuid():
        (folder := tmp_path / "there").mkdir()
        fill(folder)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    with mounted(tmp_path / "there", 512) as folder:
        fill(folder)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder


def test_what_is_in_a_read_only_folder_is_read_and_nothing_is_trained_in_vain(
    read_only: Path, model: tuple[Path, Path], tmp_path: Path
) -> None:
    assert len(ids(read_only / "run.sqlite")) == len(CELLS)
    before = contents(read_only)
    why = "(Read-only file system|Permission denied)"
    for place in (read_only / "new.sqlite", read_only / "run.sqlite"):
        with pytest.raises(OSError, match=r"sqlite' cannot be used \(.*read-only\); allow writing to it"):
            open_store(place, COMPARISON)
    with pytest.raises(OSError, match=rf"sqlite' cannot be used \(its folder cannot be made: {why}\); name another"):
        open_store(read_only / "deep" / "new.sqlite", COMPARISON)
    code, line = told("compare", "iris", "--records", read_only / "new.sqlite", "--output", tmp_path / "a.png")
    assert (code, line.count("\n"), "is read-only); allow writing to it, or name another file" in line) == (2, 0, True)
    code, line = told("predict", *model, "-o", read_only / "predictions.csv")
    assert (code, line.count("\n"), "predictions.csv' cannot be written" in line) == (2, 0, True)
    code, line = told("fit", "iris", "-o", read_only / "model", "--force")
    assert (code, line.count("\n"), "model.json' cannot be written" in line) == (2, 0, True)
    for write in (lambda: save_model(kept_model(0), read_only / "model"), lambda: export(read_only / "e.json", 0)):
        with pytest.raises(OSError, match=why):
            write()
    assert contents(read_only) == before
    assert told("predict", read_only / "model", model[1], "-o", tmp_path / "p.csv")[0] == 0


# Kills and interrupts


def forked(function: Callable[..., Any], *args: Any) -> Any:
    """A process that has all that was imported here, and does nothing else of pytest's afterwards."""

    def body() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            function(*args)
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:
            os._exit(70)
        os._exit(0)

    if torch.cuda.is_initialized():
        pytest.skip("needs processes that have not used a GPU, whose threads a fork does not have")
    process = multiprocessing.get_context("fork").Process(target=body, daemon=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")
        process.start()
    return process


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def run_command(words: Sequence[str], said: Path) -> None:
    """A command as a terminal runs it, its words in a file."""
    with said.open("w") as file:
        sys.stdout = sys.stderr = file
        add_commands()
        app(words, prog_name="genlabel")


def count(path: Path) -> int:
    """The records of a store, whatever its kind."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM records").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        connection.close()


RECORDS = ["--jobs", "1", "--records", "run.sqlite"]
COMMANDS = {
    "compare": ["compare", "iris", "--network", "logistic", "--n-splits", "50", "--csv", "numbers.csv", *RECORDS],
    "reproduce": ["reproduce", "table1", "--budget", "full", "--dataset", "circle", *RECORDS],
    "fit": ["fit", "iris", "--method", "vanilla", "--epochs", "100000", "-o", "model"],
    "diagnose": ["diagnose", "iris", "-o", "picture.png", "--report", "page.html"],
    "train-images": ["train-images", "digits", "--epochs", "500", "--output", "out"],
}
STARTED: dict[str, Callable[[Path], object]] = {
    "compare": lambda here: count(here / "run.sqlite"),
    "reproduce": lambda here: count(here / "run.sqlite"),
    "fit": lambda here: said_in(here).count("...") == 2,
    "diagnose": lambda here: "..." in said_in(here),
    "train-images": lambda here: (here / "out" / "checkpoint.pt").exists(),
}
LEFT = {
    "compare": {"run.sqlite", "run.sqlite.lock"},
    "reproduce": {"run.sqlite", "run.sqlite.lock"},
    "fit": set(),
    "diagnose": set(),
    "train-images": {"out", "out/checkpoint.pt", "out/checkpoint.pt.history"},
}
REPRODUCED = "finished cells are saved in run.sqlite; repeat the command to continue"
SAID = {
    "compare": "finished fits are in run.sqlite; run the same command to resume",
    "reproduce": REPRODUCED,
    "fit": "nothing was written",
    "diagnose": "nothing was written",
    "train-images": "finished epochs are in out; --resume continues from there",
}


def said_in(here: Path) -> str:
    return (here.parent / "said").read_text() if (here.parent / "said").exists() else ""


@needs_fork
@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_ends_a_command_with_one_line_and_leaves_nothing_half(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    process = forked(run_command, COMMANDS[name], tmp_path / "said")
    wait_until(lambda: STARTED[name](here) or not process.is_alive())
    before = count(here / "run.sqlite")
    time.sleep(0.2)  # into the middle of what comes next
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130, said_in(here)
    assert said_in(here).splitlines()[-1] == f"interrupted; {SAID[name]}"
    assert "Traceback" not in said_in(here)
    left = {str(path.relative_to(here)) for path in here.rglob("*") if path.parts[len(here.parts)] != "build"}
    assert left == LEFT[name]
    assert count(here / "run.sqlite") >= before
    if name == "train-images":
        assert set(torch.load(here / "out" / "checkpoint.pt", weights_only=True)) > {"network", "losses"}


class Dying:
    """What is interrupted while it is thrown away, where Python loses every error."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_not_lost_where_python_loses_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    others: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", others.append)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    before = time.monotonic()
    with pytest.raises(typer.Exit) as end, one_line_errors("all is kept"):
        time.sleep(30 if Dying() else 0)  # it is gone before the sleep
    assert end.value.exit_code == 130
    assert time.monotonic() - before < 20
    assert capsys.readouterr().err == "interrupted; all is kept\n"
    with pytest.raises(typer.Exit) as end, one_line_errors("all is kept"):
        Dying()  # and the work ends before it is sent again
    assert end.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted; all is kept\n"
    time.sleep(0.2)  # nothing is sent after the end
    assert others == []
    assert sys.unraisablehook == others.append


@needs_fork
def test_a_worker_whose_parent_is_killed_ends(tmp_path: Path) -> None:
    told = tmp_path / "worker"

    def parent() -> None:
        if not os.fork():
            exit_with_parent(os.getppid())
            told.write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        time.sleep(60)

    process = forked(parent)
    wait_until(lambda: told.exists() and told.read_text())
    worker = int(told.read_text())
    assert is_alive(worker)
    process.kill()
    wait_until(lambda: not is_alive(worker), 10)
    process.join()


def is_alive(number: int) -> bool:
    """Whether a process still does anything: one that has ended may stay on the list until somebody looks at it."""
    psutil = pytest.importorskip("psutil")
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@needs_fork
def test_a_kill_in_the_middle_of_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    x, y = torch.arange(64.0)[:, None] % 7, torch.arange(64) % 2

    def train(path: Path | None, seconds: float = 0.0) -> tuple[np.ndarray, Any]:
        network = MLP(1, 2, (8,), seed=0)
        pause = partial(time.sleep, seconds)
        losses = train_network(
            network,
            [(x, y)],
            epochs=40,
            checkpoint=path,
            seed=1,
            callback=LambdaCallback(on_epoch_end=lambda epoch, logs: pause()),
        )
        return losses, network.state_dict()

    path = tmp_path / "run.pt"
    process = forked(train, path, 0.1)
    wait_until(path.exists)
    time.sleep(0.3)
    process.kill()
    process.join()
    kept = len(torch.load(path, weights_only=True)["losses"])
    assert 0 < kept < 40
    again, undisturbed = train(path), train(None)
    np.testing.assert_array_equal(again[0], undisturbed[0])
    assert all(torch.equal(value, undisturbed[1][name]) for name, value in again[1].items())


@needs_fork
def test_a_kill_while_a_model_is_saved_leaves_no_mixture(tmp_path: Path) -> None:
    """The old one or the new one; or, killed between the two moves of its files, one that is refused."""
    models = [kept_model(0), kept_model(1)]
    expected = [model.predict_proba(X[:, which:]) for which, model in enumerate(models)]
    folder = tmp_path / "model"

    def save_again_and_again() -> None:
        while True:
            for model in models:
                save_model(model, folder)

    rng = np.random.default_rng(0)
    for _ in range(5):
        process = forked(save_again_and_again)
        wait_until(folder.exists)
        time.sleep(0.02 + 0.02 * rng.random())
        process.kill()
        process.join()
        try:
            found = load_model(folder)
        except ValueError as error:
            assert "checksum differs" in str(error)  # noqa: PT017
            continue
        which = 4 - found.n_features_in_
        np.testing.assert_array_equal(found.predict_proba(X[:, which:]), expected[which])
    save_model(models[0], folder)
    np.testing.assert_array_equal(load_model(folder).predict_proba(X), expected[0])


# Memory


@needs_fork
def test_a_trial_that_needs_too_much_memory_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"

    def greedy(cells: Sequence[Fit]) -> list[Record]:
        size = 2**36 if cells[0].split == 2 else 8
        made = np.ones(size) if cells[0].method == "a" else torch.ones(size)
        assert len(made) == 8
        return noted(cells, [])

    def body() -> None:
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**28, in_use + 2**28))
        with open_store(path, COMPARISON) as store:
            run(CELLS, greedy, store=store)

    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    process = forked(body)
    process.join(60)
    assert process.exitcode == 0
    failures = load_records(path, COMPARISON).failures
    assert list(failures) == [Fit("iris", "a", 2), Fit("iris", "b", 2)]
    assert "MemoryError" in failures[Fit("iris", "a", 2)]
    assert "allocate memory" in failures[Fit("iris", "b", 2)]
    assert len(ids(path)) == len(CELLS) - 2


# At a dearer scale


SCRIPT = """
import sys, time
from genlabel.evaluation.records.schema import COMPARISON, Fit
from genlabel.evaluation.records import open_store, run_trials

def work(cells):
    time.sleep(0.2)
    return [{"key": c, "parameters": {}, "metrics": {}, "seconds": 0.0, "versions": {}} for c in cells]

if __name__ == "__main__":
    with open_store(sys.argv[1], COMPARISON) as store:
        cells = [Fit("iris", "a", split) for split in range(1000)]
        run_trials(cells, work, store=store, fingerprint=lambda cell: "today", n_jobs=2)
"""


@pytest.mark.long
def test_processes_of_a_run_end_with_it_also_when_it_is_killed(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    script, path = tmp_path / "run.py", tmp_path / "run.sqlite"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        begin = count(path)
        process = subprocess.Popen([sys.executable, str(script), str(path)], env=environment, stderr=subprocess.DEVNULL)
        wait_until(lambda begin=begin: count(path) > begin + 4)
        workers = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        assert len(workers) >= 2
        process.send_signal(how)
        process.wait(60)
        wait_until(lambda workers=workers: not any(map(is_alive, workers)), 30)
        assert count(path) > begin

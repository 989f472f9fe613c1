"""Full disks, read-only folders, locks, kills and interrupts lose no file and leave none half-written.

`evaluation/records/test_run.py` and `test_store.py` kill processes and workers of a run;
`test_progress_and_time_limit.py` interrupts a fit.
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
from genlabel._processes import exit_with_parent
from genlabel._progress import LambdaCallback
from genlabel.cli import add_commands, app, main
from genlabel.cli.options import one_line_errors
from genlabel.data.tables import write_frame
from genlabel.evaluation.images import ImageScores, TrainedImages
from genlabel.evaluation.records import Record, open_store, run_trials
from genlabel.evaluation.records import store as store_module
from genlabel.evaluation.records.schema import COMPARISON, Fit, make_frame
from genlabel.training import train_network
from genlabel.training.networks import MLP, LeNet5
from genlabel_paper.exports import export_records, load_records
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
"""Characters of a parameter in the records that fill a disk."""


# Disks


@contextmanager
def mounted(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a disk that is small enough to fill."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def fill_disk(folder: Path) -> Iterator[None]:
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
def limit_file_size(folder: Path) -> Iterator[None]:
    """Limit the files of this process to 100 bytes: the system stops a longer write in the middle."""
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
def no_space(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    """Return a folder, and a context manager that leaves no space in it."""
    if request.param == "limit":
        yield tmp_path, limit_file_size
        return
    folder = request.getfixturevalue("disk") / "inside"
    folder.mkdir()
    yield folder, lambda inside: fill_disk(inside.parent)
    shutil.rmtree(folder)


# Files


def numbers_frame(which: int) -> pd.DataFrame:
    return pd.DataFrame({"number": np.arange(200.0) + which, "text": ["some text"] * 200})


def make_record(cell: Any, text: str = "") -> Record:
    return Record(key=cell, parameters={"text": text}, metrics={"accuracy": 0.5}, seconds=0.5, versions={})


@cache
def fitted_model(which: int) -> GenerativeClassifier:
    return GenerativeClassifier().fit(X[:, which:], Y)


def trained_images(which: int) -> TrainedImages:
    architecture = ("lenet5", {"classes": 3, "size": 8})
    scores = ImageScores(0.5, 1.0)
    return TrainedImages(LeNet5(3, size=8, seed=which), architecture, list("abc"), [], scores, None, None, None, 1.0)


def export(path: Path, which: int) -> None:
    row = {"id": f"{which}", "dataset": "iris", "method": "mixup", "split": which, "seconds": 1.5, "parameters": {}}
    rest = {"versions": {}, "fingerprint": "f", "facts": {}, "metrics": {"log_loss": 0.5}}
    export_records(make_frame([row | rest], COMPARISON), path, COMPARISON)


def draw(path: Path, which: int) -> None:
    figure = Figure()
    figure.subplots().plot([0, which])
    with atomic_writer(path) as tmp_path:
        figure.savefig(tmp_path)


def write_checkpoint(path: Path, which: int) -> None:
    x, y = torch.arange(8.0)[:, None] + which, torch.arange(8) % 2
    path.unlink(missing_ok=True) if which == 0 else None
    train_network(MLP(1, 2, seed=which), [(x, y)], epochs=1 + which, checkpoint=path)


def write_page(path: Path, which: int) -> None:
    write_report(make_frame([], PAPER_SCHEMA), path, [], description=f"page {which}")


Writer = Callable[[Path, int], None]
WRITERS: dict[str, Writer] = {
    **{
        f"predictions.{ending}": lambda path, which: write_frame(numbers_frame(which), path)
        for ending in ("csv", "tsv", "csv.gz", "parquet", "feather", "jsonl")
    },
    "model": lambda path, which: save_model(fitted_model(which), path, overwrite=True),
    "network.pt": lambda path, which: trained_images(which).save(path),
    "checkpoint.pt": write_checkpoint,
    "export.json": export,
    "page.html": write_page,
    "picture.png": draw,
}


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, and empty bytes for its subfolders."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in paths}


@pytest.mark.parametrize("name", WRITERS)
def test_full_disk_leaves_the_old_file_and_no_other(name: str, no_space: tuple[Path, Callable[[Path], Any]]) -> None:
    folder, fill = no_space
    path, write = folder / name, WRITERS[name]
    if "parquet" in name or "feather" in name:
        pytest.importorskip("pyarrow")
    with fill(folder), pytest.raises(OSError, match=name):
        write(path, 1)
    assert contents(folder) == {}
    write(path, 0)
    before = contents(folder)
    with fill(folder), pytest.raises(OSError, match=name):
        write(path, 1)
    assert contents(folder) == before
    write(path, 1)
    assert contents(folder).keys() == before.keys()
    assert contents(folder) != before


def test_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "old")
    path.chmod(0o640)
    with suppress(KeyboardInterrupt), atomic_writer(path) as temporary:
        temporary.write_text("half of the n")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"a.txt": b"old"}
    atomic_write(path, "new")
    assert contents(tmp_path) == {"a.txt": b"new"}
    assert path.stat().st_mode & 0o777 == 0o640


def test_links_and_devices_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "there" / "a.csv")
    write_frame(numbers_frame(0), link)
    assert link.is_symlink()
    assert len(pd.read_csv(tmp_path / "there" / "a.csv")) == 200
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    received: list[str] = []
    reader.start()
    atomic_write(pipe, "through")
    reader.join()
    assert received == ["through"]
    assert pipe.is_fifo()


def run_cli(*words: object) -> tuple[int, str]:
    """Return the exit code of a command and its error stream without progress lines."""
    add_commands()
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, "\n".join(line for line in result.stderr.splitlines() if not line.endswith("..."))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a model folder and the table that it was fitted to."""
    folder = tmp_path_factory.mktemp("model")
    table = pd.DataFrame(X[::3], columns=list("abcd")).assign(kind=np.array(["u", "v", "w"])[Y[::3]])
    table.to_csv(folder / "table.csv", index=False)
    words = ("--target", "kind", "--method", "vanilla", "--network", "logistic", "--epochs", "1", "--test-size", "0")
    assert run_cli("fit", folder / "table.csv", *words, "-o", folder / "model")[0] == 0
    return folder / "model", folder / "table.csv"


def test_command_reports_a_full_disk_in_one_line(disk: Path, model: tuple[Path, Path]) -> None:
    output = disk / "predictions.csv"
    output.write_text("old")
    with fill_disk(disk):
        code, line = run_cli("predict", *model, "-o", output)
    assert (code, output.read_text()) == (2, "old")
    assert line.startswith(f"Error: '{output}'")
    assert "\n" not in line
    assert [path.name for path in disk.iterdir()] == ["predictions.csv"]
    output.unlink()


@needs_fork
def test_full_standard_output_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(sys, "argv", ["genlabel", "datasets"])

    def command() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = (tmp_path / "output").open("w", buffering=1)
        try:
            main()
        finally:
            sys.stdout.flush()

    process = fork(command)
    process.join(60)
    lines = (tmp_path / "output").read_text().splitlines()
    assert (process.exitcode, len(lines)) == (2, 1)
    assert lines[0].startswith("Error: ")
    assert "standard output" in lines[0]


@needs_fork
def test_a_closed_pipe_ends_predict_without_a_word(model: tuple[Path, Path], tmp_path: Path) -> None:
    def command(path: Path) -> None:
        sys.argv = ["genlabel", "predict", str(model[0]), str(path)]
        read_end, write_end = os.pipe()
        os.close(read_end)  # as `head` does once it has its lines
        os.dup2(write_end, 1)
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = (tmp_path / "output").open("w", buffering=1)
        main()

    rows = pd.read_csv(model[1])
    for repeats in (1, 100):  # fewer and more bytes than a buffer has
        path = tmp_path / f"{repeats}.csv"
        pd.concat([rows] * repeats).to_csv(path, index=False)
        process = fork(command, path)
        process.join(60)
        lines = (tmp_path / "output").read_text().splitlines()
        assert process.exitcode == 141
        assert [line for line in lines if not line.startswith("loading ")] == []


# The store


def record_calls(cells: Sequence[Fit], calls: list[str], text: str = "") -> list[Record]:
    calls += [cell.id for cell in cells]
    return [make_record(cell, text) for cell in cells]


run = partial(run_trials, fingerprint=lambda cell: "today")


def ids(path: Path) -> list[str]:
    return load_records(path, COMPARISON).frame["id"].tolist()


def test_full_disk_stops_a_run_and_keeps_finished_records(disk: Path) -> None:
    path, calls = disk / "run.sqlite", []
    filler = disk / "filler"
    with open_store(path, COMPARISON) as store:
        run(CELLS[:3], partial(record_calls, calls=calls), store=store)
        filler.write_bytes(bytes(1024 * (2048 - 60 - path.stat().st_size // 1024)))
        with pytest.raises(OSError, match="full"):
            run(CELLS, partial(record_calls, calls=calls, text="x" * LONG), store=store)
        ended = ids(path)
        assert 3 <= len(ended) < len(CELLS)
        assert sorted(store.done) == ended
        assert calls[: len(ended)] == [cell.id for cell in CELLS[: len(ended)]]
        assert len(calls) == len(ended) + 1
    filler.unlink()
    with open_store(path, COMPARISON) as store:
        run(CELLS, partial(record_calls, calls=calls), store=store)
    assert ids(path) == sorted(cell.id for cell in CELLS)
    assert len(calls) == len(CELLS) + 1
    assert sorted(file.name for file in disk.iterdir()) == ["run.sqlite", "run.sqlite.lock"]
    for file in disk.iterdir():
        file.unlink()


def test_file_size_limit_stops_a_run_and_keeps_finished_records(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        run(CELLS[:3], partial(record_calls, calls=[]), store=store)
        with limit_file_size(tmp_path), pytest.raises(OSError, match="I/O"):
            run(CELLS, partial(record_calls, calls=[], text="x" * LONG), store=store)
        assert ids(path) == sorted(store.done) == sorted(cell.id for cell in CELLS[:3])
        run(CELLS, partial(record_calls, calls=[]), store=store)
    assert len(ids(path)) == len(CELLS)


def test_run_waits_for_a_locked_database(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.3, lambda: connection.execute("COMMIT"))
        release.start()
        run(CELLS, partial(record_calls, calls=[]), store=store)
        release.join()
        connection.close()
    assert len(ids(path)) == len(CELLS)


def test_database_that_stays_locked_is_reported_and_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "TIMEOUT_SECONDS", 0.1)
    path, calls = tmp_path / "run.sqlite", []
    connection = sqlite3.connect(path, isolation_level=None)
    with open_store(path, COMPARISON) as store:

        def lock(outcome: Any) -> None:
            if len(store.done) == 4:
                connection.execute("BEGIN IMMEDIATE")

        with pytest.raises(OSError, match="locked"):
            run(CELLS, partial(record_calls, calls=calls), store=store, callback=LambdaCallback(on_trial_end=lock))
        assert len(store.done) == len(ids(path)) == 4
        connection.execute("ROLLBACK")
        run(CELLS, partial(record_calls, calls=calls), store=store)
    connection.close()
    assert len(ids(path)) == len(CELLS)
    assert len(calls) == len(CELLS) + 1  # the trial whose record was not written runs again


def test_second_command_on_a_store_is_one_error_line(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with open_store(path, COMPARISON) as store:
        run(CELLS, partial(record_calls, calls=[]), store=store)
        for restart in ([], ["--restart"]):
            code, line = run_cli("compare", "iris", "--records", path, "--output", tmp_path / "a.png", *restart)
            assert code == 2
            assert line.startswith("Error: ")
            assert f"'{path}'" in line
            assert "\n" not in line
    assert len(ids(path)) == len(CELLS)
    assert not (tmp_path / "a.png").exists()


@pytest.fixture
def read_only(tmp_path: Path, model: tuple[Path, Path]) -> Iterator[Path]:
    """Return a read-only folder with a store and a model; root ignores permissions and gets a read-only mount."""

    def fill(folder: Path) -> None:
        with open_store(folder / "run.sqlite", COMPARISON) as store:
            run(CELLS, partial(record_calls, calls=[]), store=store)
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


def test_read_only_folder_is_read_and_refused_before_training(
    read_only: Path, model: tuple[Path, Path], tmp_path: Path
) -> None:
    assert len(ids(read_only / "run.sqlite")) == len(CELLS)
    before = contents(read_only)
    reason = "(Read-only file system|Permission denied)"
    for path in (read_only / "new.sqlite", read_only / "run.sqlite"):
        with pytest.raises(OSError, match="read-only"):
            open_store(path, COMPARISON)
    with pytest.raises(OSError, match=reason):
        open_store(read_only / "deep" / "new.sqlite", COMPARISON)
    code, line = run_cli("compare", "iris", "--records", read_only / "new.sqlite", "--output", tmp_path / "a.png")
    assert (code, line.count("\n"), "read-only" in line) == (2, 0, True)
    code, line = run_cli("predict", *model, "-o", read_only / "predictions.csv")
    assert (code, line.count("\n"), "predictions.csv" in line) == (2, 0, True)
    code, line = run_cli("fit", "iris", "-o", read_only / "model", "--force")
    assert (code, line.count("\n"), "model.json" in line) == (2, 0, True)
    for write in (
        lambda: save_model(fitted_model(0), read_only / "model", overwrite=True),
        lambda: export(read_only / "e.json", 0),
    ):
        with pytest.raises(OSError, match=reason):
            write()
    assert contents(read_only) == before
    assert run_cli("predict", read_only / "model", model[1], "-o", tmp_path / "p.csv")[0] == 0


# Kills and interrupts


def fork(function: Callable[..., Any], *args: Any) -> Any:
    """Start a fork that has the imports of this process, runs the function and exits without the cleanup of pytest."""

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


def run_command(words: Sequence[str], output: Path) -> None:
    """Run a command as a terminal does; write its output to a file."""
    with output.open("w") as file:
        sys.stdout = sys.stderr = file
        add_commands()
        app(words, prog_name="genlabel")


def count(path: Path) -> int:
    """Count the records of a store of any schema."""
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
    "fit": lambda here: output_in(here).count("...") == 2,
    "diagnose": lambda here: "..." in output_in(here),
    "train-images": lambda here: (here / "out" / "checkpoint.pt").exists(),
}
FILES = {
    "compare": {"run.sqlite", "run.sqlite.lock"},
    "reproduce": {"run.sqlite", "run.sqlite.lock"},
    "fit": set(),
    "diagnose": set(),
    "train-images": {"out", "out/checkpoint.pt", "out/checkpoint.pt.history"},
}
REPRODUCED = "finished cells are saved in run.sqlite; repeat the command to continue"
MESSAGES = {
    "compare": "finished fits are in run.sqlite; run the same command to resume",
    "reproduce": REPRODUCED,
    "fit": "nothing was written",
    "diagnose": "nothing was written",
    "train-images": "finished epochs are in out; --resume continues from there",
}


def output_in(here: Path) -> str:
    return (here.parent / "output").read_text() if (here.parent / "output").exists() else ""


@needs_fork
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupt_ends_a_command_with_one_line_and_no_partial_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    process = fork(run_command, COMMANDS[name], tmp_path / "output")
    wait_until(lambda: STARTED[name](here) or not process.is_alive())
    before = count(here / "run.sqlite")
    time.sleep(0.2)  # interrupt in the middle of the next step
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130, output_in(here)
    assert output_in(here).splitlines()[-1] == f"interrupted; {MESSAGES[name]}"
    assert "Traceback" not in output_in(here)
    files = {str(path.relative_to(here)) for path in here.rglob("*") if path.parts[len(here.parts)] != "build"}
    assert files == FILES[name]
    assert count(here / "run.sqlite") >= before
    if name == "train-images":
        assert set(torch.load(here / "out" / "checkpoint.pt", weights_only=True)) > {"network", "losses"}


class InterruptedOnDelete:
    """Object that is interrupted while it is destroyed, where Python drops every exception."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_interrupt_inside_del_is_not_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, handler))
    before = time.monotonic()
    with pytest.raises(typer.Exit) as end, one_line_errors("everything is saved"):
        time.sleep(30 if InterruptedOnDelete() else 0)  # deleted before the sleep
    assert end.value.exit_code == 130
    assert time.monotonic() - before < 20
    assert capsys.readouterr().err == "interrupted; everything is saved\n"
    with pytest.raises(typer.Exit) as end, one_line_errors("everything is saved"):
        InterruptedOnDelete()  # the work ends before the signal is sent again
    assert end.value.exit_code == 130
    assert capsys.readouterr().err == "interrupted; everything is saved\n"
    time.sleep(0.2)  # no signal is sent after the end
    assert unraisable == []
    assert sys.unraisablehook == unraisable.append


@needs_fork
@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_worker_ends_when_its_parent_is_killed(tmp_path: Path, seconds: float) -> None:
    """Also if the parent is gone when the watch begins, as during the imports of a worker."""
    pid_file = tmp_path / "worker"

    def parent() -> None:
        number = os.getpid()
        if not os.fork():
            pid_file.write_text(str(os.getpid()))
            time.sleep(seconds)
            exit_with_parent(number)
            time.sleep(60)
            os._exit(0)
        time.sleep(60)

    process = fork(parent)
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    worker = int(pid_file.read_text())
    time.sleep(0.2)
    assert is_alive(worker)
    process.kill()
    process.join()
    wait_until(lambda: not is_alive(worker), 10)


def is_alive(number: int) -> bool:
    """Return True if a process still runs; an ended one may stay listed as a zombie until its parent waits for it."""
    psutil = pytest.importorskip("psutil")
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@needs_fork
def test_killed_training_resumes_bit_for_bit(tmp_path: Path) -> None:
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
    process = fork(train, path, 0.1)
    wait_until(path.exists)
    time.sleep(0.3)
    process.kill()
    process.join()
    epochs_done = len(torch.load(path, weights_only=True)["losses"])
    assert 0 < epochs_done < 40
    resumed, undisturbed = train(path), train(None)
    np.testing.assert_array_equal(resumed[0], undisturbed[0])
    assert all(torch.equal(value, undisturbed[1][name]) for name, value in resumed[1].items())


@needs_fork
def test_kill_during_save_leaves_no_mixed_model(tmp_path: Path) -> None:
    """The folder has the old model or the new one, or is refused if the kill fell between the moves of its files."""
    models = [fitted_model(0), fitted_model(1)]
    expected = [model.predict_proba(X[:, which:]) for which, model in enumerate(models)]
    folder = tmp_path / "model"

    def save_repeatedly() -> None:
        while True:
            for model in models:
                save_model(model, folder, overwrite=True)

    rng = np.random.default_rng(0)
    for _ in range(5):
        process = fork(save_repeatedly)
        wait_until(folder.exists)
        time.sleep(0.02 + 0.02 * rng.random())
        process.kill()
        process.join()
        try:
            loaded = load_model(folder)
        except ValueError as error:
            assert "checksum" in str(error)  # noqa: PT017
            continue
        which = 4 - loaded.n_features_in_
        np.testing.assert_array_equal(loaded.predict_proba(X[:, which:]), expected[which])
    save_model(models[0], folder, overwrite=True)
    np.testing.assert_array_equal(load_model(folder).predict_proba(X), expected[0])


# Memory


@needs_fork
def test_trial_out_of_memory_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"

    def greedy(cells: Sequence[Fit]) -> list[Record]:
        size = 2**36 if cells[0].split == 2 else 8
        array = np.ones(size) if cells[0].method == "a" else torch.ones(size)
        assert len(array) == 8
        return record_calls(cells, [])

    def body() -> None:
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**28, in_use + 2**28))
        with open_store(path, COMPARISON) as store:
            run(CELLS, greedy, store=store)

    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    process = fork(body)
    process.join(60)
    assert process.exitcode == 0
    failures = load_records(path, COMPARISON).failures
    assert list(failures) == [Fit("iris", "a", 2), Fit("iris", "b", 2)]
    assert "MemoryError" in failures[Fit("iris", "a", 2)]
    assert "allocate memory" in failures[Fit("iris", "b", 2)]
    assert len(ids(path)) == len(CELLS) - 2


# At a larger scale


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


def processes_of_group(group: int) -> list[int]:
    """Return the processes of a group that still run."""
    psutil = pytest.importorskip("psutil")
    numbers = []
    for number in filter(is_alive, psutil.pids()):
        with suppress(ProcessLookupError, PermissionError):
            numbers += [number] if os.getpgid(number) == group else []
    return numbers


def processes_left(command: Sequence[str], seconds: float, number: signal.Signals, folder: Path) -> list[int]:
    """Send a signal to a command after its first worker has started; return its processes 20 seconds later at most."""
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, *command]
    process = subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until(lambda: len(processes_of_group(process.pid)) > 1)
        time.sleep(seconds)
        assert process.poll() is None
        process.send_signal(number)
        process.wait(60)
        end = time.monotonic() + 20
        while (left := processes_of_group(process.pid)) and time.monotonic() < end:
            time.sleep(0.01)
        return list(left)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("seconds", np.random.default_rng(0).uniform(0.2, 2.0, 2))
def test_run_that_is_killed_leaves_no_process(seconds: float, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    assert processes_left(["run.py", "run.sqlite"], seconds, signal.SIGKILL, tmp_path) == []


PARALLEL = {
    "reproduce": ["reproduce", "table1", "--budget", "full", "--jobs", "2", "--dataset", "circle"],
    "train-images": ["train-images", "digits", "--epochs", "1000", "--seeds", "2", "--jobs", "2"],
}


@pytest.mark.long
@pytest.mark.parametrize("name", PARALLEL)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_command_that_ends_at_any_moment_leaves_no_process(name: str, number: signal.Signals, tmp_path: Path) -> None:
    for seconds in np.random.default_rng().uniform(0, 6, 10 if number == signal.SIGKILL else 2):
        assert processes_left(["-m", "genlabel", *PARALLEL[name]], seconds, number, tmp_path) == []

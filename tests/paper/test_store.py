"""The store: a trial is kept whole or not at all, with full precision; one writer; other files are left alone."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import genlabel_paper
from genlabel_paper.study import store as store_module
from genlabel_paper.study.cells import Cell, Record, Trial
from genlabel_paper.study.store import METRICS, open_store, read_failures, read_store

SOURCES = Path(genlabel_paper.__file__).parents[1]
COLUMNS = ["id", "setting", "dataset", "method", "alpha", "split", "seed", "seconds", "parameters", "versions"]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}


def record(method: str = "mixup", dataset: str = "61", **metrics: float) -> Record:
    return Record(
        cell=Cell("logistic", dataset, method, split=1, seed=2, alpha=0.5),
        parameters={"gamma": np.float64(0.25), "count": np.int64(3), "density": None, "sizes": (4, 5)},
        metrics=metrics or {"accuracy": 100 / 3, "log_loss": np.float32(0.1)},
        seconds=0.1 + 0.2,
        versions={"genlabel": "0.1", "python": "3"},
    )


cells = st.builds(
    Cell,
    setting=st.sampled_from(["logistic", "synthetic"]),
    dataset=st.text(min_size=1, max_size=5).filter(lambda name: name.isprintable()),
    method=st.sampled_from(["mixup", "gen label", "ünicode/'\"%"]),
    split=st.integers(0, 3),
    seed=st.integers(0, 2**40),
    alpha=st.sampled_from([0.1, 1.0, 2.0]),
)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | st.integers(-9, 9) | finite | st.text(max_size=5)
records = st.builds(
    lambda **parts: Record(**parts),
    cell=cells,
    parameters=st.dictionaries(st.sampled_from(["gamma", "density", "learning_rate"]), plain),
    metrics=st.dictionaries(st.sampled_from([*METRICS, "brier"]), finite),
    seconds=st.floats(0, 1e6),
    versions=st.dictionaries(st.sampled_from(["genlabel", "torch"]), st.text(max_size=5)),
)


@given(st.lists(records, max_size=8, unique_by=lambda made: made["cell"].id))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, made: list[Record]) -> None:
    path = tmp_path_factory.mktemp("store") / "study.sqlite"
    with open_store(path) as store:
        store.write(made[:3])
        store.write(made[3:])
        assert store.done == {one["cell"].id for one in made}
    with open_store(path) as store:
        assert store.done == {one["cell"].id for one in made}
    frame = read_store(path)
    assert list(frame.columns[:14]) == [*COLUMNS, *METRICS]
    made = sorted(made, key=lambda one: one["cell"].id)
    for (_, row), one in zip(frame.iterrows(), made, strict=True):
        assert row[list(one["cell"].fields)].to_dict() == one["cell"].fields
        assert (row["id"], row["seconds"]) == (one["cell"].id, one["seconds"])
        assert (row["parameters"], row["versions"]) == (one["parameters"], one["versions"])
        assert row[frame.columns[10:]].dropna().to_dict() == one["metrics"]


def test_the_frame_has_the_types_of_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study.sqlite"
    with open_store(path) as store:
        empty = read_store(path)
        store.write([record()])
    frame = read_store(path)
    pd.testing.assert_series_equal(frame.dtypes, empty.dtypes)
    assert frame["accuracy"].item() == 100 / 3
    assert frame["seconds"].item() == 0.1 + 0.2
    assert frame["parameters"].item() == {"gamma": 0.25, "count": 3, "density": None, "sizes": [4, 5]}
    assert frame["robust_accuracy"].isna().item()


def test_a_trial_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with open_store(tmp_path / "study.sqlite") as store:
        store.write([record("mixup")])
        for twice in ("mixup", "vanilla"):
            with pytest.raises(ValueError, match=rf"'logistic/61/{twice}/.* would be in '.*' twice; leave it out"):
                store.write([record("vanilla"), record(twice)])
        for wrong in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"log_loss={wrong} of 'logistic/61/b/.* is no finite number"):
                store.write([record("a"), record("b", log_loss=wrong)])
        odd = record("b")
        odd["parameters"] = {"density": object()}
        with pytest.raises(ValueError, match=r"parameters of 'logistic/61/b/.*no JSON"):
            store.write([record("a"), odd])
        assert len(store.done) == len(read_store(store.path)) == 1


def test_failures_are_kept_until_the_trial_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    first, second = (record(dataset=name)["cell"].trial for name in ("61", "36"))
    with open_store(path) as store:
        store.write_failure(first, "OSError: not there")
        store.write_failure(first, "OSError: still not there")
        store.write_failure(second, "ValueError: no")
        assert store.failures() == read_failures(path) == {first: "OSError: still not there", second: "ValueError: no"}
        store.write([record(dataset="61")])
        assert store.failures() == {second: "ValueError: no"}
        assert isinstance(next(iter(store.failures())), Trial)
    assert read_failures(path) == {second: "ValueError: no"}


def test_fresh_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_store(path, fresh=True) as store:
        store.write([record()])
        store.write_failure(Trial("s", "d", 0, 0), "no")
    with open_store(path, fresh=True) as store:
        assert store.done == set()
        assert store.failures() == {}
        store.write([record()])
    assert len(read_store(path)) == 1


def test_another_protocol_is_refused_and_can_be_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.sqlite"
    with open_store(path) as store:
        store.write([record()])
    monkeypatch.setattr(store_module, "PROTOCOL", 7)
    for read in (open_store, read_store, read_failures):
        with pytest.raises(ValueError, match=r"are of protocol 1, not 7; name another file, or .* --fresh"):
            read(path)
    with open_store(path, fresh=True) as store:
        assert store.done == set()
    assert read_store(path).empty


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE letters (text)")
    connection.close()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda path: path.write_text("Dear reader, " * 100), "no store of records .*not a database"),
        (foreign, "no store of records but of letters; name another file"),
    ],
)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, make: Any, message: str, fresh: bool) -> None:
    path = tmp_path / "letter.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        open_store(path, fresh=fresh)
    with pytest.raises(ValueError, match=message):
        read_store(path)
    assert path.read_bytes() == before


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file of records .*run the study first"):
        read_store(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(ValueError, match="is empty; run the study first"):
        read_store(tmp_path / "empty.sqlite")
    with pytest.raises(ValueError, match=r"is a folder; records are written to one file"):
        open_store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]


HOLD = """
import sys, time
from genlabel_paper.study.store import open_store
with open_store(sys.argv[1]):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        begin = time.monotonic()
        for fresh in (False, True):
            with pytest.raises(OSError, match=r"another run writes '.*study.sqlite'; wait until it ends"):
                open_store(path, fresh=fresh)
        assert time.monotonic() - begin < 2
        assert read_store(path).empty
        process.kill()
    with open_store(path) as store, pytest.raises(BlockingIOError, match="another run writes"):
        open_store(store.path)
    open_store(path).__exit__()


WRITE = """
import sys
from genlabel_paper.study.cells import Cell
from genlabel_paper.study.store import open_store
with open_store(sys.argv[1]) as store:
    begin = len(store.done)
    for trial in range(begin, begin + 100_000):
        store.write([
            {"cell": Cell("s", str(trial), str(method), 0, 0), "parameters": {"text": "x" * 2000}, "metrics": {},
             "seconds": 0.0, "versions": {}}
            for method in range(7)
        ])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_leaves_whole_trials_and_readers_see_whole_trials(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    last = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], env=environment())
        wanted = last + 70
        while last < wanted and process.poll() is None:
            time.sleep(0.02)
            seen = len(read_store(path)) if path.exists() and path.stat().st_size else 0
            assert seen % 7 == 0
            assert seen >= last
            last = seen
        process.kill()
        assert process.wait() == -signal.SIGKILL
        frame = read_store(path)
        assert len(frame) % 7 == 0
        assert frame.groupby("dataset").size().eq(7).all()
        last = len(frame)


def test_the_file_says_when_and_is_plain_to_others(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_store(path) as store:
        store.write([record()])
    connection = sqlite3.connect(path)
    written, metrics = connection.execute("SELECT written, metrics FROM records").fetchone()
    connection.close()
    assert pd.Timestamp.now("UTC") - pd.Timestamp(written) < pd.Timedelta("1min")
    assert json.loads(metrics)["accuracy"] == 100 / 3

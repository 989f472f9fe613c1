"""Record stores: complete trials in full precision, one writer, foreign files unchanged."""

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
from genlabel.evaluation.records import Record, RecordStore, open_store
from genlabel.evaluation.records.schema import COMPARISON, Fit
from genlabel.evaluation.records.store import check_store
from genlabel_paper.exports import load_records as load
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell, TrialKey

SOURCES = Path(genlabel_paper.__file__).parents[1]
COLUMNS = ["id", "setting", "dataset", "method", "alpha", "split", "seed", "seconds", "parameters", "versions"]
COLUMNS += ["fingerprint", *PAPER_SCHEMA.metrics]


def open_paper_store(path: Path, restart: bool = False) -> RecordStore:
    return open_store(path, PAPER_SCHEMA, restart=restart)


def read_frame(path: Path) -> pd.DataFrame:
    return load(path, PAPER_SCHEMA).frame


def write(store: RecordStore, records: list[Record], made: str = "today") -> None:
    store.write(records, {record["key"].id: made for record in records})


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}


def record(method: str = "mixup", dataset: str = "61", **metrics: float) -> Record:
    return Record(
        key=Cell("logistic", dataset, method, split=1, seed=2, alpha=0.5),
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
    key=cells,
    parameters=st.dictionaries(st.sampled_from(["gamma", "density", "learning_rate"]), plain),
    metrics=st.dictionaries(st.sampled_from([*PAPER_SCHEMA.metrics, "brier"]), finite),
    seconds=st.floats(0, 1e6),
    versions=st.dictionaries(st.sampled_from(["genlabel", "torch"]), st.text(max_size=5)),
)


@given(st.lists(records, max_size=8, unique_by=lambda made: made["key"].id))
def test_records_round_trip(tmp_path_factory: pytest.TempPathFactory, made: list[Record]) -> None:
    path = tmp_path_factory.mktemp("store") / "study.sqlite"
    with open_paper_store(path) as store:
        write(store, made[:3])
        write(store, made[3:])
        assert set(store.done) == {one["key"].id for one in made}
    with open_paper_store(path) as store:
        assert set(store.done) == {one["key"].id for one in made}
    frame = read_frame(path)
    assert list(frame.columns[:15]) == COLUMNS
    made = sorted(made, key=lambda one: one["key"].id)
    for (_, row), one in zip(frame.iterrows(), made, strict=True):
        assert row[list(one["key"].fields)].to_dict() == one["key"].fields
        assert (row["id"], row["seconds"]) == (one["key"].id, one["seconds"])
        assert (row["parameters"], row["versions"]) == (one["parameters"], one["versions"])
        assert row[frame.columns[11:]].dropna().to_dict() == one["metrics"]


def test_frame_has_the_types_of_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study.sqlite"
    with open_paper_store(path) as store:
        empty = read_frame(path)
        write(store, [record()])
    frame = read_frame(path)
    pd.testing.assert_series_equal(frame.dtypes, empty.dtypes)
    assert frame["accuracy"].item() == 100 / 3
    assert frame["seconds"].item() == 0.1 + 0.2
    assert frame["parameters"].item() == {"gamma": 0.25, "count": 3, "density": None, "sizes": [4, 5]}
    assert frame["robust_accuracy"].isna().item()


def test_trial_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    with open_paper_store(tmp_path / "study.sqlite") as store:
        write(store, [record("mixup")])
        for method in ("mixup", "vanilla"):
            with pytest.raises(ValueError, match=method):
                write(store, [record("vanilla"), record(method)])
        for loss in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="log_loss"):
                write(store, [record("a"), record("b", log_loss=loss)])
        invalid = record("b")
        invalid["parameters"] = {"density": object()}
        with pytest.raises(ValueError, match="JSON"):
            write(store, [record("a"), invalid])
        assert len(store.done) == len(read_frame(store.path)) == 1


def test_failures_are_kept_until_the_trial_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    first, second = (record(dataset=name)["key"].trial for name in ("61", "36"))
    with open_paper_store(path) as store:
        store.write_failure(first, "OSError: not there")
        store.write_failure(first, "OSError: still not there")
        store.write_failure(second, "ValueError: no")
        assert (
            store.read().failures
            == load(path, PAPER_SCHEMA).failures
            == {first: "OSError: still not there", second: "ValueError: no"}
        )
        write(store, [record(dataset="61")])
        assert store.read().failures == {second: "ValueError: no"}
        assert isinstance(next(iter(store.read().failures)), TrialKey)
    assert load(path, PAPER_SCHEMA).failures == {second: "ValueError: no"}


def test_restart_deletes_records(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_paper_store(path, restart=True) as store:
        write(store, [record()])
        store.write_failure(TrialKey("s", "d", 0, 0), "no")
    with open_paper_store(path, restart=True) as store:
        assert store.done == {}
        assert store.read().failures == {}
        write(store, [record()])
    assert len(read_frame(path)) == 1


def test_record_of_other_settings_is_replaced(tmp_path: Path) -> None:
    with open_paper_store(tmp_path / "study.sqlite") as store:
        write(store, [record("mixup", accuracy=1.0), record("vanilla", accuracy=1.0)], "then")
        write(store, [record("mixup", accuracy=2.0)], "now")
        frame = store.read().frame.set_index("method")
        assert frame["accuracy"].to_dict() == {"mixup": 2.0, "vanilla": 1.0}
        assert frame["fingerprint"].to_dict() == {"mixup": "now", "vanilla": "then"}
        assert list(store.done.values()) == ["now", "then"]


def test_requests_are_saved_once(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    cells = [record(name)["key"] for name in ("mixup", "vanilla")]
    with open_paper_store(path) as store:
        store.request(cells[:1])
        store.request(cells)
    assert load(path, PAPER_SCHEMA).requested.to_dict("records") == [cell.fields for cell in cells]


def test_other_settings_of_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_store(path, PAPER_SCHEMA, settings={"epochs": 5, "sizes": (3, 4)}) as store:
        assert store.read().settings == {"epochs": 5, "sizes": [3, 4]}
    for other in ({"epochs": 6, "sizes": (3, 4)}, {}):
        with pytest.raises(ValueError, match="epochs"):
            open_store(path, PAPER_SCHEMA, settings=other)
    open_store(path, PAPER_SCHEMA, settings={"sizes": [3, 4], "epochs": 5}).__exit__()
    with open_store(path, PAPER_SCHEMA, settings={"epochs": 6}, restart=True) as store:
        assert store.read().settings == {"epochs": 6}


def test_store_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(None, PAPER_SCHEMA) as first, open_store(None, PAPER_SCHEMA) as second:
        write(first, [record()])
        assert (len(first.read().frame), len(second.read().frame)) == (1, 0)
    assert list(tmp_path.iterdir()) == []


def test_records_of_another_schema_are_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_store(path, COMPARISON) as store:
        store.write_failure(Fit("iris", "mixup", 0), "no")
    before = path.read_bytes()
    for restart in (False, True):
        with pytest.raises(ValueError, match="compare"):
            open_paper_store(path, restart=restart)
    with pytest.raises(ValueError, match="compare"):
        load(path, PAPER_SCHEMA)
    assert path.read_bytes() == before


def test_older_format_is_refused_without_restart(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with sqlite3.connect(path) as connection:
        for statement in ("meta (name TEXT, value INTEGER)", "records (id TEXT)", "failures (setting TEXT)"):
            connection.execute(f"CREATE TABLE {statement}")
        connection.execute("INSERT INTO meta VALUES ('protocol', 1)")
    connection.close()
    for read in (open_paper_store, read_frame):
        with pytest.raises(ValueError, match="format"):
            read(path)
    check_store(path, PAPER_SCHEMA, restart=True)
    with open_paper_store(path, restart=True) as store:
        assert store.done == {}
    assert read_frame(path).empty


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE letters (text)")
    connection.close()


@pytest.mark.parametrize(
    "make, keyword",
    [
        (lambda path: path.write_text("some text, " * 100), "database"),
        (foreign, "letters"),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_foreign_file_is_unchanged(tmp_path: Path, make: Any, keyword: str, restart: bool) -> None:
    path = tmp_path / "letter.sqlite"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=keyword):
        open_paper_store(path, restart=restart)
    with pytest.raises(ValueError, match=keyword):
        read_frame(path)
    assert path.read_bytes() == before


def test_unusable_paths_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        read_frame(tmp_path / "none.sqlite")
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(ValueError, match="empty"):
        read_frame(tmp_path / "empty.sqlite")
    with pytest.raises(ValueError, match="folder"):
        open_paper_store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]


HOLD = """
import sys, time
from genlabel.evaluation.records import open_store
from genlabel_paper.runs.cells import PAPER_SCHEMA
with open_store(sys.argv[1], PAPER_SCHEMA):
    print("open", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        begin = time.monotonic()
        for restart in (False, True):
            with pytest.raises(OSError, match="another run"):
                open_paper_store(path, restart=restart)
        assert time.monotonic() - begin < 2
        assert read_frame(path).empty
        process.kill()
    with open_paper_store(path) as store, pytest.raises(BlockingIOError, match="another run"):
        open_paper_store(store.path)
    open_paper_store(path).__exit__()


WRITE = """
import sys
from genlabel.evaluation.records import open_store
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell
with open_store(sys.argv[1], PAPER_SCHEMA) as store:
    begin = len(store.done)
    for trial in range(begin, begin + 100_000):
        cells = [Cell("s", str(trial), str(method), 0, 0) for method in range(7)]
        store.write([
            {"key": cell, "parameters": {"text": "x" * 2000}, "metrics": {}, "seconds": 0.0, "versions": {}}
            for cell in cells
        ], {cell.id: "today" for cell in cells})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_readers_see_complete_trials_after_kills(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    last = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], env=environment())
        target = last + 70
        while last < target and process.poll() is None:
            time.sleep(0.02)
            seen = len(read_frame(path)) if path.exists() and path.stat().st_size else 0
            assert seen % 7 == 0
            assert seen >= last
            last = seen
        process.kill()
        assert process.wait() == -signal.SIGKILL
        frame = read_frame(path)
        assert len(frame) % 7 == 0
        assert frame.groupby("dataset").size().eq(7).all()
        last = len(frame)


def test_file_is_plain_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with open_paper_store(path) as store:
        write(store, [record()])
    connection = sqlite3.connect(path)
    written, metrics = connection.execute("SELECT written, metrics FROM records").fetchone()
    connection.close()
    assert pd.Timestamp.now("UTC") - pd.Timestamp(written) < pd.Timedelta("1min")
    assert json.loads(metrics)["accuracy"] == 100 / 3

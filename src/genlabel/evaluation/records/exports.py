"""Small exports of records for git: JSON, rounded, a line for each method on each dataset; and one way to read all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import fsum, isnan
from pathlib import Path
from typing import Any, cast

import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel.evaluation.records.schema import RecordSchema
from genlabel.evaluation.records.store import RecordSet, make_frame, read_store

__all__ = ["RecordSet", "export_records", "load_records", "read_records"]

MARK = "genlabel records"
"""First key of an export; its value is the format."""
FORMAT = 2
STORES = (".sqlite", ".sqlite3", ".db")
"""Endings of stores."""

_Row = dict[str, Any]
_Place = tuple[Any, ...]
_Which = int | list[int | None] | None


def read_records(path: str | Path, kind: RecordSchema) -> pd.DataFrame:
    """Return the records of a store, of an export, or of all exports of a folder, as the frame of `RecordSet`.

    >>> from tempfile import TemporaryDirectory
    >>> from genlabel.evaluation.records import COMPARISON, Fit, open_store
    >>> record = {"cell": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"accuracy": 96.0}, "seconds": 1.0,
    ...           "versions": {}}
    >>> with TemporaryDirectory() as folder:
    ...     with open_store(f"{folder}/run.sqlite", COMPARISON) as store:
    ...         store.write([record], {"iris/mixup/split=0": "as today"})
    ...     read_records(f"{folder}/run.sqlite", COMPARISON)[["id", "accuracy"]].to_dict("records")
    [{'id': 'iris/mixup/split=0', 'accuracy': 96.0}]
    """
    return load_records(path, kind).frame


def load_records(path: str | Path, kind: RecordSchema) -> RecordSet:
    """Return what a store, an export, or a folder of exports holds.

    Parameters
    ----------
    path : path
        Ends in .sqlite or .json, or is a folder with files that end in .json.
    kind : RecordSchema

    Examples
    --------
    >>> from genlabel.evaluation.records import COMPARISON
    >>> load_records("records.jsonl", COMPARISON)
    Traceback (most recent call last):
    ValueError: 'records.jsonl' ends in '.jsonl'; name a store (.sqlite), an export (.json) or a folder of exports
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path, kind)
    if path.suffix in STORES or _is_database(path):
        return read_store(path, kind)
    if path.suffix == ".json":
        return _kept(list(_rows(_load(path, kind), kind)), _load(path, kind)["settings"], kind)
    hint = "name a store (.sqlite), an export (.json) or a folder of exports"
    raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; {hint}")


def export_records(
    frame: pd.DataFrame, path: str | Path, kind: RecordSchema, settings: Mapping[str, Any] | None = None
) -> None:
    """Write records as JSON, a line for all cells that differ in `kind.lists` only, which are lists in it.

    Metrics are rounded as `kind.rounded` says. Of cells that are trained together the seconds are kept as the sum of a
    line.

    Parameters
    ----------
    frame : DataFrame
        As of `read_records`.
    path : path
    kind : RecordSchema
    settings : dict, optional
        What all of them have in common.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from genlabel.evaluation.records import COMPARISON
    >>> row = {"id": "iris/mixup/split=0", "dataset": "iris", "method": "mixup", "split": 0, "seconds": 1.5,
    ...        "parameters": {}, "versions": {}, "fingerprint": "f", "facts": {}, "metrics": {"log_loss": 2 / 3}}
    >>> with TemporaryDirectory() as folder:
    ...     export_records(make_frame([row], COMPARISON), f"{folder}/run.json", COMPARISON)
    ...     read_records(f"{folder}/run.json", COMPARISON)["log_loss"].tolist()
    [0.6666667]
    """
    if not frame["id"].is_unique:
        raise ValueError(f"{frame['id'][frame['id'].duplicated()].iloc[0]!r} is there twice; export each cell once")
    rows = cast("list[_Row]", frame.to_dict("records"))
    lists = {name: sorted({row[name] for row in rows}) for name in kind.lists}
    versions = sorted({_named(row) for row in rows})
    prints = sorted({row["fingerprint"] for row in rows})
    lines = [
        _pack(group, versions, prints, list(product(*lists.values())), kind)
        for _, group in sorted(_group(rows, kind).items())
    ]
    total = round(round(fsum(row["seconds"] for row in rows), 6), 1)  # a half is one however it was added up
    header: dict[str, Any] = {MARK: FORMAT, "study": kind.name, "settings": dict(settings or {})}
    header |= {"versions": [json.loads(text) for text in versions], "fingerprints": prints}
    header |= {"lists": lists, "seconds": total}
    head = [f"{_text(name)}: {_text(value)}," for name, value in header.items()]
    atomic_write(path, "\n".join(["{", *head, '"lines": [', ",\n".join(map(_text, lines)), "]", "}"]) + "\n")


def _is_database(path: Path) -> bool:
    """Whether a file of any name begins as SQLite's do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


def _read_folder(path: Path, kind: RecordSchema) -> RecordSet:
    files = sorted(path.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"there is no export (*.json) in the folder {str(path)!r}; name another")
    found: dict[str, tuple[Path, _Row]] = {}
    for file in files:
        for row in _rows(_load(file, kind), kind):
            if row["id"] in found:
                both = f"{str(found[row['id']][0])!r} and {str(file)!r}"
                raise ValueError(f"{row['id']!r} is in {both}; remove one of them, or name a file")
            found[row["id"]] = (file, row)
    return _kept([row for _, row in found.values()], {}, kind)


def _kept(rows: Sequence[_Row], settings: Mapping[str, Any], kind: RecordSchema) -> RecordSet:
    """An export has what was done: no failures, and nothing that was asked for besides."""
    frame = make_frame(rows, kind)
    return RecordSet(frame, {}, dict(settings), frame[list(kind.fields)])


def _load(path: Path, kind: RecordSchema) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no export {str(path)!r}; make it from a store, or name another")
    try:
        export = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON ({error}); mend it, or make it anew from a store") from error
    found = export.get(MARK) if isinstance(export, dict) else None
    if found != FORMAT:
        what = "no export of records" if found is None else f"an export of format {found}, not {FORMAT}"
        raise ValueError(f"{str(path)!r} is {what}; make it anew from a store, or name another file")
    if export["study"] != kind.name:
        raise ValueError(f"{str(path)!r} has records of {export['study']}, not of {kind.name}; name another file")
    return export


def _rows(export: Mapping[str, Any], kind: RecordSchema) -> Iterator[_Row]:
    """Give the rows of an export."""
    places = [dict(zip(export["lists"], place, strict=True)) for place in product(*export["lists"].values())]
    for line in export["lines"]:
        yield from _unpack(line, export, places, kind)


def _shared_fields(kind: RecordSchema) -> list[str]:
    """The fields that the cells of a line have in common."""
    return [name for name in kind.fields if name not in kind.lists]


def _group(rows: Sequence[_Row], kind: RecordSchema) -> dict[_Place, list[_Row]]:
    found: dict[_Place, list[_Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in _shared_fields(kind)), []).append(row)
    return found


def _pack(
    group: Sequence[_Row], versions: Sequence[str], prints: Sequence[str], places: Sequence[_Place], kind: RecordSchema
) -> dict[str, Any]:
    """Return rows that differ in the lists only as one line, None where there is no row."""
    at = {tuple(row[name] for name in kind.lists): row for row in group}
    rows = [at.get(place) for place in places]
    fixed = {"id", "seconds", "parameters", "versions", "fingerprint", *kind.fields, *kind.facts}
    metrics = {name: _rounded(name, rows, kind) for name in group[0] if name not in fixed}
    facts, chosen = [row or {} for row in rows], [{} if row is None else row["parameters"] for row in rows]
    return {
        "cells": [group[0][name] for name in _shared_fields(kind)],
        "seconds": _rounded("seconds", rows, kind)
        if kind.trains_alone
        else round(sum(row["seconds"] for row in group), 3),
        "version": _shared([None if row is None else versions.index(_named(row)) for row in rows]),
        "fingerprint": _shared([None if row is None else prints.index(row["fingerprint"]) for row in rows]),
        "metrics": {name: values for name, values in metrics.items() if any(value is not None for value in values)},
        "parameters": {name: _coded(name, chosen) for name in sorted({name for held in chosen for name in held})},
        "facts": {name: _coded(name, facts) for name in kind.facts},
    }


def _unpack(
    line: Mapping[str, Any], export: Mapping[str, Any], places: Sequence[Mapping[str, Any]], kind: RecordSchema
) -> Iterator[_Row]:
    """Give the rows of a line."""
    count = len(places)
    common = dict(zip(_shared_fields(kind), line["cells"], strict=True))
    version, made = (_spread(line[name], count) for name in ("version", "fingerprint"))
    present = [i for i, which in enumerate(version) if which is not None]
    seconds = line["seconds"] if isinstance(line["seconds"], list) else [line["seconds"] / len(present)] * count
    for i in present:
        cell = kind.cell(**common, **places[i])
        yield cell.fields | {
            "id": cell.id,
            "seconds": seconds[i],
            "versions": export["versions"][version[i]],
            "fingerprint": export["fingerprints"][made[i]],
            "metrics": {name: values[i] for name, values in line["metrics"].items() if values[i] is not None},
            "parameters": _decoded(line["parameters"], i, count),
            "facts": _decoded(line["facts"], i, count),
        }


def _rounded(metric: str, rows: Sequence[_Row | None], kind: RecordSchema) -> list[float | None]:
    values = [None if row is None or isnan(row[metric]) else row[metric] for row in rows]
    return [None if value is None else kind.rounded(metric, value) for value in values]


def _coded(name: str, held: Sequence[_Row]) -> tuple[list[Any], _Which]:
    """Return the values that go by a name, each once, and which of them a row has."""
    texts = [_text(values[name]) if name in values else None for values in held]
    levels = [text for text in dict.fromkeys(texts) if text is not None]
    return [json.loads(text) for text in levels], _shared([None if t is None else levels.index(t) for t in texts])


def _decoded(coded: Mapping[str, Any], i: int, count: int) -> dict[str, Any]:
    held = {name: (levels, _spread(which, count)[i]) for name, (levels, which) in coded.items()}
    return {name: levels[which] for name, (levels, which) in held.items() if which is not None}


def _shared(values: list[int | None]) -> _Which:
    """Return the one entry of a list whose entries are all the same."""
    return values[0] if len(set(values)) == 1 else values


def _spread(values: _Which, count: int) -> list[int | None]:
    return values if isinstance(values, list) else [values] * count


def _named(row: _Row) -> str:
    """The versions of a row, in the order of their names."""
    return _text(dict(sorted(row["versions"].items())))


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))

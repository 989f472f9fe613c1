"""Exports of records for git: rounded JSON with a line for each method on each dataset; and reading of all records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import fsum, isnan
from pathlib import Path
from typing import Any, cast

import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel.evaluation.records.schema import Record, RecordSchema, RecordSet, make_frame, make_row
from genlabel.evaluation.records.store import RecordStore, find_store_class

MARK = "genlabel records"
"""First key of an export; its value is the format."""
FORMAT = 3

_Row = dict[str, Any]
_Indices = int | list[int | None] | None
"""Index of a value for each row of a line, or one index for all rows."""


def load_records(path: str | Path, schema: RecordSchema) -> RecordSet:
    """Return what a store, an export, or a folder of exports holds.

    Parameters
    ----------
    path : path
        File of a registered store (.sqlite), an export (.json), or a folder of exports.
    schema : RecordSchema

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from genlabel.evaluation.records import open_store
    >>> from genlabel.evaluation.records.schema import COMPARISON, Fit
    >>> record = {"key": Fit("iris", "mixup", 0), "parameters": {}, "metrics": {"accuracy": 0.96}, "seconds": 1.0,
    ...           "versions": {}}
    >>> with TemporaryDirectory() as folder:
    ...     with open_store(f"{folder}/run.sqlite", COMPARISON) as store:
    ...         store.write([record], {"iris/mixup/split=0": "fingerprint"})
    ...         print(store.done)
    ...     load_records(f"{folder}/run.sqlite", COMPARISON).frame[["id", "accuracy"]].to_dict("records")
    {'iris/mixup/split=0': 'fingerprint'}
    [{'id': 'iris/mixup/split=0', 'accuracy': 0.96}]
    """
    path, files = Path(path), [Path(path)]
    store_class = find_store_class(path)
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise FileNotFoundError(f"there is no export (*.json) in the folder {str(path)!r}; name another")
    elif store_class is None and path.suffix != ".json":
        hint = "name a store (.sqlite), an export (.json) or a folder of exports"
        raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; {hint}")
    elif not path.is_file():
        hint = f"run {schema.command} first, or name another"
        raise FileNotFoundError(f"there is no file of records {str(path)!r}; {hint}")
    elif store_class is not None:
        return store_class.load(path, schema)
    rows: dict[str, tuple[_Row, Path]] = {}
    settings: dict[str, Any] = {}
    for file in files:
        export = _load_export(file, schema)
        settings = {} if path.is_dir() else dict(export["settings"])
        for row in _read_rows(export, schema):
            name = row["id"]
            if name in rows:
                first, second = str(rows[name][1]), str(file)
                raise ValueError(f"{name!r} is in {first!r} and {second!r}; remove one of them, or name a file")
            rows[name] = row, file
    frame = make_frame([row for row, _ in rows.values()], schema)
    return RecordSet(frame, {}, settings, frame[list(schema.fields)])  # an export has neither failures nor requests


def export_records(
    frame: pd.DataFrame, path: str | Path, schema: RecordSchema, settings: Mapping[str, Any] | None = None
) -> None:
    """Write the frame of a `RecordSet` as JSON, with one line for all runs that differ only in `schema.lists`.

    Metrics are rounded by `schema.round_metric`. Of runs that are trained together, only the total seconds of a line
    are written. `settings` are those that all records share.
    """
    if not frame["id"].is_unique:
        duplicate = frame["id"][frame["id"].duplicated()].iloc[0]
        raise ValueError(f"{duplicate!r} is in the frame twice; export each run once")
    rows = cast("list[_Row]", frame.to_dict("records"))
    lists = {name: sorted({row[name] for row in rows}) for name in schema.lists}
    versions = sorted({_dump_versions(row) for row in rows})
    fingerprints = sorted({row["fingerprint"] for row in rows})
    groups: dict[tuple[Any, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in _line_fields(schema)), []).append(row)
    combinations = list(product(*lists.values()))
    lines = [_pack_line(group, versions, fingerprints, combinations, schema) for _, group in sorted(groups.items())]
    header = {
        MARK: FORMAT,
        "study": schema.name,
        "settings": dict(settings or {}),
        "versions": [json.loads(text) for text in versions],
        "fingerprints": fingerprints,
        "lists": lists,
        "seconds": round(round(fsum(row["seconds"] for row in rows), 6), 1),  # independent of the order of the rows
    }
    header_lines = [f"{_dump(name)}: {_dump(value)}," for name, value in header.items()]
    atomic_write(path, "\n".join(["{", *header_lines, '"lines": [', ",\n".join(map(_dump, lines)), "]", "}"]) + "\n")


def copy_records(path: str | Path, store: RecordStore) -> int:
    """Copy the records of an export, a folder of exports or another store that a store lacks; return their number."""
    schema = store.schema
    frame = load_records(path, schema).frame
    frame = frame[~frame["id"].isin(list(store.done))]
    metrics = [name for name in frame.columns if name not in _not_metrics(schema)]
    rows = []
    for row in cast("list[_Row]", frame.to_dict("records")):
        values = {name: row[name] for name in metrics if not isnan(row[name])}
        key = schema.key(**{name: row[name] for name in schema.fields})
        facts = {name: row[name] for name in schema.facts}
        record = Record(
            key=key,
            parameters=row["parameters"],
            metrics=values,
            seconds=row["seconds"],
            versions=row["versions"],
            facts=facts,
        )
        rows.append(make_row(record) | {"fingerprint": row["fingerprint"]})
    store.write_rows(rows, ())
    store.done.update({row["id"]: row["fingerprint"] for row in rows})
    return len(rows)


def _not_metrics(schema: RecordSchema) -> set[str]:
    """Return the columns of a frame that are no metrics."""
    return {"id", "seconds", "parameters", "versions", "fingerprint", *schema.fields, *schema.facts}


def _load_export(path: Path, schema: RecordSchema) -> dict[str, Any]:
    try:
        export = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not JSON ({error}); make it again from a store") from error
    version = export.get(MARK) if isinstance(export, dict) else None
    if version != FORMAT:
        kind = "not an export of records" if version is None else f"an export of format {version}, not {FORMAT}"
        raise ValueError(f"{str(path)!r} is {kind}; make it again from a store, or name another file")
    if export["study"] != schema.name:
        raise ValueError(f"{str(path)!r} has records of {export['study']}, not of {schema.name}; name another file")
    return export


def _line_fields(schema: RecordSchema) -> list[str]:
    """Return the fields that the runs of a line have in common."""
    return [name for name in schema.fields if name not in schema.lists]


def _pack_line(
    group: Sequence[_Row],
    versions: Sequence[str],
    fingerprints: Sequence[str],
    combinations: Sequence[tuple[Any, ...]],
    schema: RecordSchema,
) -> dict[str, Any]:
    """Return rows that differ only in the lists as one line, with None for combinations without a row."""
    by_combination = {tuple(row[name] for name in schema.lists): row for row in group}
    rows = [by_combination.get(combination) for combination in combinations]

    def pack(metric: str) -> list[float | None]:
        """Return the rounded values of a metric, None for a missing row or NaN."""
        return [None if row is None or isnan(row[metric]) else schema.round_metric(metric, row[metric]) for row in rows]

    metrics = {name: pack(name) for name in group[0] if name not in _not_metrics(schema)}
    parameters = [{} if row is None else row["parameters"] for row in rows]
    trains_runs_alone = set(schema.trial._fields) == set(schema.fields)
    return {
        "cells": [group[0][name] for name in _line_fields(schema)],
        "seconds": pack("seconds") if trains_runs_alone else round(sum(row["seconds"] for row in group), 3),
        "version": _index([None if row is None else _dump_versions(row) for row in rows], versions),
        "fingerprint": _index([None if row is None else row["fingerprint"] for row in rows], fingerprints),
        "metrics": {name: values for name, values in metrics.items() if any(value is not None for value in values)},
        "parameters": {name: _encode(name, parameters) for name in sorted(set().union(*parameters))},
        "facts": {name: _encode(name, [row or {} for row in rows]) for name in schema.facts},
    }


def _read_rows(export: Mapping[str, Any], schema: RecordSchema) -> Iterator[_Row]:
    """Yield the rows of an export."""
    combinations = list(product(*export["lists"].values()))
    count = len(combinations)

    def decode(encoded: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Return the values of row i by name, without those that the row lacks."""
        indices = {name: _expand(index, count)[i] for name, (_, index) in encoded.items()}
        return {name: encoded[name][0][index] for name, index in indices.items() if index is not None}

    for line in export["lines"]:
        common = dict(zip(_line_fields(schema), line["cells"], strict=True))
        version, fingerprint = _expand(line["version"], count), _expand(line["fingerprint"], count)
        present = [i for i, index in enumerate(version) if index is not None]
        seconds = line["seconds"]
        if not isinstance(seconds, list):  # the total of the line
            seconds = [seconds / len(present)] * count
        for i in present:
            key = schema.key(**common, **dict(zip(export["lists"], combinations[i], strict=True)))
            yield key.fields | {
                "id": key.id,
                "seconds": seconds[i],
                "versions": export["versions"][version[i]],
                "fingerprint": export["fingerprints"][fingerprint[i]],
                "metrics": {name: values[i] for name, values in line["metrics"].items() if values[i] is not None},
                "parameters": decode(line["parameters"], i),
                "facts": decode(line["facts"], i),
            }


def _encode(name: str, rows: Sequence[_Row]) -> tuple[list[Any], _Indices]:
    """Return the distinct values of a name, and the index of the value of each row."""
    texts = [_dump(row[name]) if name in row else None for row in rows]
    levels = list(dict.fromkeys(text for text in texts if text is not None))
    return [json.loads(text) for text in levels], _index(texts, levels)


def _index(values: Sequence[str | None], levels: Sequence[str]) -> _Indices:
    """Return the index of each value among the levels, or one index if all are equal."""
    indices = [None if value is None else levels.index(value) for value in values]
    return indices[0] if len(set(indices)) == 1 else indices


def _expand(values: _Indices, count: int) -> list[int | None]:
    return values if isinstance(values, list) else [values] * count


def _dump_versions(row: _Row) -> str:
    return _dump(dict(sorted(row["versions"].items())))


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))

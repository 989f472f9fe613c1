"""Small exports of the records for git: JSON, rounded, a line for each method on each dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, cast

import pandas as pd

from genlabel_paper.study.cells import Cell
from genlabel_paper.study.store import KEYS, PROTOCOL, make_frame, read_store

__all__ = ["export_records", "read_export", "read_records"]

MARK = "genlabel study"
"""First key of an export; its value is the protocol."""
GROUP = ["setting", "dataset", "method", "alpha"]
"""What the cells of a line have in common."""
STORES = (".sqlite", ".sqlite3", ".db")
"""Endings of stores."""

_Row = dict[str, Any]
_Which = int | list[int | None] | None


def read_records(path: str | Path) -> pd.DataFrame:
    """Return the records of a store, of an export, or of all exports of a folder.

    Parameters
    ----------
    path : path
        Ends in .sqlite or .json, or is a folder with files that end in .json.

    Examples
    --------
    >>> read_records("records.csv")
    Traceback (most recent call last):
    ValueError: 'records.csv' ends in '.csv'; name a store (.sqlite), an export (.json) or a folder of exports
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if path.suffix in STORES or _is_database(path):
        return read_store(path)
    if path.suffix == ".json":
        return read_export(path)
    way_out = "name a store (.sqlite), an export (.json) or a folder of exports"
    raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; {way_out}")


def _is_database(path: Path) -> bool:
    """Whether a file of any name begins as SQLite's do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


def export_records(frame: pd.DataFrame, path: str | Path) -> None:
    """Write records as JSON, a line for each setting, dataset, method and alpha, with lists over splits and seeds.

    Accuracies have 3 decimals, in percent; other metrics have 4 decimals or 4 digits, whichever is nearer. Of the
    parameters, single values are kept; of the seconds, the sum of a line.

    Parameters
    ----------
    frame : DataFrame
        As of `genlabel_paper.study.store.read_store`.
    path : path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> row = {"id": "s/61/mixup/alpha=1/split=0/seed=3", "setting": "s", "dataset": "61", "method": "mixup",
    ...        "alpha": 1.0, "split": 0, "seed": 3, "seconds": 0.5, "parameters": {"gamma": 1.0}, "versions": {},
    ...        "metrics": {"accuracy": 93.81443}}
    >>> with TemporaryDirectory() as folder:
    ...     export_records(make_frame([row]), f"{folder}/s.json")
    ...     read_export(f"{folder}/s.json")[["method", "seed", "accuracy"]].to_dict("records")
    [{'method': 'mixup', 'seed': 3, 'accuracy': 93.814}]
    """
    from genlabel.suite.records import replace_file

    if not frame["id"].is_unique:
        raise ValueError(f"{frame['id'][frame['id'].duplicated()].iloc[0]!r} is there twice; export each cell once")
    rows = cast("list[_Row]", frame.to_dict("records"))
    splits, seeds = (sorted({row[name] for row in rows}) for name in ("split", "seed"))
    versions = sorted({_named(row) for row in rows})
    groups = [_pack(group, versions, _places(splits, seeds)) for _, group in sorted(_group(rows).items())]
    header: dict[str, Any] = {MARK: PROTOCOL, "versions": [json.loads(text) for text in versions]}
    header |= {"splits": splits, "seeds": seeds, "seconds": _total(groups)}
    head = [f"{_text(name)}: {_text(value)}," for name, value in header.items()]
    replace_file(Path(path), "\n".join(["{", *head, '"groups": [', ",\n".join(map(_text, groups)), "]", "}"]) + "\n")


def read_export(path: str | Path) -> pd.DataFrame:
    """Return the records of an export: the frame of `read_store`, rounded, the seconds of a line shared equally.

    >>> read_export("nowhere.json")
    Traceback (most recent call last):
    FileNotFoundError: there is no export 'nowhere.json'; make it from a store, or name another
    """
    return make_frame(_rows(Path(path)))


def _read_folder(path: Path) -> pd.DataFrame:
    files = sorted(path.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"there is no export (*.json) in the folder {str(path)!r}; name another")
    found: dict[str, tuple[Path, _Row]] = {}
    for file in files:
        for row in _rows(file):
            if row["id"] in found:
                both = f"{str(found[row['id']][0])!r} and {str(file)!r}"
                raise ValueError(f"{row['id']!r} is in {both}; remove one of them, or name a file")
            found[row["id"]] = (file, row)
    return make_frame(row for _, row in found.values())


def _rows(path: Path) -> Iterator[_Row]:
    """Give the rows of an export."""
    export = _load(path)
    places = _places(export["splits"], export["seeds"])
    for group in export["groups"]:
        yield from _unpack(group, export["versions"], places)


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no export {str(path)!r}; make it from a store, or name another")
    try:
        export = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no JSON ({error}); mend it, or make it anew from a store") from error
    found = export.get(MARK) if isinstance(export, dict) else None
    if found != PROTOCOL:
        what = "no export of records" if found is None else f"an export of protocol {found}, not {PROTOCOL}"
        raise ValueError(f"{str(path)!r} is {what}; make it anew from a store, or name another file")
    return export


def _places(splits: Sequence[int], seeds: Sequence[int]) -> list[tuple[int, int]]:
    """The splits and seeds of the lists of a line: all seeds of the first split, then those of the second."""
    return list(product(splits, seeds))


def _group(rows: Sequence[_Row]) -> dict[tuple[Any, ...], list[_Row]]:
    found: dict[tuple[Any, ...], list[_Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in GROUP), []).append(row)
    return found


def _pack(group: Sequence[_Row], versions: Sequence[str], places: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return rows that differ in split and seed only as one line, None where there is no row."""
    at = {(row["split"], row["seed"]): row for row in group}
    rows = [at.get(place) for place in places]
    version = [None if row is None else versions.index(_named(row)) for row in rows]
    chosen = sorted({name for row in group for name, value in row["parameters"].items() if _is_single(value)})
    metrics = {name: _rounded(name, rows) for name in group[0] if name not in (*KEYS, "parameters", "versions")}
    return {
        "cells": [group[0][name] for name in GROUP],
        "seconds": round(sum(row["seconds"] for row in group), 3),
        "version": _shared(version),
        "metrics": {name: values for name, values in metrics.items() if any(value is not None for value in values)},
        "parameters": {name: _coded(name, rows) for name in chosen},
    }


def _unpack(group: Mapping[str, Any], versions: Sequence[_Row], places: Sequence[tuple[int, int]]) -> Iterator[_Row]:
    """Give the rows of a line."""
    setting, dataset, method, alpha = group["cells"]
    present = [(i, which) for i, which in enumerate(_spread(group["version"], len(places))) if which is not None]
    coded = {name: (levels, _spread(which, len(places))) for name, (levels, which) in group["parameters"].items()}
    for i, which in present:
        cell = Cell(setting, dataset, method, *places[i], alpha)
        yield cell.fields | {
            "id": cell.id,
            "seconds": group["seconds"] / len(present),
            "versions": versions[which],
            "metrics": {name: values[i] for name, values in group["metrics"].items() if values[i] is not None},
            "parameters": {name: levels[at[i]] for name, (levels, at) in coded.items() if at[i] is not None},
        }


def _rounded(metric: str, rows: Sequence[_Row | None]) -> list[float | None]:
    values = [None if row is None or isnan(row[metric]) else row[metric] for row in rows]
    return [None if value is None else _round(metric, value) for value in values]


def _round(metric: str, value: float) -> float:
    """Percent with 3 decimals; the rest with 4 decimals or 4 digits, whichever is nearer."""
    if metric.endswith("accuracy"):
        return round(value, 3)
    return min(round(value, 4), float(f"{value:.4g}"), key=lambda near: abs(near - value))


def _coded(name: str, rows: Sequence[_Row | None]) -> tuple[list[Any], _Which]:
    """Return the values of a parameter, each once, and which of them a row has."""
    held = [{} if row is None else row["parameters"] for row in rows]
    texts = [_text(of[name]) if name in of and _is_single(of[name]) else None for of in held]
    levels = [text for text in dict.fromkeys(texts) if text is not None]
    return [json.loads(text) for text in levels], _shared([None if t is None else levels.index(t) for t in texts])


def _shared(values: list[int | None]) -> _Which:
    """Return the one entry of a list whose entries are all the same."""
    return values[0] if len(set(values)) == 1 else values


def _spread(values: _Which, count: int) -> list[int | None]:
    return values if isinstance(values, list) else [values] * count


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _total(groups: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of each setting."""
    settings = dict.fromkeys(group["cells"][0] for group in groups)
    return {name: round(sum(g["seconds"] for g in groups if g["cells"][0] == name), 1) for name in settings}


def _named(row: _Row) -> str:
    """The versions of a row, in the order of their names."""
    return _text(dict(sorted(row["versions"].items())))


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))

"""From plain values to a model again: the other direction of the writer, for values that may be forged."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.persistence.object_state import rebuild

WHOLE = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
NUMBERS = ("bool", *WHOLE, "float16", "float32", "float64")
"""Names of dtypes that may stand in a file."""
TEXTS = re.compile(r"object|str(\d{1,6})")
"""Of arrays of objects, or of texts by the bits that each may take."""

MOST_LETTERS = 1 << 26
"""That an array of texts has room for: a file of few bytes could fill the memory."""


@final
class Reader:
    """Reads what a :class:`genlabel.persistence.serializer.Writer` has written; everything else is a ValueError.

    Only classes of the allow-list are ever looked up, and only plain values are put into them.

    Parameters
    ----------
    objects : list of dict
    arrays : mapping of str -> ndarray

    Examples
    --------
    >>> Reader([], {}).read({"is": "tuple", "items": [1, "a", {"is": "float", "value": "nan"}]})
    (1, 'a', nan)
    >>> Reader([{"class": "subprocess.Popen", "state": {}}], {})
    Traceback (most recent call last):
    ValueError: it names the class 'subprocess.Popen', which is none of those that a kept model is made of
    """

    def __init__(self, objects: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._ways: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "array": self._numbers,
            "dict": lambda found: {self.read(key): self.read(value) for key, value in found["items"]},
            "float": lambda found: float(_known(found["value"], ("nan", "inf", "-inf"))),
            "number": lambda found: np.dtype(_known(found["dtype"], NUMBERS)).type(self.read(found["value"])),
            "object": lambda found: self._objects[found["number"]],
            "tensor": lambda found: torch.from_numpy(self._numbers(found)).clone(),
            "text": lambda found: np.str_(found["value"]),
            "tuple": lambda found: tuple(self.read(item) for item in found["items"]),
            "values": self._values,
        }
        self._objects: list[Any] = []
        for found in objects:
            state = {name: self.read(value) for name, value in found["state"].items()}
            self._objects.append(rebuild(found["class"], state))

    def read(self, value: Any) -> Any:
        """Return the value that stands there as a plain one."""
        if isinstance(value, list):
            return [self.read(item) for item in value]
        return self._ways[_known(value["is"], tuple(self._ways))](value) if isinstance(value, dict) else value

    def _numbers(self, found: Mapping[str, Any]) -> NDArray[Any]:
        """An array in memory of its own, with its axes in the order that they had."""
        stored = np.array(self._arrays[found["at"]])
        return stored if "order" not in found else stored.transpose(np.argsort(found["order"]))

    def _values(self, found: Mapping[str, Any]) -> NDArray[Any]:
        kind = TEXTS.fullmatch(found["dtype"])
        if kind is None:
            raise ValueError(f"it has an array of {found['dtype']!r}, which is neither of objects nor of texts")
        width = 0 if kind[1] is None else int(kind[1]) // 32
        if width * len(found["items"]) > MOST_LETTERS:
            raise ValueError(
                f"it has {len(found['items'])} texts with room for {width} letters each, which is too much"
            )
        array = np.empty(len(found["items"]), object if kind[1] is None else f"U{width}")
        for place, item in enumerate(found["items"]):
            array[place] = self.read(item)
        return array.reshape(found["shape"])


def _known(value: Any, names: Sequence[str]) -> str:
    if value not in names:
        raise ValueError(f"it has {value!r} where one of {', '.join(names)} must be")
    return str(value)

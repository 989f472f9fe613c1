"""The pages of the API: one for each room, with all that it offers, and one for the front door."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from textwrap import indent
from typing import Any

from making.names import FRONT, GROUPS, data_docs, home_of, names_of, owner, rooms, written_in
from making.stage import Stage

__all__ = ["sentence", "write_api"]

OPTIONS = {"class": ":members:\n:inherited-members:\n:show-inheritance:", "function": "", "exception": ""}
LONGEST = 120
"""Letters of a value that is shown."""


def write_api(stage: Stage) -> None:
    """Write a page for each room, the front door and the list of all."""
    for room in rooms():
        stage.write(f"api/{room}.rst", _room_page(room))
    stage.write("api/front.rst", _front_page())
    stage.write("api/index.rst", _index_page())


def _room_page(room: str) -> str:
    module = f"genlabel.{room}"
    about, names = inspect.getdoc(import_module(module)) or "", names_of(room)
    shown = [_entry(room, name) for name in names if owner(room, name) == room]
    parts = [
        _title(module),
        f".. py:module:: {module}",
        about,
        _list_table([_line(room, one) for one in names]),
        *shown,
    ]
    return "\n\n".join(parts) + "\n"


def _front_page() -> str:
    about = "What `from genlabel import ...` offers; each name leads to the room that it lives in."
    lines = [line for name in FRONT for line in [_line(home_of(name) or "", name)]]
    return "\n\n".join([_title("genlabel"), ".. py:module:: genlabel", about, _list_table(lines)]) + "\n"


def _index_page() -> str:
    about = (
        "Every public name, with its signature, types, an example where a call makes sense, and its source. A room is "
        "a package or module of `genlabel`; its page has all that it offers. The most common names can be imported "
        "from :doc:`genlabel itself <front>`. An example sees what its module sees: to run one, import the names that "
        "it uses, `np`, `pd` and `torch` among them."
    )
    parts = [_title("API"), about, _toctree(["front"], hidden=True)]
    for title, group in GROUPS.items():
        lines = [f"   * - :doc:`{room} <{room}>`\n     - {sentence(f'genlabel.{room}')}" for room in group]
        parts += [f"{title}\n{'-' * len(title)}", _list_table(lines), _toctree(group, hidden=True)]
    return "\n\n".join(parts) + "\n"


def _entry(room: str, name: str) -> str:
    """The directive that documents a name."""
    value = getattr(import_module(f"genlabel.{room}"), name)
    kind = _kind(value)
    if kind == "data":
        return _constant(room, name, value)
    return f".. auto{kind}:: genlabel.{room}.{name}\n{indent(OPTIONS[kind], '   ')}".rstrip()


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isfunction(value) or hasattr(value, "__wrapped__") else "data"


def _constant(room: str, name: str, value: Any) -> str:
    """A constant with its value, if that is short, and what its module says of it."""
    shown = re.sub(r"\s+", " ", repr(value))
    options = [f"   :value: {shown}"] if len(shown) <= LONGEST and "<" not in shown else []
    said = indent(_said_of(room, name), "   ")
    return "\n".join([f".. py:data:: {name}", *options, "", said])


def _said_of(room: str, name: str) -> str:
    module = written_in(f"genlabel.{room}", name)
    return data_docs(module).get(name, "")


def _line(room: str, name: str) -> str:
    home = owner(room, name)
    return f"   * - :py:obj:`{name} <genlabel.{home}.{name}>`\n     - {sentence(f'genlabel.{home}', name)}"


def sentence(module: str, name: str = "") -> str:
    """Return what a module, or a name in it, says of itself first."""
    value = getattr(import_module(module), name) if name else import_module(module)
    constant = name and _kind(value) == "data"
    said = _said_of(module.removeprefix("genlabel."), name) if constant else inspect.getdoc(value) or ""
    first = " ".join(said.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s(?=[A-Z`])", first)[0].replace("|", r"\|")


def _list_table(lines: list[str]) -> str:
    return "\n".join([".. list-table::", "   :widths: 35 65", "   :class: names", "", *lines])


def _toctree(names: list[str], hidden: bool) -> str:
    return "\n".join([".. toctree::", *(["   :hidden:"] if hidden else []), "", *(f"   {name}" for name in names)])


def _title(words: str) -> str:
    return f"{words}\n{'=' * len(words)}"

"""Pages from Jinja2 templates: everything that a template prints is escaped, characters that no page may hold go.

A page is one HTML file with its style and its script inside; its content security policy forbids all requests.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import isfinite
from typing import Any, TypeAlias, final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

UNFIT_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters and halves of surrogate pairs, which HTML forbids."""
DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Marks that reverse the direction of all text behind them."""
MIN_FILTER_ROWS, MAX_FULL_ROWS = 8, 25
"""Rows from which a table has a filter, and above which it scrolls within its own box."""
MAX_WORD, MAX_CELL = 24, 120
"""Characters of a word that is not broken, and of a cell; a longer cell shows all of it under the pointer."""


@cache
def environment(package: str = "genlabel.reporting") -> Environment:
    """Return the Jinja2 environment of the templates of a package, which can use those of this package too.

    Output is escaped, an unknown name is an error.

    Parameters
    ----------
    package : str
        Package with a folder "templates".

    Examples
    --------
    >>> environment().from_string("<p>{{ text }}</p>").render(text="a < b")
    '<p>a &lt; b</p>'
    """
    loaders = [PackageLoader(name) for name in dict.fromkeys((package, "genlabel.reporting"))]
    made = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["content_security_policy"] = _content_security_policy
    return made


def clean_text(value: Any) -> str:
    r"""Return a value as text that a page can hold: control characters are replaced, direction marks are named.

    >>> clean_text("a\x00b \u202eabc")
    'a\ufffdb [U+202E]abc'
    """
    if isinstance(value, Markup):
        return value
    text = UNFIT_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return DIRECTION_MARKS.sub(lambda mark: f"[U+{ord(mark[0]):04X}]", text)


@cache
def _content_security_policy() -> str:
    """Return the rules of a page: show what is in it, run its script and no other."""
    script = environment().get_template("page.js").render()
    digest = b64encode(sha256(script.encode()).digest()).decode()
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src 'sha256-{digest}'; {rest}"


@final
@dataclass(frozen=True)
class TableCell:
    """Cell of a :class:`DataTable`."""

    text: str
    value: float | None = None
    """Number by which the column is sorted; the text if there is none."""
    class_: str | None = None
    title: str | None = None
    """Text under the pointer."""
    content: Any = None
    """Object that the caller of the macro `data_table` renders instead of the text."""

    @property
    def shown(self) -> str:
        """The text, its beginning if it is long."""
        return self.text if len(self.text) <= MAX_CELL else shorten(self.text, MAX_CELL, tail=False)

    @property
    def hint(self) -> str | None:
        """Text under the pointer: the title, or the whole of a long text."""
        return self.text if self.title is None and self.shown != self.text else self.title

    @property
    def sort_key(self) -> str | None:
        """Value of the attribute by which the script sorts."""
        if self.value is None:
            return None
        return f"{self.value:.6g}" if isfinite(self.value) else ""

    def classes(self, wraps: bool) -> str:
        """Return the CSS classes; a column of words wraps."""
        long = any(len(word) > MAX_WORD for word in self.shown.split())
        return " ".join(filter(None, ["words" if wraps else "", "long" if long else "", self.class_]))


Row: TypeAlias = list[str | TableCell]
"""Cells of a row of a table; the first one is its heading."""


@final
@dataclass(frozen=True)
class DataTable:
    """Table of a page, drawn by the macro `data_table`; the first cell of each row is its heading.

    Parameters
    ----------
    caption : str
    head : sequence of str
        Titles of the columns.
    rows : sequence of rows
        Each a sequence of as many strings or cells.
    words : sequence of int
        Indices of columns of text, which wrap.
    best : sequence of int
        Indices of rows that are marked.
    sortable : bool
        If True, a click on a title sorts.
    filterable : bool, optional
        If True, the table has a search box; by default from eight rows on.
    sorted_by : int, optional
        Index of the column by which the rows are sorted already, in ascending order.

    Examples
    --------
    >>> table = DataTable("Sizes", ["name", "cm"], [["a < b", TableCell("1.0", 1.0)]])
    >>> table.classes, [cell.sort_key for cell in table.cells[0]]
    ('sortable', [None, '1'])
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    words: Sequence[int] = ()
    best: Sequence[int] = ()
    sortable: bool = True
    filterable: bool | None = None
    sorted_by: int | None = None

    @property
    def cells(self) -> list[list[TableCell]]:
        """All rows as cells."""
        return [[cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row] for row in self.rows]

    @property
    def classes(self) -> str:
        """CSS classes, which the script reads."""
        filterable = len(self.rows) >= MIN_FILTER_ROWS if self.filterable is None else self.filterable
        return " ".join(name for name, used in (("sortable", self.sortable), ("filterable", filterable)) if used)

    @property
    def is_tall(self) -> bool:
        """True if the table scrolls within its own box."""
        return len(self.rows) > MAX_FULL_ROWS


def shorten(text: object, length: int = 24, tail: bool = True) -> str:
    """Return a text in at most `length` characters, on one line: its beginning and, with `tail`, its end.

    Names that begin alike often end in a number, which the tail keeps.

    >>> shorten("lily of the valley, number 12", 16)
    'lily of t…ber 12'
    >>> shorten("lily of the valley, number 12", 12, tail=False)
    'lily of the…'
    """
    line = " ".join(str(text).split())
    if len(line) <= length:
        return line
    end = (2 * (length - 1)) // 5 if tail else 0
    return line[: length - 1 - end].rstrip() + "…" + line[len(line) - end :].lstrip()

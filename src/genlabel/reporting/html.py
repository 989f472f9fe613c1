"""Pages from Jinja2 templates, their tables, and the numbers and names of their sentences.

A page is one HTML file that contains its style and its script; its content security policy forbids all requests. The
output of a template is escaped, and characters that HTML forbids are replaced.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import isfinite, isnan
from typing import Any, NamedTuple, TypeAlias

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

UNFIT_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters and halves of surrogate pairs, which HTML forbids."""
DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that change the direction of the text after them."""
MIN_FILTER_ROWS, MAX_FULL_ROWS = 8, 25
"""Minimum of rows of a table with a filter; maximum of rows of a table that does not scroll within its own box."""
MAX_WORD, MAX_CELL, MAX_NAME = 24, 120, 40
"""Maximum of characters of an unbroken word, of a cell (the pointer shows all of it), and of a name in a sentence."""


@cache
def environment(package: str = "genlabel.reporting") -> Environment:
    """Return the Jinja2 environment of the templates of a package, which may include those of this package.

    Output is escaped; an unknown name is an error.
    """
    loaders = [PackageLoader(name) for name in dict.fromkeys((package, "genlabel.reporting"))]
    result = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = b64encode(sha256(result.get_template("page.js").render().encode()).digest()).decode()
    result.globals["content_security_policy"] = (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return result


def clean_text(value: Any) -> str:
    """Return a value as a valid text of HTML: control characters are replaced, direction marks are shown by name."""
    if isinstance(value, Markup):
        return value
    text = UNFIT_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return DIRECTION_MARKS.sub(lambda mark: f"[U+{ord(mark[0]):04X}]", text)


def shorten(text: object, length: int = 24, tail: bool = True) -> str:
    """Return a text in at most `length` characters, on one line: its beginning and, with `tail`, its end.

    Names that begin alike often end in a number, which the tail keeps.

    >>> shorten("lily of the valley, number 12", 16)
    'lily of t…ber 12'
    """
    line = " ".join(str(text).split())
    if len(line) <= length:
        return line
    end = (2 * (length - 1)) // 5 if tail else 0
    return line[: length - 1 - end].rstrip() + "…" + line[len(line) - end :].lstrip()


def capitalize(text: str) -> str:
    """Return a text with its first letter as a capital.

    >>> capitalize("no difference to GenLabel")
    'No difference to GenLabel'
    """
    return text[:1].upper() + text[1:]


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f} %"


def name_of(text: object, length: int = MAX_NAME) -> str:
    """Return a name of the user for a sentence, in quotes if it looks like a number."""
    short = shorten(text, length)
    try:
        float(short or "0")
    except ValueError:
        return short
    return f"\N{LEFT DOUBLE QUOTATION MARK}{short}\N{RIGHT DOUBLE QUOTATION MARK}"


def list_names(names: Sequence[object], most: int = 6) -> str:
    """Return names as a list in words.

    >>> list_names(["a", "b", 3]), list_names(["a"]), list_names(["a", "b", "c"], 2)
    ('a, b and “3”', 'a', 'a, b and 1 more')
    """
    shown = [name_of(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown) or "none"


class TableCell(NamedTuple):
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


def number_cell(value: float, digits: int) -> TableCell:
    """Return a cell of a number, by which its column is sorted; empty for NaN."""
    return TableCell("" if isnan(value) else f"{value:.{digits}f}", float(value))


def percent_cell(value: float) -> TableCell:
    """Return a cell of a share; empty for NaN."""
    return TableCell("" if isnan(value) else percent(value), float(value))


Row: TypeAlias = list[str | TableCell]
"""Cells of a row of a table; the first one is its heading."""


class DataTable(NamedTuple):
    """Table of a page, drawn by the macro `data_table`.

    >>> table = DataTable("Sizes", ["name", "cm"], [["a < b", TableCell("1.0", 1.0)]])
    >>> table.classes, [cell.sort_key for cell in table.cells[0]]
    ('sortable', [None, '1'])
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    words: Sequence[int] = ()
    """Indices of columns of text, which wrap."""
    best: Sequence[int] = ()
    """Indices of rows that are marked."""
    sortable: bool = True
    """True if a click on a title sorts."""
    filterable: bool | None = None
    """True if the table has a search box; by default from eight rows on."""
    sorted_by: int | None = None
    """Index of the column by which the rows are sorted already, in ascending order."""

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

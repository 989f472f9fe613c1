"""Every table and figure of the paper on one page, study.html: the report of the committed records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from genlabel_paper.exports import load_records
from genlabel_paper.registry import find
from genlabel_paper.report.page import write_report
from genlabel_paper.runs.cells import PAPER_SCHEMA, in_percent
from genlabel_paper.runs.trials import is_current

ROOT = Path(__file__).parents[2]
PAGE = "study.html"
_anchors = set[str]()


def setup(app: Any) -> dict[str, bool]:
    """Register the writing of the page, which is copied into the site."""
    app.connect("config-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Any, config: Any) -> None:
    folder = Path(app.doctreedir, "extra")
    folder.mkdir(parents=True, exist_ok=True)
    records = load_records(ROOT / "results" / "paper", PAPER_SCHEMA).frame
    current = in_percent(records[is_current(records)].reset_index(drop=True))
    write_report(current, folder / PAGE, find(["all"]))
    _anchors.update(re.findall(r'id="([\w-]+)"', (folder / PAGE).read_text(encoding="utf-8")))
    config.html_extra_path.append(str(folder))


def experiment_link(name: str) -> str:
    """Return the link to a table or figure of the page, or to the list of those that were not run."""
    return f'<a href="{PAGE}#{name if name in _anchors else "not-run"}">{name}</a>'

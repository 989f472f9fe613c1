"""References from docstrings: a bare public name links to the page of its package; docstrings become clean numpydoc."""

from __future__ import annotations

import re
import sys
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

LISTS = ("Parameters", "Attributes", "Returns")
NAMES = re.compile(r"\w+(, \w+)*")
TRAILING_UNDERSCORE = re.compile(r"(?<=[a-z])_(?=[\s,.;:)*]|$)")


def setup(app: Any) -> dict[str, bool]:
    """Register the handlers."""
    app.connect("autodoc-skip-member", _skip_dynamic)
    app.connect("autodoc-process-docstring", _add_headings, priority=100)  # before napoleon
    app.connect("autodoc-process-docstring", _escape)
    app.connect("doctree-read", _match_exactly)
    app.connect("missing-reference", _resolve)
    app.connect("viewcode-follow-imported", _defining_module)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_dynamic(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Skip the methods that scikit-learn writes into every class, for the routing of metadata."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _add_headings(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Give text and examples that follow a list of parameters a heading; napoleon takes them for parameters."""
    if what == "data":
        lines[:] = data_doc(name) or lines
    result: list[str] = []
    in_list = False
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        if below and set(below) == {"-"}:
            in_list = line in LISTS
        elif in_list and result and not result[-1] and not _is_entry(line, below):
            heading = "Examples" if line.startswith(">>>") else "Notes"
            result += [heading, "-" * len(heading)]
            in_list = False
        result.append(line)
    lines[:] = result


def _is_entry(line: str, below: str) -> bool:
    """Return whether a line continues a list of parameters."""
    return line[:1] in ("", " ", "-", "*") or " : " in line or below.startswith("    ") or bool(NAMES.fullmatch(line))


def data_doc(name: str) -> list[str]:
    """Return the docstring below a constant, which autodoc finds only in the module that defines it.

    >>> data_doc("genlabel_paper.theory.SCHEMES")[:1] != []
    True
    """
    package, _, constant = name.rpartition(".")
    inside = [one for one in sys.modules if one == package or one.startswith(f"{package}.")]
    for module in inside:
        try:
            docs = ModuleAnalyzer.for_module(module)
            docs.analyze()
        except PycodeError:
            continue
        if found := docs.attr_docs.get(("", constant)):
            return list(found)
    return []


def _escape(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Escape bars and trailing underscores, which reStructuredText reads as markup; drop the notes on tuple fields."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()
    in_example = False
    for place, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            lines[place] = TRAILING_UNDERSCORE.sub(r"\\_", line.replace("|", r"\|"))


def _match_exactly(app: Any, doctree: nodes.document) -> None:
    """Let no reference match the end of another name: `x` is not `genlabel.training.Batch.x`."""
    for node in doctree.findall(addnodes.pending_xref):
        node.attributes.pop("refspecific", None)


def _resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link a name that has no full path, or that of the module inside its package, to the public one."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removesuffix("()")
    objects = env.domains.python_domain.objects
    shorts = _short_names(len(objects), env)
    parts = target.split(".")
    tails = [".".join(parts[start:]) for start in range(len(parts))] if parts[0] == "genlabel" else [target]
    full = next((shorts[tail] for tail in tails if tail in shorts), None)
    if full is None:
        return None
    found = objects[full]
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, full)


def _short_names(count: int, env: Any) -> dict[str, str]:
    """Return the full names of all objects by their names within their package; the first package has a name."""
    known = getattr(env, "_genlabel_names", (0, {}))
    if known[0] != count:
        known = (count, {})
        for full in env.domains.python_domain.objects:
            known[1].setdefault(".".join(full.split(".")[2:]) or full, full)
        env._genlabel_names = known
    return known[1]


def _defining_module(app: Any, module: str, name: str) -> str:
    """Return the module whose source has a public name; a constant has no link (viewcode would list `builtins`)."""
    value = getattr(sys.modules.get(module), name.split(".")[0], None)
    home = getattr(value, "__module__", None) or module
    return home if home.startswith("genlabel") else module

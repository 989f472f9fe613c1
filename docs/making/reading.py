"""How Sphinx reads the library: members of our own only, and names that lead to the room in which they are shown."""

from __future__ import annotations

import inspect
import re
from typing import Any, final

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import find_pending_xref_condition

from making.citations import owners_in
from making.names import file_of, full_name, written_in

__all__ = ["setup"]

LISTED = re.compile(r"\w+(, \w+)*")
ALIAS = "Alias for field number"
COLON = "\uf03a"
"""In place of a colon, between two readers."""
DASH = " \N{EN DASH} "
UNDERSCORE = re.compile(r"(?<=[a-z])_(?=[\s,.;:)*]|$)")
"""At the end of a word, where docutils would take the word for a link."""


def setup(app: Any) -> dict[str, bool]:
    """Listen to autodoc, viewcode and references that nothing answers."""
    app.add_role("name", _name_role)
    app.connect("autodoc-skip-member", _skip_foreign)
    app.connect("autodoc-process-docstring", _part, priority=100)  # before napoleon
    app.connect("autodoc-process-docstring", _mend)
    app.add_post_transform(KnownNames)
    app.connect("viewcode-follow-imported", _follow)
    app.connect("viewcode-find-source", _source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn, torch and Python gave to a class."""
    inner = getattr(member, "fget", None) or getattr(member, "func", None) or member
    inner = getattr(inner, "__objclass__", inner)  # a method of tuple or str knows no module
    module = getattr(inspect.unwrap(inner), "__module__", None) if callable(inner) else None
    foreign = module is not None and not str(module).startswith("genlabel")
    return True if foreign or name in {"training", "dump_patches", "call_super_init"} else None


def _part(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Give words or examples that follow a list of parameters a heading, lest they be taken for more of them.

    Of an attribute, words before a colon are not its type: napoleon does not see the colon, and `_mend` brings it back.
    """
    if what in ("attribute", "data", "property"):
        lines[:] = [line.replace(":", COLON) for line in lines]
    done, listed = list[str](), False
    for place, line in enumerate(lines):
        below = lines[place + 1] if place + 1 < len(lines) else ""
        if below and set(below) == {"-"}:
            listed = line in ("Parameters", "Attributes", "Returns")
        elif listed and line and line[0] not in " -*" and done and not done[-1]:
            heading = "Examples" if line.startswith(">>>") else "Notes"
            if not (" : " in line or below.startswith("    ") or LISTED.fullmatch(line)):
                done += [heading, "-" * len(heading)]
                listed = False
        done.append(line)
    lines[:] = done


def _mend(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Take bars and underscores of formulas for what they are; a field of a tuple needs no words on its number."""
    if lines and lines[0].startswith(ALIAS):
        lines.clear()
    example = False
    for place, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            line = line.replace(COLON, ":").replace(" -- ", DASH).replace("|", r"\|")
            lines[place] = UNDERSCORE.sub(r"\\_", line)


def _name_role(role: str, raw: str, text: str, line: int, inliner: Any, *more: Any) -> tuple[list[Any], list[Any]]:
    """What stands between backticks: a link if it is a public name or a method of one, else code."""
    text = nodes.unescape(text)
    target = full_name(text.removesuffix("()"))
    code = nodes.literal(raw, text, classes=["xref", "py", "py-obj"] if target else ["name"])
    if target is None:
        return [code], []
    about = {"refdomain": "py", "reftype": "obj", "reftarget": target, "refspecific": False}
    return [addnodes.pending_xref(raw, code, refdoc=inliner.document.settings.env.docname, **about)], []


@final
class KnownNames(SphinxPostTransform):
    """Leads names to the page of their room; what is no public name is no link, and is not looked for by likeness."""

    default_priority = 5  # before Sphinx resolves references

    def run(self, **options: Any) -> None:
        """Settle all references to Python's objects of a page, and the dashes that Sphinx writes as two hyphens."""
        for text in list(self.document.findall(lambda node: isinstance(node, nodes.Text) and node == " -- ")):
            text.parent.replace(text, nodes.Text(DASH))
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") == "py" and node.get("reftype") != "mod":
                target = full_name(node["reftarget"])
                if target is None:
                    shown = find_pending_xref_condition(node, "*")
                    node.replace_self(shown.children if shown is not None else node.children)
                else:
                    node["reftarget"], node["refspecific"] = target, False


def _follow(app: Any, module: str, name: str) -> str | None:
    """Where the source of a name is that a room offers."""
    return written_in(module, name.split(".")[0]) if module.startswith("genlabel") else None


def _source(app: Any, module: str) -> tuple[str, dict[str, tuple[str, int, int]]] | None:
    """The text of a module of ours, which is not imported, and the lines of all that it defines: constants, too."""
    if not module.startswith("genlabel"):
        return None
    path = file_of(module)
    return path.read_text(encoding="utf-8"), {name: ("other", *lines) for name, *lines in owners_in(path)}

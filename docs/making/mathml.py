"""Formulas as MathML, which browsers draw themselves: docutils turns LaTeX into it, and nothing is loaded."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

__all__ = ["setup"]

logger = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer to Sphinx, as `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_draw(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    formula = _draw(node, as_block=True)
    writer.body.append(f'<div class="math" role="region" tabindex="0" aria-label="formula">{formula}</div>')
    raise nodes.SkipNode


def _draw(node: nodes.Element, as_block: bool) -> str:
    """A formula; what cannot be drawn is an error of the build."""
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""

"""Formulas as MathML, which browsers draw offline; Sphinx itself offers MathJax or images."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer, for `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _visit_inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_convert(node, as_block=False))
    raise nodes.SkipNode


def _visit_block(writer: Any, node: nodes.Element) -> None:
    formula = _convert(node, as_block=True)
    writer.body.append(f'<div class="math" role="region" tabindex="0" aria-label="formula">{formula}</div>')
    raise nodes.SkipNode


def _convert(node: nodes.Element, as_block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return ""

"""How the report looks beside what all pages have: colours of agreement, lists of statements."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
.source { color: var(--soft); font-size: .85rem; }
.about { color: var(--soft); }
th .about { display: block; font-weight: 400; font-size: .72rem; max-width: 11rem; }
td small { display: block; font-size: .72rem; }
td .sign { display: inline-block; width: 1em; text-align: center; font-weight: 700; text-decoration: none; }
.agrees { background: var(--good); }
.near { background: var(--middle); }
.differs { background: var(--bad); }
.missing { background: var(--none); }
.legend span { display: inline-block; min-width: 1.6em; text-align: center; border: 1px solid var(--line);
  font-weight: 700; }
.claims { list-style: none; padding: 0; }
.claims li { margin: .5rem 0; padding: .35rem .6rem; border-left: 4px solid var(--line); }
.claims li.holds { border-color: var(--c1); }
.claims li.fails { border-color: var(--c2); }
.claims .numbers { font-size: .85rem; color: var(--soft); }
.verdict { font-weight: 700; }
@media print { table { font-size: 7pt; } td small, th .about { font-size: 6pt; } .claims li { break-inside: avoid; } }
"""

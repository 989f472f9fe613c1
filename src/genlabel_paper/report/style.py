"""How the report looks beside what all pages have: colours of agreement, verdicts, the contents, pictures."""

from __future__ import annotations

CSS = """
html { scroll-behavior: auto; }
.lead { font-size: 1.05rem; max-width: 56rem; }
h2.part { font-size: 1.45rem; margin-top: 3.5rem; border-top-width: 3px; }
section section > h3 { font-size: 1.15rem; margin-top: 2.5rem; }
h4 { font-size: .85rem; margin: .7rem 0 .1rem; color: var(--soft); font-weight: 600; }
.source, .not-run { color: var(--soft); font-size: .85rem; }
.toc { columns: 20rem; column-gap: 2rem; font-size: .92rem; }
.toc > div { break-inside: avoid; margin-bottom: .7rem; } .toc ul { display: block; margin: .1rem 0; }
.tally { color: var(--soft); font-size: .82rem; white-space: nowrap; }
.short { grid-template-columns: 6rem minmax(0, 1fr); font-size: .92rem; margin: .1rem 0; }
.tables { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start; }
.tables > div { min-width: 0; max-width: 100%; }
.about { color: var(--soft); }
tbody th { min-width: 6.5rem; overflow-wrap: break-word; }
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
.claims li { margin: .5rem 0; padding: .35rem .6rem; border-left: 4px solid var(--line); max-width: 60rem; }
.claims li.holds { border-color: var(--c1); }
.claims li.fails { border-color: var(--c2); }
.claims li:target { background: var(--card); outline: 2px solid var(--focus); }
.claims .numbers { font-size: .85rem; color: var(--soft); }
.verdict { font-weight: 700; }
details { margin: .6rem 0; } summary { cursor: pointer; font-size: .9rem; }
figure .larger { position: static; opacity: 1; margin-top: .3rem; }
@media (max-width: 40rem) { .drawn svg.matplotlib { min-width: 38rem; }
  .short { grid-template-columns: minmax(0, 1fr); } }
@media print { table { font-size: 7pt; } td small, th .about { font-size: 6pt; } .claims li { break-inside: avoid; }
  .toc { columns: 3; font-size: 8pt; } .drawn svg.matplotlib { max-height: 9in; } }
"""

"""How the report looks: on a phone, on paper, in the light and in the dark."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --soft: #5c5c5c; --line: #d5d5d5; --head: #f3f3f3;
  --agrees: #dcebf7; --near: #f7f1d4; --differs: #fbdcc6; --missing: #eeeeee; --link: #0b5c99; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --back: #161616; --soft: #a8a8a8; --line: #3d3d3d;
  --head: #242424; --agrees: #12384f; --near: #453e16; --differs: #5b2d10; --missing: #2a2a2a; --link: #7cc0f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; color: var(--text); background: var(--back);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p, ul, dl { margin: .4rem 0; }
ul { padding-left: 1.2rem; }
.source, .notes, figcaption, caption, .about, .counts { color: var(--soft); font-size: .85rem; }
nav ul { columns: 18rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; }
.scroll { overflow-x: auto; margin: .5rem 0; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; line-height: 1.25; }
caption { text-align: left; padding: .25rem 0; font-size: .85rem; }
th, td { border: 1px solid var(--line); padding: .2rem .4rem; text-align: right; vertical-align: top; }
td { white-space: nowrap; }
th { background: var(--head); font-weight: 600; }
thead th { vertical-align: bottom; max-width: 9rem; }
th:first-child { text-align: left; position: sticky; left: 0; z-index: 1; }
th .about { display: block; font-weight: 400; font-size: .72rem; max-width: 11rem; }
td small { display: block; color: var(--soft); font-size: .72rem; }
td .sign { display: inline-block; width: 1em; text-align: center; font-weight: 700; text-decoration: none; }
.agrees { background: var(--agrees); }
.near { background: var(--near); }
.differs { background: var(--differs); }
.missing { background: var(--missing); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .85rem; }
.legend span { display: inline-block; min-width: 1.6em; text-align: center; border: 1px solid var(--line);
  font-weight: 700; }
.claims { list-style: none; padding: 0; }
.claims li { margin: .5rem 0; padding: .35rem .6rem; border-left: 4px solid var(--line); }
.claims li.holds { border-color: #0072b2; }
.claims li.fails { border-color: #d55e00; }
.claims .numbers { font-size: .85rem; color: var(--soft); }
.verdict { font-weight: 700; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; max-width: 46rem; height: auto; background: #ffffff; padding: .5rem;
  border: 1px solid var(--line); }
@media (max-width: 40rem) { body { padding: .6rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; } }
@media print { :root { --back: #ffffff; --text: #000000; --soft: #444444; --line: #bbbbbb; --head: #f3f3f3;
  --agrees: #dcebf7; --near: #f7f1d4; --differs: #fbdcc6; --missing: #eeeeee; --link: #000000; }
  body { max-width: none; font-size: 10pt; } .scroll { overflow: visible; } table { font-size: 7pt; }
  td small, th .about { font-size: 6pt; } th:first-child { position: static; } nav { display: none; }
  tr, figure, .claims li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  td, th, .legend span { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

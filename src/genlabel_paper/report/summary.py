"""What stands first on the page: the conclusion, the contents, and every verdict in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from genlabel.reporting import Markup, element, join, section
from genlabel_paper.report.claims import in_words
from genlabel_paper.report.experiment import PARTS, Experiment
from genlabel_paper.report.layout import count_agreements, has_printed
from genlabel_paper.report.page_parts import KINDS, judged, link
from genlabel_paper.report.pieces import Claim, Shown
from genlabel_paper.report.text import SIGNS, verdict

TITLES = {False: "What did not hold", None: "What cannot be said", True: "What held"}


class Entry(NamedTuple):
    """An experiment with what it shows."""

    experiment: Experiment
    shown: Shown


def part_title(part: str) -> str:
    """Return the heading of a part.

    >>> part_title("toys")
    'Toy examples and theory'
    """
    return PARTS[part][0].upper() + PARTS[part][1:]


def conclusion(entries: Sequence[Entry]) -> str:
    """Return what came out, in one paragraph.

    >>> conclusion([])
    'Of 0 statements of the paper 0 hold here, 0 do not and 0 cannot be said.'
    """
    claims = [claim for entry in entries for claim in judged(entry.shown)]
    counts = {holds: sum(claim.holds is holds for claim in claims) for holds in TITLES}
    total = sum(len(entry.shown.claims) for entry in entries)
    told = [f"{counts[True]} hold here", f"{counts[False]} do not", f"{counts[None]} cannot be said"]
    told += [f"{total - len(claims)} were not run"] if total > len(claims) else []
    first = f"Of {total} statements of the paper {in_words(told)}."
    headlines = [entry.shown.headline for entry in entries if entry.shown.headline]
    return " ".join([first, *headlines, *_by_part(entries), *_values(entries), *_early(claims)])


def contents(entries: Sequence[Entry], more: dict[str, str]) -> Markup:
    """Return links to all experiments, part by part with the numbers of their verdicts, and to further sections."""
    groups = [
        _group(f"part-{part}", part_title(part), [_item(entry) for entry in entries if entry.experiment.part == part])
        for part in PARTS
        if any(entry.experiment.part == part for entry in entries)
    ]
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in more.items()]
    rest = element("div", element("b", "This page"), element("ul", *links))
    nav = element("nav", *groups, rest, aria_label="Contents", class_="toc")
    return section("contents", "Contents", nav)


def in_short(entries: Sequence[Entry]) -> Markup:
    """Return every verdict in a few words, which lead to the statement: what did not hold comes first."""
    return section("in-short", "In short", *(_verdicts(entries, holds) for holds in TITLES))


def _by_part(entries: Sequence[Entry]) -> list[str]:
    """How many statements hold in each part."""
    words = []
    for part, title in PARTS.items():
        found = [c.holds for e in entries if e.experiment.part == part for c in judged(e.shown) if c.holds is not None]
        words += [f"{sum(found)} of {len(found)} about {title}"] if found else []
    return [f"Of the statements that can be judged, {in_words(words)} hold."] if len(words) > 1 else []


def _values(entries: Sequence[Entry]) -> list[str]:
    """How many printed values agree with ours."""
    grids = [grid for entry in entries for grid in entry.shown.grids if has_printed(grid)]
    counts = [count_agreements(grid) for grid in grids]
    agree, near, differ = (sum(count[name] for count in counts) for name in ("agrees", "near", "differs"))
    total = agree + near + differ
    if not total:
        return []
    return [f"Of {total:,} printed values beside ours {agree:,} agree, {near:,} are near, and {differ:,} differ."]


def _early(claims: Sequence[Claim]) -> list[str]:
    count = sum(verdict(claim)[1].endswith("so far") for claim in claims)
    return [f'{count} verdicts rest on fewer trials than planned, and say "so far".'] if count else []


def _group(name: str, title: str, items: Sequence[Markup]) -> Markup:
    return element("div", element("a", element("b", title), href=f"#{name}"), element("ul", *items))


def _item(entry: Entry) -> Markup:
    one = entry.experiment
    claims = judged(entry.shown)
    counts = {holds: sum(claim.holds is holds for claim in claims) for holds in TITLES}
    tally = " ".join(f"{SIGNS[holds]}{count}" for holds, count in counts.items() if count)
    said = f"{counts[False]} do not hold, {counts[None]} cannot be said, {counts[True]} hold"
    mark = join(" ", element("span", tally, class_="tally", title=said)) if tally else Markup()
    return element("li", element("a", f"{one.name}: {one.title}", href=f"#{one.id}"), mark)


def _verdicts(entries: Sequence[Entry], holds: bool | None) -> Markup:
    found = [(entry.experiment, _links(entry, holds)) for entry in entries]
    total = sum(len(links) for _, links in found)
    if not total:
        return Markup()
    groups = []
    for part in PARTS:
        lines = [_verdict_line(one, links) for one, links in found if one.part == part and links]
        groups += [element("h4", part_title(part)), element("dl", *lines, class_="short")] if lines else []
    return join(element("h3", f"{SIGNS[holds]} {TITLES[holds]} ({total})", id=f"short-{KINDS[holds]}"), *groups)


def _verdict_line(experiment: Experiment, links: Sequence[Markup]) -> Markup:
    words = [part for one in links for part in (" · ", one)][1:]
    return join(element("dt", experiment.name), element("dd", *words))


def _links(entry: Entry, holds: bool | None) -> list[Markup]:
    return [
        element("a", claim.brief or f"statement {place + 1}", href=f"#{link(entry.experiment, place)}")
        for place, claim in enumerate(judged(entry.shown))
        if claim.holds is holds
    ]

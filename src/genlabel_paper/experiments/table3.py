"""Table 3: win rates of GenLabel against each other method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.layout import join_words
from genlabel_paper.report.results import Claim, Rendering, columns_of, read_printed
from genlabel_paper.report.win_rates import (
    FILTERED,
    OUTCOMES,
    STUDY_NOTES,
    UNFILTERED,
    draw_gains,
    lead,
    paired_gains,
    share_measured,
    well_fitted_datasets,
    win_rate_claim,
    win_rate_grid,
)
from genlabel_paper.runs.cells import Cell, make_cells
from genlabel_paper.runs.manifest import low_dimensional_datasets
from genlabel_paper.runs.methods import TITLES, keys_of

PAPER = read_printed(
    """
    rival             higher  on-par  lower
    vanilla           37.6    31.2    31.2
    adamixup          46.8    25.7    27.5
    mixup             59.6    17.4    23.0
    mixup-exclude-mi  56.9    16.5    26.6
    generative-gm     44.0    23.9    32.1
    """
)
RIVALS = columns_of(PAPER)


def render(records: pd.DataFrame) -> Rendering:
    """Show the shares of datasets, filtered and all, and check that GenLabel is more often higher than lower.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None, None, None, None, None]
    """
    chosen, datasets = select_records(records, "logistic"), low_dimensional_datasets()
    every = {rival: paired_gains(chosen, "genlabel-cv", rival, datasets) for rival in RIVALS}
    names = well_fitted_datasets(records)
    fitted = {rival: gain[gain.index.isin(names)] for rival, gain in every.items()}
    grids = [
        win_rate_grid(f"Mixup + GenLabel (CV), {FILTERED}", fitted, PAPER, titles=TITLES),
        win_rate_grid(f"Mixup + GenLabel (CV), {UNFILTERED}", every, {}, titles=TITLES),
    ]
    notes = [
        coverage(chosen, datasets, ["genlabel-cv"]),
        *STUDY_NOTES,
        "The paper prints 23.0 for 25 of 109, which is 22.9.",
    ]
    claims = _claims(chosen, fitted, every)
    return Rendering(grids, claims, notes=notes, headline=_headline(claims))


def _claims(
    records: pd.DataFrame, fitted: Mapping[str, pd.Series[float]], every: Mapping[str, pd.Series[float]]
) -> list[Claim]:
    claims = []
    for rival in RIVALS:
        higher, on_par, lower = (f"{PAPER[share, rival].mean:.1f} %" for share in OUTCOMES)
        text = f"GenLabel (CV) is higher than {TITLES[rival]} on more datasets than it is lower, by over 0.5 points."
        quote = f"higher on {higher}, on par on {on_par}, lower on {lower} of 109 datasets"
        share = share_measured(every[rival], low_dimensional_datasets())
        brief = f"more often above {TITLES[rival]}"
        draws = draw_gains(records, "genlabel-cv", rival, list(fitted[rival].index))
        claims.append(win_rate_claim(text, quote, fitted[rival], draws, share, lead, brief=brief))
    return claims


def _headline(claims: Sequence[Claim]) -> str:
    """Return the result for the paper's main statement: GenLabel against each rival, over many datasets."""
    above = [TITLES[rival] for rival, claim in zip(RIVALS, claims, strict=True) if claim.holds is True]
    not_above = [TITLES[rival] for rival, claim in zip(RIVALS, claims, strict=True) if claim.holds is False]
    parts = []
    if above:
        parts.append(f"more often higher than lower against {join_words(above)}")
    if not_above:
        parts.append(f"not so against {join_words(not_above)}")
    return f"By over half a point of accuracy, GenLabel (CV) is {', '.join(parts)} (Table 3)." if parts else ""


def _cells(budget: str) -> list[Cell]:
    methods = dict.fromkeys(["genlabel-cv", *RIVALS, *keys_of("generative")])
    return make_cells("logistic", low_dimensional_datasets(), list(methods), budget)


EXPERIMENT = Experiment(
    "table3",
    "GenLabel (CV) against each rival over the low-dimensional datasets",
    "arXiv Table 3, Section 6.1",
    _cells,
    render,
    PAPER,
)

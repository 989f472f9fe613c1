"""Words that the tables and figures over the study's sets share: the filter, the sets, the departures."""

from __future__ import annotations

from genlabel_paper.manifest import study_sets

__all__ = ["FILTERED", "STUDY_NOTES", "UNFILTERED"]

FILTERED = "sets on which a generative model fits"
UNFILTERED = "all sets of the study"
STUDY_NOTES = (
    "Filtered: sets where Gaussians or the kernel estimator have over 95 % of training accuracy, mean over the splits; "
    "109 of 160 in the paper. It does not list them.",
    f"All: the {len(study_sets())} sets that the paper's authors name and that are at hand.",
    "The ± of a share is its standard error, from the number of sets.",
)

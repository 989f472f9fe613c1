"""The suite: methods on many OpenML sets, a record for every fit, and what the records say.

The names are loaded when they are first used, so that the command line can check its input at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel.lazy import load_when_used

if TYPE_CHECKING:
    from genlabel.suite.methods import METHODS, default_suite
    from genlabel.suite.peer_classifier import PeerClassifier
    from genlabel.suite.peers import PEERS, Peer, why_not
    from genlabel.suite.run import run_suite
    from genlabel.suite.sections import Section, as_markdown, report
    from genlabel.suite.statistics import (
        complete_sets,
        cost_ratios,
        count_accidents,
        holm,
        mean_ranks,
        set_means,
        statement,
        wilcoxon_holm,
        wins,
    )

__all__ = [
    "METHODS",
    "PEERS",
    "Peer",
    "PeerClassifier",
    "Section",
    "as_markdown",
    "complete_sets",
    "cost_ratios",
    "count_accidents",
    "default_suite",
    "holm",
    "mean_ranks",
    "report",
    "run_suite",
    "set_means",
    "statement",
    "why_not",
    "wilcoxon_holm",
    "wins",
]

_MODULES = {
    "methods": ("METHODS", "default_suite"),
    "sections": ("Section", "as_markdown", "report"),
    "run": ("run_suite",),
    "peer_classifier": ("PeerClassifier",),
    "peers": ("PEERS", "Peer", "why_not"),
    "statistics": (
        "complete_sets",
        "cost_ratios",
        "count_accidents",
        "holm",
        "mean_ranks",
        "set_means",
        "statement",
        "wilcoxon_holm",
        "wins",
    ),
}
__getattr__ = load_when_used(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__

"""Readings of the paper's text: named changes of the settings, for each choice that the text leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias, final

from sklearn.base import clone

from genlabel import AdaMixupClassifier, GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.densities import ClassDensity, GaussianDensity
from genlabel.labeling import LogisticLabel
from genlabel.model_selection.search_space import SearchSpace
from genlabel_paper.runs.manifest import manifest
from genlabel_paper.runs.methods import Classifier

MIXED = frozenset({"mixup", "genlabel-gm", "genlabel-kde", "genlabel-cv", "mixup-exclude-mi"})
"""Methods that mix points with a random lam."""
GENLABEL = frozenset({"genlabel-gm", "genlabel-kde", "genlabel-cv"})
GAUSSIAN = frozenset({"generative-gm", "genlabel-gm", "genlabel-cv"})
BASES = ("logistic", "logistic-robust", "mlp", "mlp-robust", "synthetic")
"""Settings with other readings."""
MAX_SEEDS = 3
"""Largest number of seeds of each split under a reading."""
Change: TypeAlias = Callable[[Classifier], dict[str, Any]]
"""Function that returns the parameters of a classifier that a reading changes."""


def has_text(dataset: str) -> bool:
    """Return whether an OpenML dataset has string or categorical columns.

    >>> has_text("48"), has_text("61"), has_text("moon")
    (True, False, False)
    """
    return bool(manifest()["text"].get(dataset, False))


@final
@dataclass(frozen=True)
class SelectionRule:
    """Rule that selects one of the trained networks: its epoch and its candidate."""

    epoch: str
    """Selected epoch: "last", or the best on "validation" rows (a sixth of the training rows) or on "test" rows."""
    choice: str
    """Selection of learning rate, gamma and density: "cv" (6 folds of the training rows) or "test" (test rows)."""

    @property
    def key(self) -> str:
        """Name among the metrics of a record."""
        return f"{self.epoch}/{self.choice}"

    @property
    def title(self) -> str:
        """Description in words."""
        titles = {
            "last": "last epoch",
            "validation": "best epoch on validation rows",
            "test": "best epoch on TEST rows",
        }
        return titles[self.epoch] + (", candidate by TEST rows" if self.choice == "test" else "")


SELECTION_RULES = tuple(
    SelectionRule(epoch, choice) for choice in ("cv", "test") for epoch in ("last", "validation", "test")
)
"""All rules, the first of which is ours; one training serves all."""


@final
@dataclass(frozen=True)
class Reading:
    """Reading of the text under which networks are trained differently from ours."""

    name: str
    title: str
    methods: frozenset[str] | None = None
    """Methods that it changes; None is all."""
    sets: str = "all"
    """Datasets that it changes: "all", "real" (OpenML), "text" (with string columns) or "drawn" (synthetic)."""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """Changed arguments of `genlabel_paper.runs.data.load_split`."""
    change: tuple[Change, ...] = ()
    pairs: str = "batch"
    """Source of the partners, see `genlabel.mixing.Mixup`."""

    def changes(self, dataset: str, method: str) -> bool:
        """Return whether this reading changes a method on a dataset."""
        drawn = not dataset.isdigit()
        included = {"all": True, "real": not drawn, "text": has_text(dataset), "drawn": drawn}[self.sets]
        return included and (self.methods is None or method in self.methods)

    def apply(self, model: Classifier) -> Classifier:
        """Return a copy of the classifier with this reading's parameters."""
        copy = clone(model)
        for change in self.change:
            copy.set_params(**change(copy))
        return copy

    def apply_to_search_space(self, space: SearchSpace) -> SearchSpace:
        """Return the search space with this reading's source of partners."""
        if self.pairs == "batch":
            return space
        mixing = []
        for config in space.mixing:
            if config.mixer is not None:
                config = replace(config, mixer=clone(config.mixer).set_params(pairs=self.pairs))
            mixing.append(config)
        return replace(space, mixing=mixing)

    def describe(self) -> dict[str, Any]:
        """Return the values besides the classifier that a record depends on, for fingerprints."""
        return {"data": dict(self.data), "pairs": self.pairs}


def _unscaled(model: Classifier) -> dict[str, Any]:
    return {_standardize(model): False}


def _scaled(model: Classifier) -> dict[str, Any]:
    return {_standardize(model): True}


def _standardize(model: Classifier) -> str:
    return "standardize" if isinstance(model, GenerativeClassifier) else "training__standardize"


def _per_sample(model: Classifier) -> dict[str, Any]:
    return {"mixer": clone(model.mixer).set_params(lam_per="sample")} if _mixes(model) else {}


def _half_clean(model: Classifier) -> dict[str, Any]:
    return {"clean_fraction": 0.5} if _mixes(model) else {}


def _mixes(model: Classifier) -> bool:
    return isinstance(model, GenLabelClassifier) or (isinstance(model, MixupClassifier) and model.mixer is not None)


def _frequencies(model: Classifier) -> dict[str, Any]:
    return {"priors": "empirical"} if isinstance(model, GenLabelClassifier | GenerativeClassifier) else {}


def _shrunk(model: Classifier) -> dict[str, Any]:
    if not isinstance(model, GenLabelClassifier | GenerativeClassifier):
        return {}
    density = model.density
    if isinstance(density, Mapping):
        return {"density": {name: _shrink(candidate) for name, candidate in density.items()}}
    return {"density": _shrink(density)}


def _shrink(density: ClassDensity) -> ClassDensity:
    return GaussianDensity(shrinkage="ledoit-wolf") if isinstance(density, GaussianDensity) else density


def _alternating(model: Classifier) -> dict[str, Any]:
    return {"alternating": True} if isinstance(model, AdaMixupClassifier) else {}


def _logistic(sigma: float) -> Change:
    """Return a change to logistic labels where intruding points are excluded (arXiv Section 3.2)."""

    def change(model: Classifier) -> dict[str, Any]:
        return {"labeler": LogisticLabel(sigma)} if getattr(model, "exclude_intrusion", False) else {}

    return change


OURS = Reading("ours", "ours")
TOGETHER = Reading(
    "together",
    "codes, features as they are, a fifth for the test",
    sets="real",
    data={"test_size": 0.2, "text": "codes"},
    change=(_unscaled,),
)
"""Data preparation with each choice (test size, encoding, scale) that is nearest to the printed values by itself."""
READINGS = {
    reading.name: reading
    for reading in (
        OURS,
        Reading("share", "a fifth of the rows for the test, not three tenths", sets="real", data={"test_size": 0.2}),
        Reading("codes", "strings as codes, not one-hot", sets="text", data={"text": "codes"}),
        Reading("min-max", "features from 0 to 1", sets="real", data={"scale": "min-max"}, change=(_unscaled,)),
        Reading("raw", "features as they are", sets="real", change=(_unscaled,)),
        Reading("standardised", "the synthetic datasets standardized", sets="drawn", change=(_scaled,)),
        Reading("priors", "empirical class priors", GENLABEL | {"generative-gm"}, change=(_frequencies,)),
        Reading("shrinkage", "covariances shrunk (Ledoit and Wolf)", GAUSSIAN, change=(_shrunk,)),
        Reading("lam", "lam drawn for each sample, not each batch", MIXED, change=(_per_sample,)),
        Reading("clean", "half of each batch not mixed", MIXED, change=(_half_clean,)),
        Reading("pairs", "partners from the whole dataset, not the batch", MIXED, pairs="set"),
        Reading("alternating", "AdaMixup in alternating steps", frozenset({"adamixup"}), change=(_alternating,)),
        Reading(
            "logistic-0.5",
            "excluding with logistic labels, sigma 0.5",
            frozenset({"mixup-exclude-mi"}),
            change=(_logistic(0.5),),
        ),
        Reading(
            "logistic-1",
            "excluding with logistic labels, sigma 1",
            frozenset({"mixup-exclude-mi"}),
            change=(_logistic(1.0),),
        ),
        TOGETHER,
    )
}
"""Readings by name; each differs from ours in what its title says."""

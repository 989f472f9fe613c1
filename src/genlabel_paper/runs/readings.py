"""Readings of the paper's text: what it leaves open, each way to read it a named switch of the study's settings."""

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
from genlabel_paper.runs.methods import Classifier

MIXED = frozenset({"mixup", "genlabel-gm", "genlabel-kde", "genlabel-cv", "mixup-exclude-mi"})
"""The methods that mix points with a lam that is drawn."""
GENLABEL = frozenset({"genlabel-gm", "genlabel-kde", "genlabel-cv"})
GAUSSIAN = frozenset({"generative-gm", "genlabel-gm", "genlabel-cv"})
WITH_TEXT = frozenset(
    {
        "3", "48", "307", "312", "313", "346", "463", "719", "804", "818", "862", "915", "938", "949", "954", "956",
        "987", "988", "1006", "1014", "1022", "1055", "40710", "40981",
    }
)  # fmt: skip
"""The sets of these tables that have columns of text or categories."""
Change: TypeAlias = Callable[[Classifier], dict[str, Any]]
"""Parameters of a classifier that a reading changes; none where it says nothing of it."""


@final
@dataclass(frozen=True)
class Look:
    """Which network counts, of those that were trained: the epoch that is kept, and the candidate that is chosen."""

    epoch: str
    """The last one; the best on a sixth of the training rows, which are then not trained on; the best on the test rows.
    """
    choice: str
    """Of learning rate, gamma and density: by 6 folds of the training rows, or by the test rows."""

    @property
    def key(self) -> str:
        """Its name among the metrics of a record."""
        return f"{self.epoch}/{self.choice}"

    @property
    def title(self) -> str:
        """In words."""
        kept = {"last": "last epoch", "validation": "best epoch on validation rows", "test": "best epoch on TEST rows"}
        return kept[self.epoch] + (", candidate by TEST rows" if self.choice == "test" else "")


LOOKS = tuple(Look(epoch, choice) for choice in ("cv", "test") for epoch in ("last", "validation", "test"))
"""All of them; the first is ours. One training serves all."""


@final
@dataclass(frozen=True)
class Reading:
    """One way to read what the text leaves open, in which networks are trained otherwise than in ours."""

    name: str
    title: str
    methods: frozenset[str] | None = None
    """Those that it changes; None is all."""
    sets: str = "all"
    """Of which sets it says anything: "all", "real" (OpenML's), "text" (those with columns of text), or "drawn" (the
    synthetic ones of table 1)."""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """How the rows are made otherwise, see `genlabel_paper.runs.data.load_parts`."""
    change: tuple[Change, ...] = ()
    pairs: str = "batch"
    """Where partners come from, see `genlabel.mixing.Mixup`."""

    def touches(self, dataset: str, method: str) -> bool:
        """Whether a method on a dataset is another one under this reading."""
        drawn = not dataset.isdigit()
        among = {"all": True, "real": not drawn, "text": dataset in WITH_TEXT, "drawn": drawn}[self.sets]
        return among and (self.methods is None or method in self.methods)

    def apply(self, model: Classifier) -> Classifier:
        """The classifier under this reading."""
        found = clone(model)
        for change in self.change:
            found.set_params(**change(found))
        return found

    def apply_to_method(self, method: SearchSpace) -> SearchSpace:
        """What the classifier trains, with partners as this reading has them."""
        if self.pairs == "batch":
            return method
        ways = [
            way if way.mixer is None else replace(way, mixer=clone(way.mixer).set_params(pairs=self.pairs))
            for way in method.mixing
        ]
        return replace(method, mixing=ways)

    def describe(self) -> dict[str, Any]:
        """What a record depends on beside the classifier, for fingerprints."""
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
    given = model.density
    many = {name: _shrink(one) for name, one in given.items()} if isinstance(given, Mapping) else _shrink(given)
    return {"density": many}


def _shrink(density: ClassDensity) -> ClassDensity:
    return GaussianDensity(shrinkage="ledoit-wolf") if isinstance(density, GaussianDensity) else density


def _alternating(model: Classifier) -> dict[str, Any]:
    return {"alternating": True} if isinstance(model, AdaMixupClassifier) else {}


def _logistic(sigma: float) -> Change:
    """Logistic labels for the points that are left when the intruding ones are excluded (arXiv Section 3.2)."""

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
"""How the rows are made, each choice as it is nearest to print by itself: the share for the test, texts, scale."""
READINGS = {
    reading.name: reading
    for reading in (
        OURS,
        Reading("share", "a fifth of the rows for the test, not three tenths", sets="real", data={"test_size": 0.2}),
        Reading("codes", "texts as codes, not one-hot", sets="text", data={"text": "codes"}),
        Reading("min-max", "features from 0 to 1", sets="real", data={"scale": "min-max"}, change=(_unscaled,)),
        Reading("raw", "features as they are", sets="real", change=(_unscaled,)),
        Reading("standardised", "the drawn sets standardised", sets="drawn", change=(_scaled,)),
        Reading(
            "priors", "priors: the frequencies of the classes", GENLABEL | {"generative-gm"}, change=(_frequencies,)
        ),
        Reading("shrinkage", "covariances shrunk (Ledoit and Wolf)", GAUSSIAN, change=(_shrunk,)),
        Reading("lam", "lam drawn for each sample, not each batch", MIXED, change=(_per_sample,)),
        Reading("clean", "half of each batch not mixed", MIXED, change=(_half_clean,)),
        Reading("pairs", "partners from the whole set, not the batch", MIXED, pairs="set"),
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
"""By name; each is ours but for what its title says."""

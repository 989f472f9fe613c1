"""The methods of the paper's tables, each defined once: its key, what the paper calls it, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from genlabel import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    GridSearch,
    Mixup,
    MixupClassifier,
    TrainingOptions,
)
from genlabel.densities import GaussianDensity, KernelDensity

Candidate: TypeAlias = dict[str, Any]
"""The parameters of one candidate of a search."""
Classifier: TypeAlias = MixupClassifier | GenLabelClassifier | AdaMixupClassifier | GenerativeClassifier
UNCHOSEN = {"search__scoring": "log-loss"}
"""Where a setting fixes the learning rate there is nothing to choose; the word is that of the records."""
Kind: TypeAlias = Literal["vanilla", "mixup", "generative", "genlabel", "density"]


@final
@dataclass(frozen=True)
class PaperMethod:
    """A method of the paper's tables."""

    key: str
    """Its name in cells and records."""
    title: str
    """What the paper calls it."""
    kind: Kind
    make: Callable[..., Classifier]
    """Its classifier, for the alpha of lam ~ Beta(alpha, alpha), a seed and the parameters of a setting."""
    has: Callable[[Candidate], bool]
    """Whether a candidate belongs to it, where one search serves several methods."""


def keys_of(kind: Kind) -> tuple[str, ...]:
    """Return the keys of the methods of a kind, in the order of the tables.

    >>> keys_of("generative")
    ('generative-gm', 'generative-kde')
    """
    return tuple(method.key for method in METHODS.values() if method.kind == kind)


def _vanilla(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    return MixupClassifier.from_paper(mixer=None, random_state=seed, **{**UNCHOSEN, **params})


def _adamixup(alpha: float, seed: int, **params: Any) -> AdaMixupClassifier:
    model = AdaMixupClassifier(
        "logistic", search=GridSearch(cv=6), training=TrainingOptions(epochs=100), random_state=seed
    )
    return model.set_params(**params)


def _mixup(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    return MixupClassifier.from_paper(mixer=Mixup(alpha, lam_per="batch"), random_state=seed, **{**UNCHOSEN, **params})


def _exclude(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    """Mixup without the points that intrude (arXiv Section 3.1), with linear or logistic labels (section 3.2).

    NOTE[PAPER]: the sigma of the logistic labels is not printed: 0.5, whose curve runs from 0.02 to 0.98.
    """
    return _mixup(alpha, seed, exclude_intrusion=True, **params)


def _genlabel(alpha: float, seed: int, **params: Any) -> GenLabelClassifier:
    return GenLabelClassifier.from_paper(alpha=alpha, random_state=seed, **params)


def _gm(alpha: float, seed: int) -> GenerativeClassifier:
    """NOTE[PAPER]: the priors are not printed; uniform ones, as in y_gen, fit the printed numbers of uneven sets."""
    return GenerativeClassifier(GaussianDensity(), priors="uniform")


def _kde(alpha: float, seed: int) -> GenerativeClassifier:
    return GenerativeClassifier(KernelDensity(), priors="uniform")


def _every(candidate: Candidate) -> bool:
    return True


def _is_mixup(candidate: Candidate) -> bool:
    """Whether a candidate of GenLabel is mixup: gamma = 0."""
    return bool(candidate["gamma"] == 0.0)


def _is_gm(candidate: Candidate) -> bool:
    return not isinstance(candidate.get("density"), KernelDensity)


def _is_kde(candidate: Candidate) -> bool:
    return not isinstance(candidate.get("density"), GaussianDensity)


def _is_linear(candidate: Candidate) -> bool:
    return bool(candidate.get("labeler", "linear") == "linear")


def _is_logistic(candidate: Candidate) -> bool:
    return bool(candidate.get("labeler", "logistic") == "logistic")


_DEFINED = (
    PaperMethod("vanilla", "Vanilla", "vanilla", _vanilla, _every),
    PaperMethod("adamixup", "AdaMixup", "mixup", _adamixup, _every),
    PaperMethod("mixup", "Mixup", "mixup", _mixup, _is_mixup),
    PaperMethod("mixup-exclude-mi", "Mixup + Excluding MI", "mixup", _exclude, _is_linear),
    PaperMethod("logistic-exclude-mi", "Mixup + Excluding MI, logistic labels", "mixup", _exclude, _is_logistic),
    PaperMethod("generative-gm", "Generative classifier (GM)", "generative", _gm, _every),
    PaperMethod("generative-kde", "Generative classifier (KDE)", "generative", _kde, _every),
    PaperMethod("genlabel-gm", "Mixup + GenLabel (GM)", "genlabel", _genlabel, _is_gm),
    PaperMethod("genlabel-kde", "Mixup + GenLabel (KDE)", "genlabel", _genlabel, _is_kde),
    PaperMethod("genlabel-cv", "Mixup + GenLabel (CV)", "genlabel", _genlabel, _every),
    PaperMethod("genlabel-mixture", "Mixup + GenLabel (mixtures)", "density", _genlabel, _every),
    PaperMethod("genlabel-flow", "Mixup + GenLabel (flow)", "density", _genlabel, _every),
    PaperMethod("genlabel-vae", "Mixup + GenLabel (VAE)", "density", _genlabel, _every),
    PaperMethod("genlabel-gan", "Mixup + GenLabel (GAN)", "density", _genlabel, _every),
)
METHODS = {method.key: method for method in _DEFINED}
"""The methods by key, in the order of the tables."""
_ON_IMAGES = {
    "mixup-genlabel": "Mixup + GenLabel",
    "manifold": "Manifold mixup",
    "manifold-genlabel": "Manifold mixup + GenLabel",
    "mixup-sample": "Mixup, lam per image",
    "mixup-genlabel-default": "Mixup + GenLabel, default",
}
_GENMIX = {
    "genmix-gan": "GenMix + GAN",
    "genmix-gan-l1": "GenMix + GAN, L1",
    "genmix-gan-linf": "GenMix + GAN, Linf",
    "genmix-gaussian": "GenMix + GM",
    "genmix-kernel": "GenMix + kernels",
    "genmix-mixture": "GenMix + mixtures",
    "genmix-flow": "GenMix + flow",
    "genmix-vae": "GenMix + VAE",
    "genmix-hidden": "GenMix + GM in the hidden space",
}
TITLES = {method.key: method.title for method in _DEFINED} | _ON_IMAGES | _GENMIX
"""What the paper calls them, by key; those of images are made in `genlabel_paper.runs.schedules`, those of GenMix in
`genlabel_paper.runs.genmix_methods`."""

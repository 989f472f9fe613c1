"""Methods of the paper's tables: key, title and constructor of each."""

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
"""Parameters of one candidate of a search."""
Classifier: TypeAlias = MixupClassifier | GenLabelClassifier | AdaMixupClassifier | GenerativeClassifier
FIXED_RATE = {"search__scoring": "log-loss"}
"""Rule of settings with a fixed learning rate, where nothing is selected; the value is part of the fingerprints."""
LAST_EPOCH = {"search__restore_best": False}
"""The last epoch, of which all settings are; `genlabel_paper.runs.protocols` has the best one."""
Kind: TypeAlias = Literal["vanilla", "mixup", "generative", "genlabel", "density"]


@final
@dataclass(frozen=True)
class PaperMethod:
    """Method of the paper's tables."""

    key: str
    """Name in cells and records."""
    title: str
    """Name in the paper."""
    kind: Kind
    make: Callable[..., Classifier]
    """Function of alpha in lam ~ Beta(alpha, alpha), a seed and the parameters of a setting."""
    has: Callable[[Candidate], bool]
    """Filter of the candidates that belong to the method, where one search serves several methods."""


def keys_of(kind: Kind) -> tuple[str, ...]:
    """Return the keys of the methods of a kind, in the order of the tables.

    >>> keys_of("generative")
    ('generative-gm', 'generative-kde')
    """
    return tuple(method.key for method in METHODS.values() if method.kind == kind)


def _vanilla(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    return MixupClassifier.from_paper(mixer=None, random_state=seed, **{**FIXED_RATE, **LAST_EPOCH, **params})


def _adamixup(alpha: float, seed: int, **params: Any) -> AdaMixupClassifier:
    model = AdaMixupClassifier(
        "logistic", search=GridSearch(cv=6), training=TrainingOptions(epochs=100), random_state=seed
    )
    return model.set_params(**params)


def _mixup(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    return MixupClassifier.from_paper(
        mixer=Mixup(alpha, lam_per="batch"), random_state=seed, **{**FIXED_RATE, **LAST_EPOCH, **params}
    )


def _exclude(alpha: float, seed: int, **params: Any) -> MixupClassifier:
    """Return mixup without intruding points (arXiv Section 3.1), with linear or logistic labels (Section 3.2).

    NOTE[PAPER]: the sigma of the logistic labels is not printed; 0.5 gives labels from 0.02 to 0.98.
    """
    return _mixup(alpha, seed, exclude_intrusion=True, **params)


def _genlabel(alpha: float, seed: int, **params: Any) -> GenLabelClassifier:
    return GenLabelClassifier.from_paper(alpha=alpha, random_state=seed, **{**LAST_EPOCH, **params})


def _gm(alpha: float, seed: int) -> GenerativeClassifier:
    """NOTE[PAPER]: the priors are not printed; uniform ones, as in y_gen, fit the numbers of imbalanced datasets."""
    return GenerativeClassifier(GaussianDensity(), priors="uniform")


def _kde(alpha: float, seed: int) -> GenerativeClassifier:
    return GenerativeClassifier(KernelDensity(), priors="uniform")


def _every(candidate: Candidate) -> bool:
    return True


def _is_mixup(candidate: Candidate) -> bool:
    """Return whether a candidate of GenLabel is mixup: gamma = 0."""
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
"""Methods by key, in the order of the tables."""
_ON_IMAGES = {
    "mixup-genlabel": "Mixup + GenLabel",
    "manifold": "Manifold mixup",
    "manifold-genlabel": "Manifold mixup + GenLabel",
    "mixup-sample": "Mixup, lam per image",
    "mixup-genlabel-default": "Mixup + GenLabel, default",
    "mixup-genlabel-auto": "Mixup + GenLabel, gamma auto",
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
"""Titles of all methods by key; image methods are defined in `genlabel_paper.runs.schedules`, GenMix methods in
`genlabel_paper.runs.genmix_methods`."""

"""The settings of the paper's runs (arXiv Tables 10 to 12): which classifiers are fitted, and which share a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from genlabel import AdaMixupClassifier, GenerativeClassifier, GenLabelClassifier, Mixup, MixupClassifier
from genlabel.attacks import FGSM, Attack
from genlabel.densities import GaussianDensity, KernelDensity
from genlabel.training import SGD

__all__ = ["SETTINGS", "Search", "Setting"]

Params = dict[str, Any]
Method = tuple[str, float]
"""A method of `genlabel_paper.report.experiment.METHODS` and its alpha."""

TUNED: Params = {"weight_decay": 1e-4, "select": "accuracy"}
"""arXiv Table 11; the classifiers' own defaults are the rest: Adam, 100 epochs, batches of 128, four rates, 6 folds."""
ROBUST: Params = {
    "optimizer": SGD(milestones=()),
    "learning_rate": 0.02,
    "weight_decay": 1e-4,
    "epochs": 50,
}
"""arXiv Table 12: SGD, momentum 0.9. NOTE[PAPER]: it names no decay of the rate, so there is none."""
FIXED: Params = {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e-4, "standardize": False}
"""arXiv Table 10: SGD, momentum 0.9, multi-step decay."""
ATTACK = FGSM(0.2)
"""arXiv Table 12: radius 0.2, on standardised features."""
CUBES = ("cube-2d", "cube-3d")


@dataclass(frozen=True)
class Search:
    """One fit that serves several methods: each has the best of its own candidates."""

    make: Callable[[str, int], Any]
    """The classifier for a dataset and a seed."""
    variants: Mapping[Method, Callable[[Params], bool]]
    """Which candidates belong to each method; a classifier without a search serves one."""


@dataclass(frozen=True)
class Setting:
    """How the cells of a setting are trained and measured."""

    about: str
    searches: tuple[Search, ...]
    attack: Attack | None = None
    """Under which accuracy is measured as well."""


def _every(params: Params) -> bool:
    return True


def _is_mixup(params: Params) -> bool:
    """Whether a candidate of GenLabel is mixup: gamma = 0."""
    return bool(params["gamma"] == 0.0)


def _is_gm(params: Params) -> bool:
    return not isinstance(params.get("density"), KernelDensity)


def _is_kde(params: Params) -> bool:
    return not isinstance(params.get("density"), GaussianDensity)


def _is_labelled(labeler: str, params: Params) -> bool:
    return bool(params.get("labeler", labeler) == labeler)


def _alone(make: Callable[[str, int], Any], method: str) -> Search:
    return Search(make, {(method, 1.0): _every})


def _vanilla(network: Any, **params: Any) -> Search:
    return _alone(lambda _, seed: MixupClassifier(network, mixer=None, random_state=seed, **params), "vanilla")


def _exclude(network: Any, labelers: Mapping[str, str]) -> Search:
    """Mixup without the points that intrude (arXiv section 3.1), with linear or logistic labels (section 3.2).

    NOTE[PAPER]: the sigma of the logistic labels is not printed: 0.5, whose curve runs from 0.02 to 0.98.
    """
    return Search(
        lambda _, seed: MixupClassifier(
            network, Mixup(per="batch"), list(labelers.values()), exclude_intrusion=True, random_state=seed, **TUNED
        ),
        {(method, 1.0): partial(_is_labelled, labeler) for method, labeler in labelers.items()},
    )


def _generative(density: Any, method: str) -> Search:
    """NOTE[PAPER]: the priors are not printed; uniform ones, as in y_gen, fit the printed numbers of uneven sets."""
    return _alone(lambda *_: GenerativeClassifier(density, priors="uniform"), method)


def _genlabel(alpha: float, variants: Mapping[str, Callable[[Params], bool]]) -> Search:
    """Mixup is GenLabel with gamma = 0, and GM and KDE are the two halves of CV: one search serves all."""
    return Search(
        lambda _, seed: GenLabelClassifier.from_paper("logistic", "auto", alpha=alpha, random_state=seed),
        {(method, alpha): allowed for method, allowed in variants.items()},
    )


def _gm_and_mixup(network: Any, **params: Any) -> Search:
    return Search(
        lambda _, seed: GenLabelClassifier.from_paper(network, "gaussian", random_state=seed, **params),
        {("mixup", 1.0): _is_mixup, ("genlabel-gm", 1.0): _every},
    )


def _shape(dataset: str) -> Params:
    """Network and epochs of a synthetic set (arXiv Table 10)."""
    cube = dataset in CUBES
    return {"network": (64, 128) if cube else (64, 128, 128), "epochs": 40 if cube else 100}


SETTINGS = {
    "logistic": Setting(
        "softmax regression; Adam, 100 epochs, weight decay 1e-4, batches of 128; learning rate (0.1, 0.01, 0.001, "
        "0.0001), gamma (0, 0.2, ..., 1) and density by accuracy over 6 folds (arXiv Table 11)",
        (
            _vanilla("logistic", **TUNED),
            _alone(lambda _, seed: AdaMixupClassifier("logistic", random_state=seed, **TUNED), "adamixup"),
            _genlabel(1.0, {"mixup": _is_mixup, "genlabel-gm": _is_gm, "genlabel-kde": _is_kde, "genlabel-cv": _every}),
            _genlabel(2.0, {"mixup": _is_mixup, "genlabel-cv": _every}),
            _exclude("logistic", {"mixup-exclude-mi": "linear", "logistic-exclude-mi": "logistic"}),
            _generative(GaussianDensity(), "generative-gm"),
            _generative(KernelDensity(), "generative-kde"),
        ),
    ),
    "logistic-robust": Setting(
        "softmax regression; SGD, momentum 0.9, 50 epochs, learning rate 0.02; gamma by accuracy under FGSM of radius "
        "0.2 over 6 folds (arXiv Table 12)",
        (_vanilla("logistic", **ROBUST), _gm_and_mixup("logistic", select=ATTACK, **ROBUST)),
        ATTACK,
    ),
    "mlp": Setting(
        "two hidden ReLU layers of 128, Gaussians in the penultimate layer of a twin network (arXiv Alg. 2); else as "
        "softmax regression (arXiv Table 11)",
        (
            _vanilla("mlp", **TUNED),
            _gm_and_mixup("mlp", space="latent"),
            _exclude("mlp", {"mixup-exclude-mi": "linear"}),
            _generative(GaussianDensity(), "generative-gm"),
        ),
    ),
    "mlp-robust": Setting(
        "two hidden ReLU layers of 128, Gaussians in the penultimate layer of a twin network (arXiv Alg. 2); else as "
        "softmax regression under attack (arXiv Table 12)",
        (_vanilla("mlp", **ROBUST), _gm_and_mixup("mlp", space="latent", select=ATTACK, **ROBUST)),
        ATTACK,
    ),
    "synthetic": Setting(
        "three layers (64, 128; the cubes, 40 epochs) or four (64, 128, 128; 100 epochs); SGD, momentum 0.9, learning "
        "rate 0.1, a tenth of it after 1/2 and 3/4 of the epochs (arXiv Table 10)",
        (
            _alone(
                lambda name, seed: MixupClassifier(mixer=None, random_state=seed, **_shape(name), **FIXED), "vanilla"
            ),
            _alone(
                lambda name, seed: MixupClassifier(
                    mixer=Mixup(per="batch"), random_state=seed, **_shape(name), **FIXED
                ),
                "mixup",
            ),
        ),
    ),
}
"""The settings by name; a method that a setting does not have is not in the paper's tables for it."""

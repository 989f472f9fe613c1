"""The accuracy that a fitted classifier keeps under attack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from genlabel.arrays import Seed, Values, as_rng, as_tensor
from genlabel.attacks.base import Attack
from genlabel.attacks.boundary import Boundary
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.reading import View, class_indices, view
from genlabel.checks import check_choice, check_positive

__all__ = ["ATTACKS", "SPACES", "Robustness", "robust_accuracy"]

ATTACKS: dict[str, Attack] = {"fgsm": FGSM(), "pgd": PGD(), "boundary": Boundary()}
"""Attacks by name, radius 0.2: the paper's tables are under FGSM, its text names the boundary attack."""
SPACES = ("standardised", "input")


@dataclass(frozen=True)
class Robustness:
    """What :func:`robust_accuracy` found, in percent of the points; prints as a table."""

    clean: float
    """Right without an attack."""
    accuracy: float
    """Right under every attack that ran."""
    each: dict[str, float]
    """Right under each attack."""
    skipped: dict[str, str]
    """Attacks that did not run, and why."""
    withstood: NDArray[np.bool_] = field(repr=False, compare=False)
    """Points that are right under every attack, (m,)."""

    @property
    def ran(self) -> list[str]:
        """The attacks that ran."""
        return list(self.each)

    def __str__(self) -> str:
        shares = {"clean": self.clean, **self.each} | ({"all": self.accuracy} if len(self.each) > 1 else {})
        wide = max(map(len, [*shares, *self.skipped]))
        lines = [f"{name:<{wide}}  {value:5.1f} %" for name, value in shares.items()]
        return "\n".join(lines + [f"{name:<{wide}}  skipped: {why}" for name, why in self.skipped.items()])


def robust_accuracy(
    model: Any,
    X: Values,
    y: Values,
    attack: str | Attack | Iterable[str | Attack] = "fgsm",
    *,
    radius: float | None = None,
    space: str = "standardised",
    rng: Seed = 0,
) -> Robustness:
    """Return the accuracy of a fitted classifier on points that an attack may move (arXiv Tables 6, 9 and 12).

    The class of the largest probability counts as predicted, and a model that gives NaN for a point is wrong there. The
    attack uses the true labels, and a point that is wrong without it stays wrong. What an attack does not find may
    still exist: its accuracy is an upper bound. A model whose probabilities are steps, such as a forest, hides its
    boundary from gradients; add "boundary" there.

    Parameters
    ----------
    model : classifier
        Ours, a scikit-learn pipeline or search around one, or any scikit-learn classifier. Networks are differentiated,
        everything else is by differences of its probabilities; one that only predicts takes "boundary".
    X : array or DataFrame (m, d)
    y : array (m,)
        True labels, as the model was trained with.
    attack : "fgsm", "pgd", "boundary", Attack or sequence of them
        Of a sequence, a point must withstand all.
    radius : float or None
        For all attacks; None is each one's own, 0.2 by name.
    space : "standardised" or "input"
        Coordinates in which points move: those that the classifier standardises itself (units of the standard
        deviations of `X` for one that does not), or those of `X`.
    rng : generator or seed

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> print(robust_accuracy(LogisticRegression(max_iter=1000).fit(X, y), X, y, ["fgsm", "pgd"]))
    clean   97.3 %
    fgsm    81.3 %
    pgd     81.3 %
    all     81.3 %
    """
    check_choice("space", space, SPACES)
    attacks = _read_attacks(attack, radius)
    check_is_fitted(model)
    index = class_indices(model, y, len(model.predict(X)))
    shown = view(model, X, space)
    with np.errstate(divide="ignore"):  # a probability of 0 has a logarithm here
        right = shown.right(index)
        masks, skipped = _run_all(attacks, shown, index, right, rng)
    if not masks:
        raise ValueError(f"no attack ran: {'; '.join(f'{name}: {why}' for name, why in skipped.items())}")
    withstood = np.logical_and.reduce(list(masks.values()))
    each = {name: _percent(mask) for name, mask in masks.items()}
    return Robustness(_percent(right), _percent(withstood), each, skipped, withstood)


def _run_all(
    attacks: dict[str, Attack], shown: View, y: NDArray[np.int64], right: NDArray[np.bool_], rng: Seed
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, str]]:
    """Which points withstand each attack, and why an attack was skipped; each has random numbers of its own."""
    masks: dict[str, NDArray[np.bool_]] = {}
    skipped: dict[str, str] = {}
    for (name, attack), stream in zip(attacks.items(), as_rng(rng).spawn(len(attacks)), strict=True):
        if attack.needs_gradient and not shown.target.has_gradient:
            skipped[name] = "it needs gradients, but the model gives no probabilities"
            continue
        try:
            masks[name] = _withstand(attack, shown, y, right, stream)
        except ImportError as error:
            skipped[name] = str(error)
    return masks, skipped


def _withstand(
    attack: Attack, shown: View, y: NDArray[np.int64], right: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """The points that are right before and after the attack; those that are wrong need none."""
    left = right.copy()
    if right.any():
        points = attack(shown.target, as_tensor(shown.points[right]), y[right], rng=rng)
        left[right] = shown.right(y[right], points)
    return left


def _read_attacks(attack: str | Attack | Iterable[str | Attack], radius: float | None) -> dict[str, Attack]:
    """Attacks by their names, with the radius that is asked for."""
    given = [attack] if isinstance(attack, str | Attack) or not isinstance(attack, Iterable) else list(attack)
    if not given:
        raise ValueError(f"attack={attack!r} names none; choose among {', '.join(map(repr, ATTACKS))}")
    new: dict[str, Any] = {} if radius is None else {"radius": check_positive("radius", radius, "0.2 is the paper's")}
    found: dict[str, Attack] = {}
    for item in given:
        if not isinstance(item, Attack):
            check_choice("attack", item, ATTACKS, also="an Attack such as PGD(steps=50)")
        used = replace(ATTACKS[item] if isinstance(item, str) else item, **new)
        found[item if isinstance(item, str) else repr(used)] = used
    return found


def _percent(mask: NDArray[np.bool_]) -> float:
    return 100.0 * float(mask.mean())

"""The sections of the plane: rows and mixed points in two dimensions, and the regions of the classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genlabel._standardization import Standardization
from genlabel.evaluation.diagnosis import Diagnosis, MixedSampleStats
from genlabel.reporting.blocks import figure
from genlabel.reporting.charts import Mixed, region_map, scatter
from genlabel.reporting.markup import shorten
from genlabel.reporting.report.given import ReportData, ReportSection, format_label, name_of, percent

MOST_POINTS, MOST_MIXED = 4500, 160
SHRINKAGE = 0.1
"""Of the covariance within the classes, towards a ball."""
LOADING = 0.5
"""A feature is named beside a direction if it weighs this part of the heaviest one at least."""

Values = NDArray[np.float64]


def scatter_part(given: ReportData) -> ReportSection | None:
    """Return the section with rows and mixed points; None where there are none, or a single feature."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.blends is None or diagnosis.d < 2:
        return None
    blends = diagnosis.blends
    flat, names, how = _flatten(blends, given.feature_names)
    mixed, strange = _mixed(diagnosis, blends, flat)
    rows = _some(len(flat), MOST_POINTS)
    few = "" if len(rows) == len(flat) else f" {len(rows)} of {len(flat)} rows are drawn."
    third = (
        f"; on {strange} the stacked density names a class that neither parent has"
        if len(diagnosis.classes) > 2
        else ""
    )
    said = (
        "Discs are blends of two classes, as mixup draws them. Large ones are those on which the labels disagree: the "
        "left half has the colour of mixup's likeliest class, the right half that of the stacked density's. "
        f"They disagree on {sum(one.first != one.second for one in mixed)} of {len(mixed)}{third}. {how}{few}"
    )
    classes = [shorten(name) for name in diagnosis.classes]
    drawn = scatter("Rows and mixed points", said, flat[rows], blends.class_number[rows], classes, mixed, names)
    return ReportSection("projection", "Rows and blends in the plane", [figure(drawn, said)])


def plane_part(given: ReportData) -> ReportSection | None:
    """Return the section with the regions of the classes; None unless there are two features."""
    diagnosis = given.diagnosis
    if diagnosis is None or diagnosis.plane is None or diagnosis.blends is None:
        return None
    plane, blends = diagnosis.plane, diagnosis.blends
    rows = _some(len(blends.points), MOST_POINTS // 4)
    apart = {
        name: float((regions != plane.regions["vanilla"]).mean())
        for name, regions in plane.regions.items()
        if name != "vanilla"
    }
    told = [f"{name} differs from vanilla on {percent(share)}" for name, share in apart.items()]
    said = f"Which class each takes a place for. Of the plane shown, {', '.join(told)}."
    axes = tuple(given.feature_names or ("first feature", "second feature"))
    shown = blends.points[rows], blends.class_number[rows], [shorten(name) for name in diagnosis.classes]
    drawn = region_map("Regions of the classes", said, (plane.x, plane.y), plane.regions, *shown, (axes[0], axes[1]))
    return ReportSection("regions", "Decision boundaries", [figure(drawn, said)])


def project(points: Values, index: NDArray[np.intp]) -> tuple[Values, float]:
    """Return the two directions (d, 2) along which the classes are furthest apart, and the share of that they show.

    Fisher's discriminants with a shrunken covariance; of two classes the second direction is the one of the most spread
    across the first.

    Parameters
    ----------
    points : array (n, d)
        Standardised.
    index : array (n,)
        Class numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = np.repeat([0, 1, 2], 50)
    >>> points = rng.normal(size=(150, 4)) + 9.0 * np.eye(4)[index]
    >>> directions, share = project(points, index)
    >>> directions.shape, share > 0.99
    ((4, 2), True)
    """
    k, d = int(index.max()) + 1, points.shape[1]
    means = np.stack([points[index == c].mean(0) for c in range(k)])
    counts = np.bincount(index, minlength=k)
    inner = points - means[index]
    within = inner.T @ inner / len(points)
    within = (1 - SHRINKAGE) * within + SHRINKAGE * max(float(np.trace(within)) / d, 1e-9) * np.eye(d)
    between = (means - points.mean(0)).T * counts @ (means - points.mean(0)) / len(points)
    values, vectors = np.linalg.eigh(within)
    whiten = vectors / np.sqrt(values)
    spread, turned = np.linalg.eigh(whiten.T @ between @ whiten)
    order = np.argsort(spread)[::-1]
    found = whiten @ turned[:, order[:2]]
    if k == 2:
        found[:, 1] = _across(points, found[:, 0])
    largest = np.abs(found).argmax(0)
    share = float(spread[order[:2]].sum() / max(float(spread.sum()), 1e-12))
    return found * np.sign(found[largest, [0, 1]]), min(1.0, share)


def _across(points: Values, first: Values) -> Values:
    """The direction of the most spread among those that the first does not see."""
    line = points @ first
    rest = points - np.outer(line, points.T @ line) / max(float(line @ line), 1e-12)
    return np.asarray(np.linalg.svd(rest - rest.mean(0), full_matrices=False)[2][0])


def _flatten(blends: MixedSampleStats, names: Sequence[str] | None) -> tuple[Values, tuple[str, str], str]:
    """The rows in two dimensions (n, 2), what the axes are, and how that was done."""
    if blends.points.shape[1] == 2:
        one, other = names or ("first feature", "second feature")
        return blends.points, (one, other), ""
    scaler = Standardization.fit(blends.points, keep_constant=True)
    points = scaler(blends.points)
    directions, share = project(points, blends.class_number)
    titles = [_title(number, line, names) for number, line in enumerate(directions.T, 1)]
    k = int(blends.class_number.max()) + 1
    shown = (
        "The first direction is that along which the two classes are furthest apart, the second that of the most spread"
        if k == 2
        else f"The two directions show {percent(share, 0)} of what keeps the {k} classes apart"
    )
    how = f"{shown}; the labels were looked at for it, so that classes look further apart than they are to a new row."
    return points @ directions, (titles[0], titles[1]), how


def _title(number: int, direction: Values, names: Sequence[str] | None) -> str:
    if names is None:
        return f"direction {number}"
    heavy = np.abs(direction)
    order = [place for place in np.argsort(-heavy, kind="stable")[:3] if heavy[place] >= LOADING * heavy.max()]
    signed = [f"{'' if direction[place] > 0 else '−'}{name_of(names[place])}" for place in order]  # noqa: RUF001
    return f"direction {number}, mostly {', '.join(signed)}"


def _some(n: int, most: int) -> NDArray[np.intp]:
    """At most so many rows, drawn with a fixed seed."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _mixed(diagnosis: Diagnosis, blends: MixedSampleStats, flat: Values) -> tuple[list[Mixed], int]:
    """Some blends of different classes, as often as mixup draws their pairs; and how many get a third class."""
    first, second, lam = blends.seen.blends
    one, other = blends.class_number[first], blends.class_number[second]
    chosen = _draw(blends, one, other)
    place = lam[chosen, None] * flat[first[chosen]] + (1 - lam[chosen, None]) * flat[second[chosen]]
    linear, learned = blends.seen.mixup[chosen].argmax(1), blends.seen.model[chosen].argmax(1)
    strange = (learned != one[chosen]) & (learned != other[chosen])
    said = [_said(diagnosis, blends, int(number)) for number in chosen]
    parts = zip(place.tolist(), linear.tolist(), learned.tolist(), said, strict=True)
    return [Mixed(x, y, one, other, words) for (x, y), one, other, words in parts], int(strange.sum())


def _draw(blends: MixedSampleStats, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers of the blends that are drawn."""
    k = int(blends.class_number.max()) + 1
    counts = np.bincount(blends.class_number, minlength=k).astype(np.float64)
    looked = np.bincount(one * k + other, minlength=k * k)[one * k + other]
    weight = np.where(one != other, counts[one] * counts[other] / looked, 0.0)
    size = min(MOST_MIXED, int((weight > 0).sum()))
    return np.random.default_rng(0).choice(len(weight), size, replace=False, p=weight / weight.sum())


def _said(diagnosis: Diagnosis, blends: MixedSampleStats, number: int) -> str:
    first, second, lam = (part[number] for part in blends.seen.blends)
    names = [name_of(name) for name in diagnosis.classes]
    one, other = (f"row {blends.rows[row]} ({names[blends.class_number[row]]})" for row in (first, second))
    linear, learned = (format_label(label, names) for label in (blends.seen.mixup[number], blends.seen.model[number]))
    return f"{lam:.2f} of {one}, {1 - lam:.2f} of {other}\nmixup: {linear}\nstacked density: {learned}"

"""Sections of the plane: rows and mixed samples in two dimensions, and decision regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genlabel._arrays import Standardization
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.reporting.charts import add_class_legend, draw_classes, draw_halves, draw_regions
from genlabel.reporting.figures import finish_axes, new_figure, plain_text
from genlabel.reporting.report.data import Chart, ReportData, ReportSection
from genlabel.reporting.words import format_label, name_of, percent

MAX_POINTS, MAX_MIXED = 4500, 160
SHRINKAGE = 0.1
"""Shrinkage of the covariance within the classes towards a multiple of the identity."""
MIN_LOADING = 0.5
"""A feature is named along a direction if its weight is at least this share of the largest one."""

Values = NDArray[np.float64]


def projection_section(data: ReportData) -> ReportSection | None:
    """Return the section with rows and mixed samples; None where there are none, or a single feature."""
    diagnosis = data.diagnosis
    if diagnosis is None or diagnosis.mixed is None or diagnosis.d < 2:
        return None
    mixed = diagnosis.mixed
    points, axes, method = _project_rows(mixed, data.feature_names)
    chosen = _choose_mixed(mixed)
    first, second, lam = (part[chosen] for part in mixed.samples.pairs)
    places = lam[:, None] * points[first] + (1 - lam[:, None]) * points[second]
    linear = mixed.samples.linear_labels[chosen].argmax(1)
    generated = mixed.samples.density_labels[chosen].argmax(1)
    third = int(((generated != mixed.class_index[first]) & (generated != mixed.class_index[second])).sum())
    rows = _subsample(len(points), MAX_POINTS)
    omitted = "" if len(rows) == len(points) else f" {len(rows)} of {len(points)} rows are drawn."
    others = f"; on {third} the stacked density's class is that of neither parent" if len(diagnosis.classes) > 2 else ""
    caption = (
        "Discs are mixed samples of two classes, as mixup draws them. The labels differ on the large ones: the left "
        "half has the color of the top class of mixup's label, the right half that of the stacked density's. "
        f"They differ on {int((linear != generated).sum())} of {len(chosen)}{others}. {method}{omitted}"
    )
    figure = new_figure(7.2, 5.2)
    ax = figure.subplots()
    names = diagnosis.classes.tolist()
    draw_classes(ax, points[rows], mixed.class_index[rows], len(names), 4.0, alpha=0.5)
    draw_halves(ax, places, linear, generated, [_tip(diagnosis, mixed, int(number)) for number in chosen])
    ax.set_xlabel(plain_text(axes[0]))
    ax.set_ylabel(plain_text(axes[1]))
    ax.autoscale_view()
    finish_axes(ax, grid="both")
    add_class_legend(figure, names)
    return ReportSection(
        "projection", "Rows and mixed samples in the plane", [Chart(figure, "Rows and mixed samples", caption)]
    )


def region_section(data: ReportData) -> ReportSection | None:
    """Return the section with decision regions; None unless there are two features."""
    diagnosis = data.diagnosis
    if diagnosis is None or diagnosis.regions is None or diagnosis.mixed is None:
        return None
    found, mixed, names = diagnosis.regions, diagnosis.mixed, diagnosis.classes.tolist()
    rows = _subsample(len(mixed.points), MAX_POINTS // 4)
    differences = [
        f"{name} differs from vanilla on {percent(float((regions != found.regions['vanilla']).mean()))}"
        for name, regions in found.regions.items()
        if name != "vanilla"
    ]
    caption = f"Predicted class over the plane. Of the plane shown, {', '.join(differences)}."
    features = data.feature_names or ["first feature", "second feature"]
    lines = -(-len(found.regions) // 2)
    figure = new_figure(7.4, 0.6 + 2.9 * lines)
    axes = figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False)
    for ax, (name, regions) in zip(axes.flat, found.regions.items(), strict=False):
        draw_regions(ax, found.x, found.y, regions)
        draw_classes(ax, mixed.points[rows], mixed.class_index[rows], len(names), 2.8)
        finish_axes(ax, name, grid=None)
    for ax in axes[-1]:
        ax.set_xlabel(plain_text(features[0], 40))
    for ax in axes[:, 0]:
        ax.set_ylabel(plain_text(features[1], 30))
    add_class_legend(figure, names)
    return ReportSection("regions", "Decision regions", [Chart(figure, "Decision regions of the models", caption)])


def discriminant_directions(points: Values, index: NDArray[np.intp]) -> tuple[Values, float]:
    """Return the two directions (d, 2) along which the classes differ most, and the share of the difference they show.

    They are Fisher's discriminants with a shrunken covariance; with two classes the second direction is the one of the
    largest variance orthogonal to the scores of the first.

    Parameters
    ----------
    points : array (n, d)
        Standardized features.
    index : array (n,)
        Class indices.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = np.repeat([0, 1, 2], 50)
    >>> points = rng.normal(size=(150, 4)) + 9.0 * np.eye(4)[index]
    >>> directions, share = discriminant_directions(points, index)
    >>> directions.shape, share > 0.99
    ((4, 2), True)
    """
    k, d = int(index.max()) + 1, points.shape[1]
    means = np.stack([points[index == c].mean(0) for c in range(k)])
    counts = np.bincount(index, minlength=k)
    residuals = points - means[index]
    within = residuals.T @ residuals / len(points)
    within = (1 - SHRINKAGE) * within + SHRINKAGE * max(float(np.trace(within)) / d, 1e-9) * np.eye(d)
    between = (means - points.mean(0)).T * counts @ (means - points.mean(0)) / len(points)
    values, vectors = np.linalg.eigh(within)
    whiten = vectors / np.sqrt(values)
    variances, rotation = np.linalg.eigh(whiten.T @ between @ whiten)
    order = np.argsort(variances)[::-1]
    directions = whiten @ rotation[:, order[:2]]
    if k == 2:
        scores = points @ directions[:, 0]
        rest = points - np.outer(scores, points.T @ scores) / max(float(scores @ scores), 1e-12)
        directions[:, 1] = np.linalg.svd(rest - rest.mean(0), full_matrices=False)[2][0]
    largest = np.abs(directions).argmax(0)
    share = float(variances[order[:2]].sum() / max(float(variances.sum()), 1e-12))
    return directions * np.sign(directions[largest, [0, 1]]), min(1.0, share)


def _project_rows(mixed: MixedSampleStats, names: Sequence[str] | None) -> tuple[Values, tuple[str, str], str]:
    """Return the rows in two dimensions (n, 2), the titles of the axes, and a sentence about the method."""
    if mixed.points.shape[1] == 2:
        one, other = names or ("first feature", "second feature")
        return mixed.points, (one, other), ""
    points = Standardization.fit(mixed.points, keep_constant=True)(mixed.points)
    directions, share = discriminant_directions(points, mixed.class_index)
    first, second = (_axis_title(number, line, names) for number, line in enumerate(directions.T, 1))
    k = int(mixed.class_index.max()) + 1
    shown = (
        "The first direction is that along which the two classes differ most, the second that of the largest variance"
        if k == 2
        else f"The two directions show {percent(share, 0)} of the differences of the {k} classes"
    )
    method = f"{shown}; the labels were used to find them, so classes look further apart than they are for a new row."
    return points @ directions, (first, second), method


def _axis_title(number: int, direction: Values, names: Sequence[str] | None) -> str:
    """Return the title of an axis, with the features of the largest weights."""
    if names is None:
        return f"direction {number}"
    weight = np.abs(direction)
    largest = [i for i in np.argsort(-weight, kind="stable")[:3] if weight[i] >= MIN_LOADING * weight.max()]
    signs = ["" if direction[i] > 0 else "\N{MINUS SIGN}" for i in largest]
    features = ", ".join(f"{sign}{name_of(names[i])}" for sign, i in zip(signs, largest, strict=True))
    return f"direction {number}, mostly {features}"


def _subsample(n: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` indices of n rows, drawn with a fixed seed."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _choose_mixed(mixed: MixedSampleStats) -> NDArray[np.intp]:
    """Return indices of mixed samples of different classes, drawn as often as mixup draws their pairs."""
    first, second = (mixed.class_index[rows] for rows in mixed.samples.pairs[:2])
    k = int(mixed.class_index.max()) + 1
    counts = np.bincount(mixed.class_index, minlength=k).astype(np.float64)
    of_pair = np.bincount(first * k + second, minlength=k * k)[first * k + second]
    weight = np.where(first != second, counts[first] * counts[second] / of_pair, 0.0)
    size = min(MAX_MIXED, int((weight > 0).sum()))
    return np.random.default_rng(0).choice(len(weight), size, replace=False, p=weight / weight.sum())


def _tip(diagnosis: Diagnosis, mixed: MixedSampleStats, number: int) -> str:
    """Return the parents and both labels of a mixed sample."""
    samples, names = mixed.samples, [name_of(name) for name in diagnosis.classes]
    first, second, lam = (part[number] for part in samples.pairs)
    one, other = (f"row {mixed.rows[row]} ({names[mixed.class_index[row]]})" for row in (first, second))
    linear, generated = (
        format_label(label[number], names) for label in (samples.linear_labels, samples.density_labels)
    )
    return f"{lam:.2f} of {one}, {1 - lam:.2f} of {other}\nmixup: {linear}\nstacked density: {generated}"

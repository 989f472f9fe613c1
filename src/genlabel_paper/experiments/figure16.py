"""Figure 16: GenMix in the hidden space of a robust network: images between two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from genlabel._validation import check_choice
from genlabel.reporting.charts import DPI
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, mean_score, select_records
from genlabel_paper.report.results import NOTHING_MEASURED, CaptionedFigure, Claim, Grid, Rendering, Value
from genlabel_paper.runs.cells import BUDGETS, Cell, make_trials
from genlabel_paper.runs.genmix_hidden import HIDDEN_DATASETS, decode_images
from genlabel_paper.runs.settings import SETTINGS

SETS = {"smoke": ["digits"], "quick": ["digits", "mnist"], "full": list(HIDDEN_DATASETS)}
METRICS = {
    "accuracy": "Test accuracy of the robust network",
    "robust_accuracy": "Accuracy under the attack of its training (300 images)",
    "judged_pair": "Images whose two classes are the two most likely ones of another network (chance: about 2 %)",
    "judged_one": "Images whose most likely class, by that network, is one of the two (chance: 20 %)",
}
BRIEF = "images between two classes"
NOTES = (
    "The paper shows CIFAR-10 and a network that others have trained on it; which and how it does not say. Ours are "
    "LeNet-5, much smaller, on part of the training images: digits, MNIST and, in the full budget, CIFAR-10.",
    "Of each displayed pair, the image is the one of three whose features are nearest to the target point.",
)


def cells(budget: str) -> list[Cell]:
    """Return a cell for each set of a budget.

    >>> [cell.dataset for cell in cells("quick")]
    ['digits', 'mnist']
    """
    check_choice("budget", budget, BUDGETS)
    return make_trials("genmix-hidden", SETS[budget], [("genmix-hidden", 1.0)], 1)


def render(records: pd.DataFrame) -> Rendering:
    """Show the recorded images, and how another network classifies all that were generated; nothing is trained.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [None]
    """
    chosen = select_records(records, "genmix-hidden")
    datasets = [name for name in HIDDEN_DATASETS if (chosen["dataset"] == name).any()] or SETS["quick"]
    rows = [(title, [Value(mean_score(chosen, name, "genmix-hidden", metric), None, "not run") for name in datasets])
            for metric, title in METRICS.items()]  # fmt: skip
    grid = Grid(
        "GenMix in the hidden space", [HIDDEN_DATASETS[name].title for name in datasets], rows, corner="dataset"
    )
    figures = [_figure(row) for row in chosen.to_dict("records") if "images" in row["parameters"]]
    notes = [f"{SETTINGS['genmix-hidden'].about}.", coverage(chosen, datasets, ["genmix-hidden"]), *NOTES]
    return Rendering([grid], [_claim(chosen, datasets)], figures, notes)


def _claim(records: pd.DataFrame, datasets: list[str]) -> Claim:
    text = (
        "Each image lies between its two classes (here: they are the two most likely ones of another network for more "
        "than half of the images)."
    )
    quote = "each generated image contains the features of both classes"
    scores = {name: mean_score(records, name, "genmix-hidden", "judged_pair") for name in datasets}
    known = {name: value.mean for name, value in scores.items() if value is not None}
    if not known:
        return Claim(text, quote, NOTHING_MEASURED, None, brief=BRIEF)
    words = ", ".join(f"{value:.0f} % ({HIDDEN_DATASETS[name].title})" for name, value in known.items())
    return Claim(text, quote, f"{words}; one network of each, which proves nothing", None, 1, full=1, brief=BRIEF)


def _figure(record: dict[Any, Any]) -> CaptionedFigure:
    parameters = record["parameters"]
    images = decode_images(parameters)
    figure = Figure(figsize=(9.0, 3.9), dpi=DPI, layout="constrained")
    columns = -(-len(images) // 2)
    for ax, image, name in zip(figure.subplots(2, columns).ravel(), images, parameters["pairs"], strict=False):
        pixels = np.moveaxis(image, 0, -1)
        ax.imshow(pixels.squeeze(), cmap="gray" if pixels.shape[-1] == 1 else None, vmin=0, vmax=255)
        ax.set_xlabel(name, fontsize=9)
        ax.set(xticks=[], yticks=[])
    title = HIDDEN_DATASETS[record["dataset"]].title
    figure.suptitle(title, fontsize=11)
    caption = f"{title}: images whose features lie between those of the two classes below, equally likely under both."
    return CaptionedFigure(caption, figure)


EXPERIMENT = Experiment(
    "figure16",
    "GenMix in the hidden space of a robust network",
    "arXiv Figure 16, Section F.5",
    cells,
    render,
    section="genmix",
)

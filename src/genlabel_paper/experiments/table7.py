"""Table 7: clean accuracy and accuracy under AutoAttack on images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from genlabel._validation import check_choice
from genlabel_paper.report.dataset_tables import coverage
from genlabel_paper.report.experiment import Experiment, methods_grid
from genlabel_paper.report.results import Claim, Grid, Printed, Rendering, printed_means, read_printed
from genlabel_paper.report.statements import Check, PairedMeans, above
from genlabel_paper.runs.cells import BUDGETS, Cell
from genlabel_paper.runs.schedules import IMAGE_DATASETS, SCHEDULES, SEEDS, Kind, Schedule, image_methods, schedule_of
from genlabel_paper.runs.settings import SETTINGS

CLEAN = read_printed(
    """
    dataset       vanilla       adamixup      mixup         mixup-genlabel  manifold      manifold-genlabel
    mnist         99.34±0.03    99.32±0.05    99.27±0.03    99.36±0.06      99.32±0.04    99.37±0.07
    cifar10       94.57±0.25    95.45±0.13    95.68±0.06    96.09±0.01      94.78±0.49    95.10±0.10
    cifar100      74.48±0.28    -             77.65±0.30    78.04±0.21      78.61±0.17    78.99±0.54
    tinyimagenet  58.13±0.09    -             59.46±0.30    59.78±0.09      59.87±0.63    60.02±0.25
    """
)
ROBUST = read_printed(
    """
    dataset       vanilla       adamixup      mixup         mixup-genlabel  manifold      manifold-genlabel
    mnist         48.17±13.1    -             55.44±1.80    56.54±1.03      55.56±1.53    56.62±1.31
    cifar10       16.89±0.98    -             11.65±1.96    14.32±1.23      18.14±1.88    18.91±1.26
    cifar100      17.19±0.20    -             18.44±0.45    19.58±0.71      19.25±0.61    19.28±1.04
    tinyimagenet  13.19±0.19    -             14.91±0.48    15.34±0.30      14.78±0.28    15.19±0.22
    """
)
PRINTED = {"clean": CLEAN, "robust": ROBUST}
METRICS = {"clean": "accuracy", "robust": "robust_accuracy"}
CAPTIONS = {"clean": "Clean accuracy", "robust": "Robust accuracy (AutoAttack)"}
ROWS = list(image_methods("mnist"))
"""Methods of the paper, mixup with a lam per image, and GenLabel with the library's defaults and with gamma="auto"."""
PAIRS = {"mixup-genlabel": "mixup", "manifold-genlabel": "manifold"}
NAMES = {"mixup": "Mixup", "manifold": "Manifold mixup"}
AIMS = {"clean": "clean accuracy", "robust": "accuracy under AutoAttack"}

MINOR = "a minor improvement for all image datasets"
CHECKS: dict[str, list[Check]] = {
    kind: [
        Check(
            f"{NAMES[worse]} + GenLabel has a higher {AIMS[kind]} than {NAMES[worse].lower()} on every dataset.",
            MINOR,
            above(better, worse),
            gain=(better, worse),
            brief=f"GenLabel above {NAMES[worse].lower()}, {kind}",
        )
        for better, worse in PAIRS.items()
    ]
    for kind in PRINTED
}
CHECKS["clean"].append(
    Check(
        "Mixup + GenLabel has a higher clean accuracy than AdaMixup.",
        "a higher generalization performance than AdaMixup",
        above("mixup-genlabel", "adamixup"),
        [name for name, about in IMAGE_DATASETS.items() if about.adamixup and about.printed],
        gain=("mixup-genlabel", "adamixup"),
        brief="GenLabel above AdaMixup, clean",
    )
)
NOTES = [
    "Ours: mean ± standard deviation over seeds, of the network of the last epoch. The paper keeps the epoch that is "
    "best in clean accuracy, or under AutoAttack, and does not say on which images.",
    "The best epoch is that of the highest accuracy on images of the training set that are held out (5,000; a tenth of "
    "TinyImageNet-200 and of digits); no network is trained on them, and the test images choose nothing.",
    "CIFAR and TinyImageNet-200 are augmented by crops (4 pixels) and flips, MNIST and digits are not. One lam a "
    "batch, alpha 1 (mixup) and 2 (manifold mixup). None of this is printed.",
    '"GenLabel, default" has the library\'s defaults: moments from nearly clean mixed images (no further pass over '
    "the clean ones, as in Alg. 3), and a lam for each image; the row before it is the corresponding mixup, with a lam "
    "for each image. The last row also scales gamma by the trust in the densities; it is trained on request.",
    "AdaMixup has a lam for each pair; its policy and its critic are small networks of three convolutions, and its "
    "loss is the mean over images and mixed images, of which batch normalization sees both. Networks are trained on "
    "the images that are not held out, 55,000 of MNIST and 45,000 of CIFAR; another seed holds out others.",
    "The paper has AdaMixup for the clean accuracy of MNIST and CIFAR-10 only, though Table 14 has settings for it.",
]
DIGITS_NOTE = (
    "digits are a demonstration that needs no download: 1,438 training images of 8 by 8 pixels. They are not in the "
    "paper, and no statement counts them."
)
SHORTER_NOTE = "A schedule shorter than the paper's shows how the methods compare there, not their final accuracy."


def cells(budget: str) -> list[Cell]:
    """Return the cells of the datasets of the paper, of all methods but the one with gamma="auto".

    >>> [cell.id for cell in cells("smoke")][0]
    'images-clean-smoke-2/mnist/vanilla/alpha=1/split=0/seed=0'
    """
    printed = [name for name, about in IMAGE_DATASETS.items() if about.printed]
    return [cell for cell in _cells(budget, printed) if image_methods(cell.dataset)[cell.method].gamma is None]


def further_cells(budget: str) -> list[Cell]:
    """Return the cells of the datasets that are not in the paper, and those of gamma="auto".

    >>> {cell.dataset for cell in further_cells("quick") if cell.method == "mixup"}
    {'digits'}
    """
    regular = set(cells(budget))
    return [cell for cell in _cells(budget, list(IMAGE_DATASETS)) if cell not in regular]


def _cells(budget: str, datasets: Sequence[str]) -> list[Cell]:
    check_choice("budget", budget, BUDGETS)
    kinds: tuple[Kind, ...] = ("clean", "robust")
    return [
        Cell(schedule_of(budget, kind, dataset).name, dataset, method.key, 0, seed, method.variant[1])
        for kind in kinds
        for dataset in datasets
        for seed in range(SEEDS[budget])
        for method in image_methods(dataset).values()
    ]


def render(records: pd.DataFrame) -> Rendering:
    """Show a table for each schedule that has records, and for the schedule of the paper.

    >>> [grid.title for grid in render(pd.DataFrame()).grids]
    ['Clean accuracy, 200 epochs', 'Robust accuracy (AutoAttack), 50 epochs']
    """
    image_records = _select_image_records(records)
    grids: list[Grid] = []
    claims: list[Claim] = []
    notes: list[str] = []
    for schedule in SCHEDULES.values():
        part = image_records[image_records["setting"] == schedule.name]
        datasets = _displayed_datasets(image_records, schedule)
        if datasets:
            grids += _grids(part, schedule, datasets)
            claims += _claims(part, schedule, datasets)
            notes.append(_extent(part, schedule, datasets))
    if any(not SCHEDULES[name].paper for name in image_records["setting"].unique()):
        notes.append(SHORTER_NOTE)
    if "digits" in set(image_records["dataset"]):
        notes.append(DIGITS_NOTE)
    return Rendering(grids, claims, notes=[*notes, *NOTES])


def _select_image_records(records: pd.DataFrame) -> pd.DataFrame:
    if "setting" not in records:
        records = records.reindex(columns=["setting", "dataset", "method", "alpha", "split", "seed"])
    return records[records["setting"].isin(list(SCHEDULES))]


def _displayed_datasets(image_records: pd.DataFrame, schedule: Schedule) -> list[str]:
    """Return the datasets of a table: those with records of its schedule, and missing ones in the paper's schedule.

    Missing are the datasets of the paper without records of this kind; none if all records are of other datasets.
    """
    same_kind = [name for name, other in SCHEDULES.items() if other.kind == schedule.kind]
    recorded = set(image_records.loc[image_records["setting"] == schedule.name, "dataset"])
    recorded_of_kind = set(image_records.loc[image_records["setting"].isin(same_kind), "dataset"])
    printed = {name for name, about in IMAGE_DATASETS.items() if about.printed}
    missing: set[str] = set()
    if schedule.paper and (printed & recorded_of_kind or not recorded_of_kind):
        missing = printed - recorded_of_kind
    return [name for name in IMAGE_DATASETS if name in recorded | missing]


def _grids(part: pd.DataFrame, schedule: Schedule, datasets: Sequence[str]) -> list[Grid]:
    """Return the accuracy of the last epoch next to the printed one, and that of the best epoch."""
    title = f"{CAPTIONS[schedule.kind]}, {_length(schedule)}"
    paper, metric = PRINTED[schedule.kind], METRICS[schedule.kind]
    about = {name: IMAGE_DATASETS[name].title for name in datasets}
    grids = [methods_grid(title, part, datasets, ROWS, paper, metric, about=about)]
    if schedule.kind == "clean" and part.get("best_accuracy", pd.Series(dtype=float)).notna().any():
        title = f"Clean accuracy of the epoch that is best on held-out images, {_length(schedule)}"
        grids.append(methods_grid(title, part, datasets, ROWS, {}, "best_accuracy", about=about))
    if schedule.kind == "robust" and part.get("best_robust_accuracy", pd.Series(dtype=float)).notna().any():
        title = f"{CAPTIONS['robust']} of the epoch that is best under attack on held-out images, {_length(schedule)}"
        grids.append(methods_grid(title, part, datasets, ROWS, paper, "best_robust_accuracy", about=about))
    return [_with_adamixup_reasons(replace(grid, corner="dataset")) for grid in grids]


def _with_adamixup_reasons(grid: Grid) -> Grid:
    """Return the grid with a reason where AdaMixup is missing because the paper has no settings for it."""
    reason = "the paper has no settings of AdaMixup for it"
    rows = []
    for key, (title, values) in zip(ROWS, grid.rows, strict=True):
        explained = [
            value if key in image_methods(dataset) else replace(value, why=reason)
            for dataset, value in zip(grid.columns, values, strict=True)
        ]
        rows.append((title, explained))
    return replace(grid, rows=rows)


def _claims(part: pd.DataFrame, schedule: Schedule, datasets: Sequence[str]) -> list[Claim]:
    """Return the statements of the paper about the datasets of a schedule that it prints."""
    printed = [name for name in datasets if IMAGE_DATASETS[name].printed]
    means = printed_means(PRINTED[schedule.kind])
    ours = PairedMeans(part, printed, METRICS[schedule.kind])
    checks = [check for check in CHECKS[schedule.kind] if set(printed) & set(check.datasets or printed)]
    claims = [check.claim(ours, means.loc[printed]) for check in checks]
    if schedule.paper:
        return [replace(claim, full=SEEDS["full"]) for claim in claims]
    length = _length(schedule)
    return [
        replace(claim, text=f"{claim.text[:-1]}, after {length}.", brief=f"{claim.brief}, {length}", of_paper=False)
        for claim in claims
    ]


def _length(schedule: Schedule) -> str:
    words = f"{schedule.epochs} epochs"
    return f"{words} of at most {schedule.images:,} images" if schedule.images else words


def _extent(part: pd.DataFrame, schedule: Schedule, datasets: Sequence[str]) -> str:
    """Return a note on the records of a schedule."""
    about = SETTINGS[schedule.name].about
    counts = sorted({parameters["attacked"] for parameters in part.get("parameters", []) if "attacked" in parameters})
    attacked = f" Attacked images: {', '.join(map(str, counts))}." if counts else ""
    return f"{CAPTIONS[schedule.kind]}: {about}. {coverage(part, datasets, ROWS)}{attacked}"


def _all_printed() -> dict[tuple[str, str], Printed]:
    """Return all printed values, by method and by dataset with the kind of accuracy."""
    values: dict[tuple[str, str], Printed] = {}
    for kind, printed in PRINTED.items():
        values |= {(method, f"{dataset}, {kind}"): value for (method, dataset), value in printed.items()}
    return values


EXPERIMENT = Experiment(
    "table7",
    "Clean and robust accuracy on images",
    "arXiv Table 7, Sections 6.3 and A.1; settings: Tables 13 and 14",
    cells,
    render,
    _all_printed(),
    further_cells,
    section="images",
)

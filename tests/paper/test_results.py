"""Committed records of the reproduction: complete, and as docs/reproduction.md describes them."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from genlabel_paper.experiments.statistics import study_means
from genlabel_paper.experiments.table9 import PAPER as TABLE9
from genlabel_paper.exports import load_records
from genlabel_paper.paired import count_wins
from genlabel_paper.registry import find
from genlabel_paper.report.dataset_tables import UNAVAILABLE
from genlabel_paper.report.experiment import select_records
from genlabel_paper.report.layout import count_agreements, count_verdicts, describe_counts
from genlabel_paper.report.page import Entry, count_statements, read_entries
from genlabel_paper.report.results import Rendering
from genlabel_paper.report.win_rates import TIE_WIDTH, paired_gains, well_fitted_datasets
from genlabel_paper.runs.cells import BUDGETS, PAPER_SCHEMA, Cell, in_percent
from genlabel_paper.runs.manifest import low_dimensional_datasets, manifest, reasons_to_leave_out
from genlabel_paper.runs.methods import TITLES
from genlabel_paper.runs.protocols import PROTOCOLS, with_paper_cells
from genlabel_paper.runs.schedules import SCHEDULES
from genlabel_paper.runs.trials import fingerprint_cell

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "paper"
EXPERIMENTS = {experiment.id: experiment for experiment in find(["all"])}
GENMIX = {"table15", "figure13", "figure14", "figure15", "figure16", "densities"}
"""Experiments with records of a smaller budget, or none."""
PARTIAL_SETTINGS = [*SCHEDULES, "genmix", "genmix-hidden", "densities"]
TRAINED = {name for name, experiment in EXPERIMENTS.items() if experiment.trains} - {"statistics", "table7"} - GENMIX
TABLES = (*(f"table{number}" for number in (1, 2, 3, 4, 5, 6, 8, 9)), "figure3", "figure5", "figure9")
pytestmark = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")


@pytest.fixture(scope="module")
def all_records() -> pd.DataFrame:
    return in_percent(load_records(RECORDS, PAPER_SCHEMA).frame)


@pytest.fixture(scope="module")
def records(all_records: pd.DataFrame) -> pd.DataFrame:
    """Return the records of tables and points, which have the full budget."""
    return all_records[~all_records["setting"].isin(PARTIAL_SETTINGS)].reset_index(drop=True)


@pytest.fixture(scope="module")
def renderings(records: pd.DataFrame) -> dict[str, Rendering]:
    return {name: experiment.render(records) for name, experiment in EXPERIMENTS.items() if name in TRAINED}


@pytest.fixture(scope="module")
def page() -> str:
    return words_of("docs", "reproduction.md")


def words_of(*path: str) -> str:
    return " ".join(ROOT.joinpath(*path).read_text().split())


def test_records_are_cells_of_the_experiments(records: pd.DataFrame) -> None:
    """The tables of chosen datasets and the multiverse are complete; of the low-dimensional datasets some are left."""
    cells = {name: with_paper_cells(EXPERIMENTS[name].cells("full")) for name in (*TRAINED, "statistics")}
    known = {cell.id for some in cells.values() for cell in some}
    left_out = records["dataset"].isin(list(reasons_to_leave_out())) & (records["setting"] == "logistic")
    assert set(records.loc[~left_out, "id"]) <= known
    later = ("logistic-boundary", "synthetic@ours", "synthetic")
    for name in ("table4", "table5", "table6", "table8", "table9", "multiverse"):
        complete = {cell.id for cell in cells[name] if cell.setting not in later}
        assert complete <= set(records["id"])
    tables = records[~records["setting"].str.contains("@")]
    counts = tables.groupby(["setting", "dataset", "method", "alpha"])[["split", "seed"]].nunique()
    assert (counts <= [3, 5]).all(axis=None)


def test_records_have_the_current_fingerprints(all_records: pd.DataFrame) -> None:
    """Retrain a setting after an edit, unless the edit changes no number."""
    cells = (Cell(**fields) for fields in all_records[list(PAPER_SCHEMA.fields)].to_dict("records"))
    assert [fingerprint_cell(cell) for cell in cells] == all_records["fingerprint"].tolist()


def test_records_of_images_and_genmix_are_cells_of_a_budget(all_records: pd.DataFrame) -> None:
    known = {
        cell.id
        for name in ("table7", *GENMIX)
        for budget in BUDGETS
        for cell in (*EXPERIMENTS[name].cells(budget), *EXPERIMENTS[name].further(budget))
    }
    assert set(all_records.loc[all_records["setting"].isin(PARTIAL_SETTINGS), "id"]) <= known


@pytest.mark.parametrize("name", ["table1", "table4", "table5", "table6", "table8", "table9"])
def test_every_printed_value_of_an_available_dataset_has_ours(name: str, renderings: dict[str, Rendering]) -> None:
    grid = renderings[name].grids[0]
    for title, row in grid.rows:
        if "not printed" in title:
            continue
        for dataset, value in zip(grid.columns, row, strict=True):
            assert value.paper is not None
            assert (value.ours is None) == (dataset in UNAVAILABLE)
            assert value.ours is None or (value.ours.splits, value.ours.seeds) == (3, 5)


def test_records_have_the_regions_of_figure_6(renderings: dict[str, Rendering]) -> None:
    assert len(renderings["figure6"].figures) == 1


@pytest.fixture(scope="module")
def entries(all_records: pd.DataFrame) -> list[Entry]:
    return read_entries(all_records, list(EXPERIMENTS.values()))


def test_readme_and_page_count_the_statements_of_the_report(entries: list[Entry], page: str) -> None:
    counts = count_statements(entries)
    total = {sum(one.values()) for one in counts.values()}
    assert len(total) == 1
    own, last = (describe_counts(counts[one.key]) for one in PROTOCOLS)
    sentence = f"Of the paper's {total.pop()} statements, {own} under its own protocol; {last} under that of the"
    for text in (page, words_of("README.md")):
        assert f"{sentence} last epoch" in text


def test_page_has_the_verdicts_of_the_tables(entries: list[Entry], page: str) -> None:
    """A line of the page for each table: the numbers of its statements under both protocols."""
    for entry in entries:
        if entry.differs and entry.experiment.id != "statistics":
            counts = [count_verdicts(entry.renderings[one.key].claims) for one in PROTOCOLS]
            cells = [f"{one['holds']}, {one['fails']}, {one['cannot be told']}, {one['not run']}" for one in counts]
            assert f"| {entry.experiment.name.lower()} | {' | '.join(cells)} |" in page


def test_page_has_the_counts_of_agreeing_values(entries: list[Entry], page: str) -> None:
    for protocol in PROTOCOLS:
        counts: Counter[str] = Counter()
        for entry in entries:
            if entry.experiment.id in TABLES:
                for grid in entry.renderings[protocol.key].grids:
                    counts.update(count_agreements(grid))
        measured = sum(counts.values()) - counts["missing"]
        numbers = [measured, counts["agrees"], counts["near"], counts["differs"]]
        assert f"| {protocol.title} | {' | '.join(map(str, numbers))} |" in page


@pytest.mark.parametrize("rival", ["vanilla", "adamixup", "mixup", "mixup-exclude-mi", "generative-gm"])
def test_page_has_the_shares_of_table_3(rival: str, records: pd.DataFrame, page: str) -> None:
    sets = [name for name in well_fitted_datasets(records) if name in low_dimensional_datasets()]
    assert f"{len(sets)} of the {records_of_table_3(records)} datasets run so far" in page
    higher, _, lower = count_wins(
        paired_gains(select_records(records, "logistic"), "genlabel-cv", rival, sets), TIE_WIDTH
    ).percent
    assert re.search(rf"\| \W*{higher:.1f} %, {lower:.1f} %", page)
    sentence = f"higher on {higher:.1f} % of the sets, lower on {lower:.1f} %"
    assert rival != "vanilla" or sentence in words_of("docs", "choosing.md")


def records_of_table_3(records: pd.DataFrame) -> int:
    """Return the number of low-dimensional datasets with records of GenLabel (CV)."""
    chosen = select_records(records, "logistic")
    chosen = chosen[chosen["method"] == "genlabel-cv"]
    return len(set(chosen["dataset"]) & set(low_dimensional_datasets()))


def test_page_has_the_mean_ranks(records: pd.DataFrame, page: str) -> None:
    ranks = study_means(records).rank(axis=1, ascending=False).mean()
    for name, words in {"vanilla": "vanilla", "adamixup": "AdaMixup", "mixup": "mixup"}.items():
        assert f"{words} {ranks[name]:.2f}" in page
    assert f"{TITLES['genlabel-cv'].removeprefix('Mixup + ')} {ranks['genlabel-cv']:.2f}" in page


def test_majority_class_is_as_robust_as_the_printed_genlabel_of_table_9() -> None:
    """Check the first remark of the page on the printed numbers."""
    sets = [name for method, name in TABLE9 if method == "genlabel-gm" and name not in UNAVAILABLE]
    assert len(sets) == 12
    assert all(manifest().loc[name, "largest"] >= TABLE9["genlabel-gm", name].mean for name in sets)
    assert manifest().loc["312", "largest"] == TABLE9["genlabel-gm", "312"].mean == 82.09

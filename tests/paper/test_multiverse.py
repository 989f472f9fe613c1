"""Multiverse: selection rules against brute force, single readings, and docs/multiverse.md against the records."""

import os
import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone

from genlabel.data.datasets.catalog import DATA_HOME
from genlabel_paper.experiments.multiverse import EXPERIMENT, agreements, mean_agreement, printed_tables
from genlabel_paper.exports import load_records
from genlabel_paper.report.results import Rendering
from genlabel_paper.report.universes import MeanSpread, ReadingScores, Universe, nearness, true_statements, universes
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell, in_percent, join_reading, split_reading
from genlabel_paper.runs.data import load_split
from genlabel_paper.runs.learning_curves import LearningCurves
from genlabel_paper.runs.multiverse import apply_selection_rules
from genlabel_paper.runs.readings import BASES, OURS, READINGS, SELECTION_RULES, has_text
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import fingerprint_cell, run_trial

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "paper"
DATA = Path(os.environ.get(DATA_HOME) or ROOT.parent / "shared" / "data" / "openml_mirror")
needs_data = pytest.mark.skipif(not (DATA / "openml").exists(), reason="needs the OpenML sets")
needs_records = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")
TABLES = {table.id: table for table in printed_tables()}


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    frame = in_percent(load_records(RECORDS, PAPER_SCHEMA).frame)
    return frame[frame["setting"].isin([*BASES]) | frame["setting"].str.contains("@")]


@pytest.fixture(scope="module")
def agreement_by_universe(records: pd.DataFrame) -> dict:
    return agreements(ReadingScores(records))


@pytest.fixture(scope="module")
def rendering(records: pd.DataFrame) -> Rendering:
    return EXPERIMENT.render(records)


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "multiverse.md").read_text()


def random_curves(rng: np.random.Generator, epochs: int, folds: int, candidates: int) -> LearningCurves:
    """Return learning curves with many ties in accuracy."""
    valid, test_of_fold, test_of_all = (
        np.stack([rng.integers(0, 5, shape) / 5, -rng.random(shape)], -1)
        for shape in ((epochs, folds, candidates), (epochs, candidates), (epochs, candidates))
    )
    params = [{"learning_rate": 0.1, "gamma": float(c)} for c in range(candidates)]
    return LearningCurves(params, list(range(1, epochs + 1)), valid, test_of_fold, test_of_all)


@pytest.mark.parametrize("seed", range(20))
def test_selection_rules_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = random_curves(rng, *rng.integers(1, 6, 3))
    epochs, folds, candidates = curves.valid.shape[:3]
    is_allowed = rng.random(candidates) < 0.6
    is_allowed[rng.integers(candidates)] = True
    allowed = [c for c in range(candidates) if is_allowed[c]]
    best_epochs = {
        (f, c): max(range(epochs), key=lambda e: (*curves.valid[e, f, c].round(12), -e))
        for f, c in product(range(folds), allowed)
    }
    last = max(allowed, key=lambda c: (curves.valid[-1, :, c, 0].mean().round(12), curves.valid[-1, :, c, 1].mean()))

    def at_best(c: int) -> tuple[float, float]:
        hits, losses = np.mean([curves.valid[best_epochs[f, c], f, c] for f in range(folds)], 0)
        return round(hits, 12), losses

    best = max(allowed, key=at_best)
    expected = {
        "last/cv": curves.test_of_all[-1, last, 0],
        "validation/cv": curves.test_of_fold[best_epochs[0, best], best, 0],
        "test/cv": curves.test_of_all[:, last, 0].max(),
        "last/test": max(curves.test_of_all[-1, c, 0] for c in allowed),
        "validation/test": max(curves.test_of_fold[best_epochs[0, c], c, 0] for c in allowed),
        "test/test": max(curves.test_of_all[:, c, 0].max() for c in allowed),
    }
    params, metrics = apply_selection_rules(curves, is_allowed.tolist())
    assert metrics == pytest.approx(expected)
    assert params["gamma"] == last


def test_every_reading_changes_only_its_parameter() -> None:
    fingerprints = {}
    for base, reading in product(BASES, READINGS.values()):
        name, dataset = join_reading(base, reading.name), "circle" if base == "synthetic" else "1006"
        if name in SETTINGS:
            for method, alpha in SETTINGS[name].variants(dataset):
                assert reading.changes(dataset, method)
                fingerprints[name, method] = fingerprint_cell(Cell(name, dataset, method, 0, 0, alpha))
    assert len(set(fingerprints.values())) == len(fingerprints)
    datasets = {base: "circle" if base == "synthetic" else "1006" for base in BASES}
    searches = [(datasets[base], search) for base in BASES for search in SETTINGS[base].searches]
    for model in [search.make(min(search.datasets or [dataset]), 0) for dataset, search in searches]:
        for reading in READINGS.values():
            changed = {
                key
                for key, value in reading.apply(model).get_params(deep=False).items()
                if repr(value) != repr(model.get_params(deep=False)[key])
            }
            parameters = {
                "standardize",
                "training",
                "priors",
                "density",
                "mixer",
                "clean_fraction",
                "alternating",
                "labeler",
            }
            assert changed <= parameters | {"lam_per"}
            assert len(changed) <= 1
    assert repr(OURS.apply(model)) == repr(clone(model))


@needs_data
def test_datasets_with_text_are_those_that_codes_change() -> None:
    sets = {cell.dataset for cell in EXPERIMENT.cells("quick") if cell.dataset.isdigit()}
    assert {"61", "1006", "40710"} <= sets
    for dataset in ("1006", "61", "40710"):
        plain, codes = (load_split(dataset, 0, DATA, text=text) for text in ("one-hot", "codes"))
        assert (plain.X.shape != codes.X.shape) is has_text(dataset)
        np.testing.assert_array_equal(plain.y, codes.y)
    scaled = load_split("61", 0, DATA, scale="min-max").X
    assert (scaled.min(0) == 0).all()
    assert np.allclose(scaled.max(0), 1)
    assert len(load_split("61", 0, DATA, test_size=0.2).X_test) == 30


@needs_data
@pytest.mark.parametrize(("setting", "dataset"), [("logistic", "61"), ("synthetic", "cube-2d")])
def test_our_reading_and_rule_give_the_table(setting: str, dataset: str) -> None:
    ours = run_trial([Cell(join_reading(setting, "ours"), dataset, "mixup", 0, 0)], DATA)[0]
    table = run_trial([Cell(setting, dataset, "mixup", 0, 0)], DATA)[0]
    assert ours["metrics"]["last/cv"] == pytest.approx(table["metrics"]["accuracy"])
    assert ours["parameters"]["learning_rate"] == table["parameters"]["learning_rate"]


@needs_data
@pytest.mark.long
def test_diverging_twin_leaves_mixup_unchanged() -> None:
    cells = [Cell("mlp-robust@together", "1043", method, 0, 1) for method in ("mixup", "genlabel-gm")]
    mixup, genlabel = run_trial(cells, DATA)
    assert set(genlabel["metrics"].values()) == {0.0}
    assert mixup["metrics"]["test/cv"] > 0.0


def test_nearness_equals_scipy() -> None:
    table, rng = TABLES["table4"], np.random.default_rng(0)
    means = {
        (d, m): MeanSpread(paper.mean + rng.normal(0, 3), rng.uniform(0, 3)) for (m, d), paper in table.paper.items()
    }
    result = nearness(means, table)
    ranks, differences, within = [], [], []
    for dataset in table.datasets:
        pairs = [(means[dataset, m].mean, table.paper[m, dataset].mean) for m in table.methods]
        ranks.append(spearmanr(*zip(*pairs, strict=True)).statistic)
    for (dataset, method), ours in means.items():
        paper = table.paper[method, dataset]
        differences.append(abs(ours.mean - paper.mean))
        within.append(differences[-1] <= max((ours.spread**2 + paper.spread**2) ** 0.5, 0.5))
    assert result.ranks == pytest.approx(np.mean(ranks))
    assert result.median == pytest.approx(np.median(differences))
    assert result.within == pytest.approx(100 * np.mean(within))
    printed = nearness({(d, m): MeanSpread(value.mean, 0.0) for (m, d), value in table.paper.items()}, table)
    assert printed[:3] == (100.0, 0.0, pytest.approx(1.0))


@needs_records
def test_every_table_has_at_least_twelve_readings(records: pd.DataFrame) -> None:
    counts = records.groupby(["setting", "dataset", "method"])[["split", "seed"]].nunique()
    readings = counts[counts.index.get_level_values(0).str.contains("@")]
    assert (readings <= 3).all(axis=None)
    for table in TABLES.values():
        names = {
            split_reading(setting)[1]
            for setting, dataset, method in readings.index
            if split_reading(setting)[0] in table.settings and (method, dataset) in table.paper
        }
        assert names >= {"ours", "share", "codes", "min-max", "raw", "lam", "clean", "pairs", "together"}
        different = {
            universe.reading.name if universe.rule == SELECTION_RULES[0] else universe
            for universe in universes()
            if universe.split is None
        }
        assert len({one for one in different if not isinstance(one, str) or one in names}) >= 12


@needs_records
def test_our_reading_agrees_with_the_table_records(records: pd.DataFrame, page: str) -> None:
    keys, same, total = ["dataset", "method", "split", "seed"], 0, 0
    for base in BASES:
        ours = records[records["setting"] == join_reading(base, "ours")].set_index(keys)["last/cv"]
        metric = "robust_accuracy" if "robust" in base else "accuracy"
        table = records[(records["setting"] == base) & (records["alpha"] == 1.0)].set_index(keys)[metric]
        differences = (ours - table.reindex(ours.index)).abs()
        same, total = same + int((differences < 0.01).sum()), total + len(differences)
        assert differences.notna().all()
    assert f"Of {total:,} cells of our reading, which were trained again, {same:,} have" in " ".join(page.split())


@needs_records
def test_readings_with_the_highest_agreement(agreement_by_universe: dict) -> None:
    share = {
        universe.reading.name: mean_agreement(line)
        for universe, line in agreement_by_universe.items()
        if universe.rule == SELECTION_RULES[0]
    }
    assert share["share"] > share["ours"]
    assert share["codes"] > share["ours"]
    assert share["raw"] > max(share["ours"], share["min-max"])


@needs_records
def test_page_has_every_reading(agreement_by_universe: dict, page: str) -> None:
    for universe, line in agreement_by_universe.items():
        near = list(line.values())
        means = [np.nanmean([getattr(one, name) for one in near]) for name in ("median", "ranks")]
        cells = [
            *(f"{one.within:.0f}" for one in near),
            f"{mean_agreement(line):.0f}",
            f"{means[0]:.1f}",
            f"{means[1]:.2f}",
            f"{np.nansum([one.holds for one in near]):.0f}",
        ]
        assert f"| {universe.title} | {' | '.join(cells)} |" in page
    assert sum(len(table.checks) for table in TABLES.values()) == 19


@needs_records
def test_page_has_the_gains_and_table_9(records: pd.DataFrame, rendering: Rendering, page: str) -> None:
    for grid in rendering.grids[4:8]:
        table = re.search(r"table (\d)", grid.title)[1]
        for column, title in enumerate(grid.columns):
            name = "ours" if title.startswith("ours") else title
            ours = [None if row[column].ours is None else row[column].ours.mean for _, row in grid.rows]
            line = next(line for line in page.splitlines() if line.startswith(f"| {name} | {table} |"))
            cells = [float(cell) if cell.strip() else None for cell in line.strip("|").split("|")[2:]]
            assert all((a is None) == (b is None) for a, b in zip(ours, cells, strict=True))
            assert [a for a in cells if a is not None] == pytest.approx([b for b in ours if b is not None], abs=0.0501)
    scores, text = ReadingScores(records), " ".join(page.split())
    best = scores.of(TABLES["table9"], Universe(rule=SELECTION_RULES[1]))
    last = scores.of(TABLES["table9"], Universe())
    for means, method in ((best, "genlabel-gm"), (last, "genlabel-gm"), (best, "mixup")):
        a, b, c = (f"{means[dataset, method].mean:.1f}" for dataset in ("797", "866", "718"))
        assert f"{a}, {b} and {c}" in text


@needs_records
def test_page_has_the_counts_of_table_9(records: pd.DataFrame, page: str) -> None:
    table, scores = TABLES["table9"], ReadingScores(records)
    rules = {
        "ours": SELECTION_RULES[0],
        "best epoch on validation rows": SELECTION_RULES[1],
        "best epoch and candidate on TEST rows": SELECTION_RULES[5],
    }
    for title, rule in rules.items():
        means = scores.of(table, Universe(rule=rule))
        counts = []
        for method in table.methods:
            pairs = [(means[dataset, method], table.paper[method, dataset]) for dataset in table.datasets]
            joint = [max(np.hypot(ours.spread, paper.spread), 0.5) for ours, paper in pairs]
            counts.append(sum(abs(o.mean - p.mean) <= j for (o, p), j in zip(pairs, joint, strict=True)))
        assert f"| {title} | {' | '.join(map(str, counts))} |" in page


@needs_records
def test_page_has_the_statements_that_hold_with_test_rows(
    records: pd.DataFrame, rendering: Rendering, page: str
) -> None:
    scores = ReadingScores(records)
    counts = {
        name: len(true_statements(scores.of(table, Universe(rule=SELECTION_RULES[5])), table))
        for name, table in TABLES.items()
    }
    assert counts == {"table1": 0, "table4": 4, "table5": 1, "table6": 0, "table8": 1, "table9": 0}
    assert "six of the 19 statements hold" in " ".join(page.split())
    for grid in rendering.grids[8:]:
        assert all(value.paper is None for _, row in grid.rows for value in row)

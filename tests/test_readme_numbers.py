"""Every measured number of README and of the two start pages is computed from a record here and searched for there.

A number is declared with the words around it. The rest of a page, without code and settings, must have no digit: no
number stands on these pages that is not computed.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from genlabel_paper.benchmark import count_worse_than_prior, dataset_means, wins
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.exports import load_records
from genlabel_paper.runs.cells import PAPER_SCHEMA, in_percent

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
README, START, WHICH = "README.md", "docs/index.md", "docs/choosing.md"
pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="needs the source tree")


@cache
def plain(name: str) -> Any:
    """Read a record in plain JSON."""
    return json.loads((RESULTS / f"{name}.json").read_text())


@cache
def benchmark(name: str = "benchmark") -> pd.DataFrame:
    return load_records(RESULTS / f"{name}.json", BENCHMARK).frame


@cache
def images(setting: str) -> pd.DataFrame:
    """Return mean and standard deviation over the seeds, by method."""
    records = in_percent(load_records(RESULTS / "paper" / f"{setting}.json", PAPER_SCHEMA).frame)
    score = "robust_accuracy" if "robust" in setting else "accuracy"
    assert (records.groupby("method")["seed"].nunique() == 3).all()
    return records.groupby("method")[score].agg(["mean", "std"])


def spread(setting: str, digits: int, *methods: str) -> tuple[str, ...]:
    """Format mean and standard deviation of each method as "24.9 ± 6.9"."""
    scores = images(setting)
    return tuple(f"{scores['mean'][method]:.{digits}f} ± {scores['std'][method]:.{digits}f}" for method in methods)


def mean(score: str, *methods: str) -> tuple[float, ...]:
    means = dataset_means(benchmark(), score).mean()
    return tuple(means[method] for method in methods)


def seconds(*methods: str) -> tuple[str, ...]:
    median = benchmark().groupby("method")["seconds"].median()
    return tuple(f"{median[method]:.2g}" for method in methods)


def counts(other: str) -> tuple[int, int]:
    """Count the datasets on which the default has the lower and the higher log-loss."""
    result = wins(benchmark(), "default", other, "log_loss")
    return result.better, result.worse


def shares(other: str, records: pd.DataFrame | None = None) -> tuple[float, float]:
    """Return the counts in percent of all datasets or of those in `records`."""
    result = wins(benchmark() if records is None else records, "default", other, "log_loss")
    return 100 * result.better / result.sets, 100 * result.worse / result.sets


def never_mixed() -> tuple[float]:
    records = benchmark()
    chosen = records.loc[records["method"] == "default", "parameters"]
    return (100 * float(np.mean([params["clean_fraction"] == 1 for params in chosen])),)


@cache
def accidents() -> pd.DataFrame:
    """Count fits worse than the prior in fifteen splits: a row for each dataset, a column for each method."""
    sets = plain("accidents")["sets"].values()
    methods = ("default", "vanilla", "mixup", "stacked density")
    rows = [
        {method: int((np.array(dataset[method]) > 1.1 * np.array(dataset["shares"])).sum()) for method in methods}
        for dataset in sets
    ]
    return pd.DataFrame(rows, index=[dataset["name"] for dataset in sets])


def fits_of_accidents() -> int:
    record = plain("accidents")
    return len(record["sets"]) * len(record["seeds"])


def accidents_of_both() -> tuple[int, int]:
    total = accidents().sum()
    assert total["default"] == total["vanilla"]  # "as many as vanilla"
    assert len(plain("accidents")["seeds"]) == 15
    return int(total["default"]), fits_of_accidents()


def accidents_of_one_set() -> tuple[str, str, int, str, int]:
    words = {4: "Four", 6: "six"}
    counts_of_default = accidents()["default"]
    name = str(counts_of_default.idxmax())
    n = next(dataset["n"] for dataset in plain("accidents")["sets"].values() if dataset["name"] == name)
    return words[int(counts_of_default.max())], words[int(counts_of_default.sum())], fits_of_accidents(), name, n


def step_ratio() -> tuple[float]:
    """Return the step ratio of the first run of the library's own loop."""
    return (next(run for run in plain("images-speed")["runs"] if run["door"] == "loop")["step_ratio"]["near"],)


def cost_ratio(*sizes: str) -> tuple[float, ...]:
    record = plain("cost")
    return tuple(record[size]["default"]["seconds"] / record[size]["boosting"]["seconds"] for size in sizes)


def cost_over_catboost() -> tuple[float]:
    means = dataset_means(benchmark(), "seconds")
    return (float((means["default"] / means["catboost"]).median()),)


def two_circle(*names: str) -> tuple[float, ...]:
    densities = plain("densities")["two-circle"]
    return tuple(100 * float(np.mean([run["accuracy"] for run in densities[name]])) for name in names)


def soft_labels() -> tuple[int, float]:
    """Return the number of datasets and the cost; assert that GenMix gains nothing, as the page states."""
    tables = plain("soft-labels")["tables"]
    for model, rows in tables.items():
        for kind in ("GenMix", "GenMix, any lam"):
            row = rows[f"{model} + {kind}"]
            assert row["log-loss"] > rows[model]["log-loss"] or row["log_loss: p"] > 0.05
            assert model != "forest" or (row["log_loss: p"] < 0.05 and row["log-loss"] > rows[model]["log-loss"])
    boosting = tables["boosting"]["boosting + GenMix, any lam"]
    return int(boosting["sets"]), boosting["times the seconds (median)"]


class Figure(NamedTuple):
    """A sentence with placeholders for numbers, the pages that have it, and the function that computes the numbers."""

    pages: tuple[str, ...]
    words: str
    values: Callable[[], tuple[Any, ...]]


ROBUST = ("images-robust-50", 1)
FIGURES = [
    Figure((README, START, WHICH), "{} OpenML sets", lambda: (benchmark()["dataset"].nunique(),)),
    Figure((README,), "of {} fits", lambda: (int((benchmark()["method"] == "default").sum()),)),
    Figure(
        (README,), "On {1:.0f} % of the sets the default has a higher log-loss than vanilla", lambda: shares("vanilla")
    ),
    Figure((README,), "{} accidents in {:,} fits, as many as vanilla", accidents_of_both),
    Figure((README,), "prefers to mix nothing in {:.0f} % of the fits", never_mixed),
    Figure(
        (README, WHICH),
        "mixup falls to {} %, with GenLabel to {} %",
        lambda: spread(*ROBUST, "mixup", "mixup-genlabel"),
    ),
    Figure((README, WHICH), "vanilla training has {} %", lambda: spread(*ROBUST, "vanilla")),
    Figure((README, WHICH), "A step takes {:.2f} times as long as mixup's", step_ratio),
    Figure((START,), "training on {} and the higher on {}", lambda: counts("vanilla")),
    Figure((START,), "than CatBoost as it comes on {} and {}", lambda: counts("catboost")),
    Figure((START,), "at {:.1f} times CatBoost's cost", cost_over_catboost),
    Figure((START,), "{} accidents in {:,} further fits, as many as vanilla", accidents_of_both),
    Figure(
        (WHICH,),
        "mean log-loss is {:.3f}, beside {:.3f} of vanilla networks and {:.3f} of CatBoost",
        lambda: mean("log_loss", "default", "vanilla", "catboost"),
    ),
    Figure(
        (WHICH,), "accuracy {:.1f}, {:.1f} and {:.1f} %", lambda: mean("accuracy", "default", "vanilla", "catboost")
    ),
    Figure(
        (WHICH,),
        "it beats tuned vanilla training on {:.0f} % of the sets, and loses on {:.0f} %",
        lambda: shares("vanilla", benchmark()[benchmark()["k"] > 2]),
    ),
    Figure(
        (WHICH,),
        "a fit takes {} s where boosting takes {} s and LightGBM {} s",
        lambda: seconds("default", "boosting", "lightgbm"),
    ),
    Figure((WHICH,), "chose to mix nothing in {:.0f} % of the fits", never_mixed),
    Figure(
        (WHICH,),
        "Below 300 rows CatBoost has the lower log-loss on {1:.0f} % of the sets",
        lambda: shares("catboost", benchmark()[benchmark()["n"] < 300]),
    ),
    Figure(
        (WHICH,),
        "at 100,000 rows of 10 and 20 columns a fit takes {:.1f} and {:.1f} times one of boosting",
        lambda: cost_ratio("100000x10x3", "100000x20x2"),
    ),
    Figure((WHICH,), "{} of the {} accidents of the default in {:,} fits", lambda: accidents_of_one_set()[:3]),
    Figure((WHICH,), "{}, {} rows", lambda: accidents_of_one_set()[3:]),
    Figure((WHICH,), "on {} tables it lowered", lambda: soft_labels()[:1]),
    Figure((WHICH,), "boosting took {:.1f} times as long", lambda: soft_labels()[1:]),
    Figure(
        (WHICH,),
        "tells {:.0f} % of Two-circle right, a kernel of the right width {:.0f} %",
        lambda: two_circle("gaussian", "kernel-likelihood"),
    ),
    Figure(
        (WHICH,),
        "(manifold mixup {:.1f} and {:.1f} %)",
        lambda: tuple(images("images-robust-50")["mean"][["manifold", "manifold-genlabel"]]),
    ),
    Figure(
        (WHICH,),
        "mixup {} and {} % with GenLabel on MNIST",
        lambda: spread("images-clean-40", 2, "mixup", "mixup-genlabel"),
    ),
    Figure(
        (WHICH,), "{} and {} % on CIFAR-10, 30 epochs", lambda: spread("images-clean-30", 1, "mixup", "mixup-genlabel")
    ),
]

SETTINGS = {
    README: [
        "classes 1 and 3", "class 2", "arXiv 2201.02354", "Figure 6 of the paper", "Python (3.11 or later)",
        "at most 20 features, 100 to 2,000 rows", "more than 10 % above", "more than 0.002 nats", "Apache-2.0",
        "[table 7]", "Of the paper's 70 statements, 21 hold, 30 fail, 15 cannot be told and 4 were not run",
        "23 hold, 29 fail", "18 cannot be told",
        "genlabel 0.2.0", "timm 1.0.30", "torchvision 0.29.2", "OpenMixup 0.2.9", "imbalanced-learn 0.14.2",
        "CatBoost 1.2.10", "TabPFN 9.2.0", "beyond 5,000 rows",
    ],
    START: ["classes 1 and 3", "class 2", "Figure 6 of the paper", "Python (3.11 or later)"],
    WHICH: [
        "100 to 2,000 rows, up to 20 columns", "more than 10 % above", "Algorithm 3", "[table 7]",
        "cost 1.5 to 2.5 times the training of mixup, Gaussian ones 1.1 to 1.2 times (`code`)",
        "higher on 27.7 % of the sets, lower on 28.6 %",
    ],
}  # fmt: skip
"""Numbers that are settings or are computed elsewhere: statements and shares of the paper's tables in
tests/paper/test_results.py; ratios of `make bench` are printed next to the command and not saved."""


def prose(page: str) -> str:
    """Return a page as one line, without code, images and link targets."""
    text = re.sub(r"^```.*?^```$", " ", (ROOT / page).read_text(encoding="utf-8"), flags=re.S | re.M)
    text = re.sub(r"!\[.*?\]\(.*?\)|\$\$.*?\$\$", " ", re.sub(r"`[^`]+`", "`code`", text), flags=re.S)
    return " ".join(re.sub(r"\]\([^()]*\)", "]", text).split())


def table() -> list[str]:
    """Return the rows of README's table, computed from the records."""
    lines = dict[float, str]()
    for records, only in ((benchmark(), None), (benchmark("benchmark-networks"), ("tabm", "realmlp"))):
        accuracy, loss = (dataset_means(records, score).mean() for score in ("accuracy", "log_loss"))
        bad = count_worse_than_prior(records)
        for method in only or loss.index:
            low, high = (0.0, 0.0) if method == "default" else shares(method, records)
            last = "" if method == "default" else f"{low:.0f} ({high:.0f}) "
            time = "on a GPU" if only else seconds(method)[0]
            figures = f"{accuracy[method]:.2f} | {loss[method]:.4f} | {bad[method]} | {time}"
            lines[loss[method]] = f"| {method} | {figures} | {last}|"
    return [lines[loss] for loss in sorted(lines)]


@pytest.mark.parametrize("figure", FIGURES, ids=[figure.words[:50] for figure in FIGURES])
def test_number_equals_the_records(figure: Figure) -> None:
    sentence = figure.words.format(*figure.values())
    for page in figure.pages:
        assert sentence in prose(page), sentence


def test_table_of_the_readme_equals_the_records() -> None:
    text = (ROOT / README).read_text(encoding="utf-8")
    start = text.index("| default |")
    assert text[start : text.index("\n\n", start)].splitlines() == table()


@pytest.mark.parametrize("page", SETTINGS)
def test_page_has_no_undeclared_number(page: str) -> None:
    text = prose(page)
    sentences = [figure.words.format(*figure.values()) for figure in FIGURES if page in figure.pages]
    for words in sorted([*sentences, *SETTINGS[page], *(table() if page == README else [])], key=len, reverse=True):
        assert words in text, words
        text = text.replace(words, " ")
    assert re.findall(r"\S*\d\S*", text) == []

"""Measure how often the verdict of a diagnosis is right, beside rules fitted on every second OpenML dataset.

    python benchmarks/diagnosis_verdict.py --json build/verdict.json
    python benchmarks/diagnosis_verdict.py --ids 61 187 54 1063 --json build/few.json
    python benchmarks/diagnosis_verdict.py --report results/verdict.json

Of each dataset 30 % of the rows are held out. `genlabel.diagnose` gets the others; then its three networks (no mixing,
mixing with mixup's labels, mixing with GenLabel's labels) are trained on all of these, and the held-out rows show which
has the lower log-loss. There are two questions: do GenLabel's labels do better than no mixing, and do mixup's? Rules
are fitted on the datasets at positions 1, 3, 5, ... of the list and tested on those at positions 2, 4, 6, ...: always
the more frequent answer (the trivial rule); the sign of the paired run; one signal of the diagnosis with one threshold;
logistic regression on all signals. The verdict follows from the gains of the diagnosis with their 90 % intervals
(`choose_verdict`, applied to the signals of the records). It has nothing to fit, and is tested on all datasets but
those that were looked at while its rule was made. Its intervals had 95 % first; 90 % was chosen later, on these
datasets. With --families, datasets whose names begin alike (fri_c0_100_5, fri_c1_250_10) are on the same side.
Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME). An interrupted run continues.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from common import add_data_home, dataset_ids, make_parser, read_records, write_records
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import diagnose
from genlabel._runtime import one_thread
from genlabel.data.datasets import load_openml
from genlabel.data.tables import make_splits, table_pipeline
from genlabel.data.tables.table import drop_rare_classes
from genlabel.evaluation.diagnosis.density_check import MeanDifference
from genlabel.evaluation.diagnosis.diagnose import MAX_NEGLIGIBLE, choose_verdict
from genlabel.evaluation.diagnosis.diagnose import NEGLIGIBLE_GAIN as SAME
from genlabel.evaluation.diagnosis.paired_experiment import NO_MIXING, train_arms
from genlabel.evaluation.prediction_counts import Z_90, wilson_interval
from genlabel.metrics import MIN_PROBABILITY, index_labels

NAMES = ("mixup labels over no mixing", "GenLabel labels over no mixing", "GenLabel labels over mixup labels")
"""Gains in the order of the arguments of `choose_verdict`."""
QUESTIONS = {NAMES[1]: "do GenLabel's labels do better than no mixing?", NAMES[0]: "do mixup's labels?"}
ANSWERS = {NAMES[1]: {"GenLabel": True, NO_MIXING: False}, NAMES[0]: {"mixup": True, "not mixup": False}}
"""Answers of a verdict to each question; other verdicts give none."""
INSPECTED_IDS = (61, 62, 187, 448, 726, 736, 754, 782, 789, 829, 890, 1465)
"""Datasets that were looked at while the rule of the verdict was made."""
ALPHA, CLEAN_FRACTION = 0.3, 0.75
"""Defaults of `diagnose`."""

Values = NDArray[np.float64]
Rule = Callable[[Values], NDArray[np.bool_]]


def measure(number: int, home: Path | None, seed: int) -> dict[str, Any]:
    """Diagnose the training rows of a dataset and measure the networks on its test rows; an error is the record."""
    start = perf_counter()
    try:
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"id": number, **_measure(number, home, seed), "seconds": round(perf_counter() - start, 1)}
    except Exception as error:
        return {"id": number, "error": f"{type(error).__name__}: {error}"}


def _measure(number: int, home: Path | None, seed: int) -> dict[str, Any]:
    table = drop_rare_classes(load_openml(number, data_home=home))
    train, test = make_splits(table, 1, 0.3, seed)[0]
    columns = table_pipeline(table.X, "passthrough").fit(table.X.iloc[train])
    X, X_test = (np.asarray(columns.transform(table.X.iloc[rows]), dtype=np.float64) for rows in (train, test))
    y = table.y.iloc[train].to_numpy()
    begin = perf_counter()
    result = diagnose(X, y, random_state=seed)
    diagnosis_seconds = perf_counter() - begin
    arms = train_arms(X, y, ALPHA, CLEAN_FRACTION, seed)
    truth = index_labels(table.y.iloc[test], arms[NO_MIXING].classes_)
    losses = {
        name: -np.maximum(arm.predict_log_proba(X_test), np.log(MIN_PROBABILITY))[np.arange(len(truth)), truth]
        for name, arm in arms.items()
    }
    return {
        "name": table.name,
        "n": len(X),
        "d": X.shape[1],
        "k": int(table.y.nunique()),
        "trusted": result.density_check.trusted,
        "diagnosis seconds": round(diagnosis_seconds, 1),
        "signals": {name: _round(value) for name, value in result.signals.items()},
        "test log-loss": {name: _round(loss.mean()) for name, loss in losses.items()},
        "gains": {name: _gain(losses, name) for name in QUESTIONS},
    }


def _gain(losses: dict[str, Values], name: str) -> dict[str, float | None]:
    """Return the gain on the test rows, and its standard error over them."""
    first, second = name.split(" over ")
    gain = losses[second] - losses[first]
    return {"mean": _round(gain.mean()), "error": _round(gain.std(ddof=1) / np.sqrt(len(gain)))}


def _round(value: Any) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def report(records: list[dict[str, Any]], families: bool = False) -> str:
    """Return the hit rates, on datasets that no rule was fitted to."""
    failed = [record for record in records if "error" in record]
    known = [record for record in records if "error" not in record]
    words = pd.Series([verdict(record) for record in known]).value_counts()
    times = [record["diagnosis seconds"] for record in known]
    lines = [
        f"{len(known)} datasets, {len(failed)} failed; a diagnosis took {np.median(times):.0f} s (median)",
        *(f"  failed: {record['id']}: {record['error']}" for record in failed),
        f"verdicts: {', '.join(f'{word} {count}' for word, count in words.items())}",
    ]
    lines += list(_negligible_lines(known))
    for question in QUESTIONS:
        lines += ["", *_answer_lines(question, known, families)]
    return "\n".join(lines)


def verdict(record: dict[str, Any]) -> str:
    """Return the word of the verdict that follows from the signals of a record."""
    gains = []
    for name in NAMES:
        mean, errors = record["signals"][name], record["signals"][f"{name}, in standard errors"]
        half_width = Z_90 * abs(mean / errors) if errors else float("inf")
        gains.append(MeanDifference(mean, mean - half_width, mean + half_width))
    return choose_verdict(*gains, trusted=record["trusted"])


def _negligible_lines(known: list[dict[str, Any]]) -> Iterator[str]:
    """Yield how often the gains on the test rows are as small as a verdict "negligible" says."""
    records = [record for record in known if verdict(record) == "negligible"]
    if records:
        gains = [[record["gains"][name] for name in QUESTIONS] for record in records]
        within = [all(abs(gain["mean"]) <= MAX_NEGLIGIBLE for gain in pair) for pair in gains]
        clear = [any(abs(gain["mean"]) - 2.0 * gain["error"] > MAX_NEGLIGIBLE for gain in pair) for pair in gains]
        yield f"negligible: both gains on the test rows are within {MAX_NEGLIGIBLE} on {_share(np.array(within))}"
        yield f"  beyond it by more than two standard errors on {sum(clear)}"


def _answer_lines(question: str, known: list[dict[str, Any]], families: bool) -> Iterator[str]:
    trusted = [record for record in known if record["trusted"]]
    untrusted = [record for record in known if not record["trusted"]]
    yield f"{question}: {QUESTIONS[question]} (log-loss of test rows)"
    for name, group in (("trusted", trusted), ("not trusted", untrusted)):
        gains = np.array([record["gains"][question]["mean"] for record in group])
        if len(gains):
            better, equal, worse = (gains > SAME).sum(), (np.abs(gains) <= SAME).sum(), (gains < -SAME).sum()
            counts = f"better on {better}, within {SAME} on {equal}, worse on {worse}"
            yield f"  {name}: {counts}; mean {gains.mean():+.4f}"
    others = [record for record in known if record["id"] not in INSPECTED_IDS]
    if others:
        yield f"  the verdict on {len(others)} datasets, without {len(known) - len(others)} inspected before:"
        yield from _verdict_lines(question, others)
    sides = _sides(known, families)
    fitting, tested = ([record for record in trusted if sides[record["id"]] == side] for side in (0, 1))
    if len(fitting) < 4 or not tested:
        yield "  too few datasets to fit a rule"
        return
    yield f"  rules fitted on {len(fitting)} datasets, tested on {len(tested)}:"
    for name, hits, clear in _hits(question, fitting, tested):
        yield _line(name, hits, clear)


def _verdict_lines(question: str, records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield how often the verdict is right where it answers, and the trivial rule on the same datasets."""
    answers = [ANSWERS[question].get(verdict(record)) for record in records]
    has_answer = np.array([answer is not None for answer in answers])
    truth, clear = _truth(records, question), _clear(records, question)
    right = np.array([answer == correct for answer, correct in zip(answers, truth, strict=True)])
    majority = bool(truth.mean() >= 0.5)
    yield _line("where it answers", right[has_answer], right[has_answer & clear])
    trivial = truth == majority
    yield _line(f"always {'yes' if majority else 'no'}, there", trivial[has_answer], trivial[has_answer & clear])


def _line(name: str, hits: NDArray[np.bool_], clear: NDArray[np.bool_]) -> str:
    return f"    {name:46} right on {_share(hits)}; where the test rows are clear, on {_share(clear)}"


def _sides(known: list[dict[str, Any]], families: bool) -> dict[int, int]:
    """Return for each dataset 0 if rules are fitted on it, 1 if they are tested on it: in turn."""
    names = [r["name"].replace("-", "_").split("_")[0].lower() if families else r["id"] for r in known]
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return {record["id"]: index[name] % 2 for record, name in zip(known, names, strict=True)}


def _hits(
    question: str, fitting: list[dict[str, Any]], tested: list[dict[str, Any]]
) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield the name of each rule, whether it is right on each dataset, and on those whose gain is beyond the noise."""
    X, y = _signals(fitting), _truth(fitting, question)
    medians = dict(zip(X, np.nan_to_num(np.nanmedian(X.to_numpy(), axis=0)), strict=True))
    X, X_tested = X.fillna(medians), _signals(tested).fillna(medians)
    truth, clear = _truth(tested, question), _clear(tested, question)
    stump, description = _stump(X, y)
    answers: dict[str, NDArray[np.bool_]] = {
        f"always {'yes' if y.mean() >= 0.5 else 'no'} (trivial)": np.full(len(tested), y.mean() >= 0.5),
        "sign of the paired run": X_tested[question].to_numpy() > 0.0,
        f"one threshold: {description}": stump(X_tested.to_numpy()),
        "logistic regression on all signals": _logistic(X.to_numpy(), y)(X_tested.to_numpy()),
    }
    for name, answer in answers.items():
        yield name, answer == truth, (answer == truth)[clear]


def _signals(records: list[dict[str, Any]]) -> pd.DataFrame:
    sizes = [{f"log {name}": np.log(record[name]) for name in ("n", "d", "k")} for record in records]
    rows = [{**record["signals"], **size} for record, size in zip(records, sizes, strict=True)]
    return pd.DataFrame(rows).astype(float)


def _truth(records: list[dict[str, Any]], question: str) -> NDArray[np.bool_]:
    return np.array([record["gains"][question]["mean"] > 0.0 for record in records])


def _clear(records: list[dict[str, Any]], question: str) -> NDArray[np.bool_]:
    """Return which datasets have a gain beyond two standard errors, and a noticeable one."""
    gains = [record["gains"][question] for record in records]
    return np.array([abs(gain["mean"]) > max(SAME, 2.0 * gain["error"]) for gain in gains])


def _stump(X: pd.DataFrame, y: NDArray[np.bool_]) -> tuple[Rule, str]:
    """Return the rule of the signal, threshold and side that is right most often, or the trivial rule."""
    majority = bool(y.mean() >= 0.5)
    best, best_rule = float((y == majority).mean()), _always(majority)
    description = "none is better than the trivial rule"
    for index, name in enumerate(X):
        values = np.unique(X[name])
        for cut in (values[1:] + values[:-1]) / 2.0:
            for side in (True, False):
                rule = partial(_is_beyond, index, cut, side)
                right = float((rule(X.to_numpy()) == y).mean())
                if right > best:
                    best, best_rule, description = right, rule, f"{name} {'above' if side else 'below'} {cut:.3g}"
    return best_rule, description


def _is_beyond(index: int, cut: float, side: bool, X: Values) -> NDArray[np.bool_]:
    return np.asarray((X[:, index] > cut) == side)


def _always(answer: bool) -> Rule:
    return lambda X: np.full(len(X), answer)


def _logistic(X: Values, y: NDArray[np.bool_]) -> Rule:
    """Return logistic regression with a cross-validated penalty; the majority if there are too few of the others."""
    if y.mean() in (0.0, 1.0) or min(y.sum(), (~y).sum()) < 3:
        return _always(bool(y.mean() >= 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=np.logspace(-3, 1, 9), cv=3, scoring="neg_log_loss", max_iter=2000)
        fitted = make_pipeline(StandardScaler(), model).fit(X, y)
    return lambda X: np.asarray(fitted.predict(X), dtype=bool)


def _share(hits: NDArray[np.bool_]) -> str:
    if not len(hits):
        return "0 of 0"
    low, high = wilson_interval(float(hits.mean()), len(hits))
    return f"{hits.sum()} of {len(hits)} ({100 * hits.mean():.0f} %, {100 * low:.0f} to {100 * high:.0f})"


def main() -> None:
    parser = make_parser(__doc__)
    add_data_home(parser)
    parser.add_argument("--ids", type=int, nargs="+", help="OpenML ids; default: all of the manifest in the limits")
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits, the diagnosis and the networks")
    parser.add_argument("--jobs", type=int, default=1, help="datasets at the same time")
    parser.add_argument("--families", action="store_true", help="datasets whose names begin alike are on the same side")
    parser.add_argument("--json", type=Path, help="write the records there; datasets that it holds are not repeated")
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    records = json.loads(args.report.read_text())["sets"] if args.report else run(args)
    print(f"\n{report(records, args.families)}")


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    limits = {"max_features": args.max_features, "min_rows": 100, "max_rows": args.max_rows}
    numbers = sorted(dict.fromkeys(args.ids or dataset_ids(args.data_home, **limits)))
    settings = {"seed": args.seed}
    records = {record["id"]: record for record in read_records(args.json, settings) if "error" not in record}
    calls = (delayed(measure)(number, args.data_home, args.seed) for number in numbers if number not in records)
    for index, record in enumerate(Parallel(n_jobs=args.jobs, return_as="generator_unordered")(calls)):
        records[record["id"]] = record
        outcome = record.get("error") or f"{record['name']}: {verdict(record)}, {record['seconds']} s"
        print(index + 1, record["id"], outcome, flush=True)
        write_records(args.json, settings, [records[number] for number in sorted(records)])
    return [records[number] for number in numbers]


if __name__ == "__main__":
    main()

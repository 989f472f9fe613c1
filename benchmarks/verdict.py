"""How often is the verdict of a diagnosis right? A rule fitted on every second OpenML set, asked on the others.

    python benchmarks/verdict.py --json build/verdict.json
    python benchmarks/verdict.py --datasets 61 187 54 1063 --json build/few.json
    python benchmarks/verdict.py --report results/verdict.json

Of each dataset 30 % of the rows are held out. `genlabel.diagnose` sees the others; then its three networks (vanilla,
mixup, GenLabel) are trained on all of these, and the held-out rows tell which has the lower log-loss. Two questions
are asked: does GenLabel do better than vanilla training, does mixup? Rules are fitted on the datasets in places 1, 3,
5, ... of the list and asked on those in places 2, 4, 6, ...: always the more frequent answer (the trivial rule); the
sign of the paired run; one signal of the diagnosis with one threshold; logistic regression on all signals. The verdict
as it is printed has nothing to fit, and is asked on all datasets but those that were looked at while its rule was
made. With --families, datasets whose names begin alike (fri_c0_100_5, fri_c1_250_10) are on the same side.
Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME). A run that was stopped continues.
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
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import diagnose
from genlabel._runtime import one_thread
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import openml_manifest
from genlabel.data.tables import make_splits, table_pipeline
from genlabel.data.tables.table import drop_rare_classes
from genlabel.evaluation.diagnosis.diagnose import NEGLIGIBLE_GAIN as SAME
from genlabel.evaluation.diagnosis.paired_experiment import train_arms
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel.metrics import MIN_PROBABILITY, index_labels
from genlabel_paper.benchmark.command import manifest_ids

QUESTIONS = {"GenLabel over vanilla": "does GenLabel do better than vanilla?", "mixup over vanilla": "does mixup?"}
YES = {
    "GenLabel over vanilla": {"GenLabel": True, "vanilla": False},
    "mixup over vanilla": {"mixup": True, "not mixup": False},
}
"""What a verdict says to each question; the others say nothing."""
SEEN = (61, 62, 187, 448, 726, 736, 754, 782, 789, 829, 890, 1465)
"""Sets that were looked at while the rule of the verdict was made."""
ALPHA, CLEAN = 0.3, 0.75
"""Those of `diagnose`."""

Values = NDArray[np.float64]
Rule = Callable[[Values], NDArray[np.bool_]]


def measure(number: int, home: Path | None, seed: int) -> dict[str, Any]:
    """Diagnose the training rows of a dataset, and see on its test rows which arm does best; an error is on record."""
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
    took = perf_counter() - begin
    arms = train_arms(X, y, ALPHA, CLEAN, seed)
    truth = index_labels(table.y.iloc[test], arms["vanilla"].classes_)
    losses = {
        name: -np.maximum(arm.predict_log_proba(X_test), np.log(MIN_PROBABILITY))[np.arange(len(truth)), truth]
        for name, arm in arms.items()
    }
    return {
        "name": table.name,
        "n": len(X),
        "d": X.shape[1],
        "k": int(table.y.nunique()),
        "verdict": result.verdict.word,
        "diagnosis seconds": round(took, 1),
        "signals": {name: _short(value) for name, value in result.signals.items()},
        "test log-loss": {name: _short(loss.mean()) for name, loss in losses.items()},
        "gains": {name: _gain(losses, name) for name in QUESTIONS},
    }


def _gain(losses: dict[str, Values], name: str) -> dict[str, float | None]:
    """The gain on the test rows, and its standard error over them."""
    first, second = name.split(" over ")
    apart = losses[second] - losses[first]
    return {"mean": _short(apart.mean()), "error": _short(apart.std(ddof=1) / np.sqrt(len(apart)))}


def _short(value: Any) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def report(records: list[dict[str, Any]], families: bool = False) -> str:
    """The hit rates, on the datasets that no rule has seen."""
    failed = [record for record in records if "error" in record]
    known = [record for record in records if "error" not in record]
    words = pd.Series([record["verdict"] for record in known]).value_counts()
    took = [record["diagnosis seconds"] for record in known]
    lines = [
        f"{len(known)} datasets, {len(failed)} failed; a diagnosis took {np.median(took):.0f} s (median)",
        *(f"  failed: {record['id']}: {record['error']}" for record in failed),
        f"verdicts: {', '.join(f'{word} {count}' for word, count in words.items())}",
    ]
    for question in QUESTIONS:
        lines += ["", *_about(question, known, families)]
    return "\n".join(lines)


def _about(question: str, known: list[dict[str, Any]], families: bool) -> Iterator[str]:
    trusted = [record for record in known if record["verdict"] != "not trusted"]
    stopped = [record for record in known if record["verdict"] == "not trusted"]
    yield f"{question}: {QUESTIONS[question]} (log-loss of test rows)"
    for name, block in (("trusted", trusted), ("not trusted", stopped)):
        gains = np.array([record["gains"][question]["mean"] for record in block])
        if len(gains):
            blocks = (gains > SAME).sum(), (np.abs(gains) <= SAME).sum(), (gains < -SAME).sum()
            told = f"better on {blocks[0]}, within {SAME} on {blocks[1]}, worse on {blocks[2]}"
            yield f"  {name}: {told}; mean {gains.mean():+.4f}"
    others = [one for one in trusted if one["id"] not in SEEN]
    if others:
        yield f"  the verdict on {len(others)} trusted datasets, without {len(trusted) - len(others)} already seen:"
        yield from _verdict_lines(question, others)
    sides = _sides(known, families)
    fitting, args = ([one for one in trusted if sides[one["id"]] == side] for side in (0, 1))
    if len(fitting) < 4 or not args:
        yield "  too few datasets to fit a rule"
        return
    yield f"  rules fitted on {len(fitting)} datasets, asked on {len(args)}:"
    for name, hits, clear in _hits(question, fitting, args):
        yield _line(name, hits, clear)


def _verdict_lines(question: str, records: list[dict[str, Any]]) -> Iterator[str]:
    """How often the verdict is right where it answers, and how often the trivial rule is on the same datasets."""
    says = [YES[question].get(record["verdict"]) for record in records]
    speaks = np.array([answer is not None for answer in says])
    truth, clear = _truth(records, question), _clear(records, question)
    right = np.array([answer == one for answer, one in zip(says, truth, strict=True)])
    often = bool(truth.mean() >= 0.5)
    yield _line("where it answers", right[speaks], right[speaks & clear])
    yield _line(f"always {'yes' if often else 'no'}, there", (truth == often)[speaks], (truth == often)[speaks & clear])


def _line(name: str, hits: NDArray[np.bool_], clear: NDArray[np.bool_]) -> str:
    return f"    {name:46} right on {_share(hits)}; where the test rows are clear, on {_share(clear)}"


def _sides(known: list[dict[str, Any]], families: bool) -> dict[int, int]:
    """For each dataset 0, a rule is fitted on it, or 1, it is asked on it: in turn."""
    names = [one["name"].replace("-", "_").split("_")[0].lower() if families else one["id"] for one in known]
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return {one["id"]: index[name] % 2 for one, name in zip(known, names, strict=True)}


def _hits(
    question: str, fitting: list[dict[str, Any]], args: list[dict[str, Any]]
) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """The name of each rule, whether it is right on each dataset, and on those whose gain is beyond the noise."""
    X, y = _signals(fitting), _truth(fitting, question)
    middle = np.nan_to_num(np.nanmedian(X.to_numpy(), axis=0))
    X, X_asked = X.fillna(dict(zip(X, middle, strict=True))), _signals(args).fillna(dict(zip(X, middle, strict=True)))
    truth, clear = _truth(args, question), _clear(args, question)
    stump, told = _stump(X, y)
    answers: dict[str, NDArray[np.bool_]] = {
        f"always {'yes' if y.mean() >= 0.5 else 'no'} (trivial)": np.full(len(args), y.mean() >= 0.5),
        "sign of the paired run": X_asked[question].to_numpy() > 0.0,
        f"one threshold: {told}": stump(X_asked.to_numpy()),
        "logistic regression on all signals": _logistic(X.to_numpy(), y)(X_asked.to_numpy()),
    }
    for name, answer in answers.items():
        yield name, answer == truth, (answer == truth)[clear]


def _signals(records: list[dict[str, Any]]) -> pd.DataFrame:
    sizes = [{"log n": np.log(one["n"]), "log d": np.log(one["d"]), "log k": np.log(one["k"])} for one in records]
    return pd.DataFrame([{**one["signals"], **size} for one, size in zip(records, sizes, strict=True)]).astype(float)


def _truth(records: list[dict[str, Any]], question: str) -> NDArray[np.bool_]:
    return np.array([record["gains"][question]["mean"] > 0.0 for record in records])


def _clear(records: list[dict[str, Any]], question: str) -> NDArray[np.bool_]:
    """Sets whose test rows tell beyond two standard errors, and by more than rounding."""
    gains = [record["gains"][question] for record in records]
    return np.array([abs(gain["mean"]) > max(SAME, 2.0 * gain["error"]) for gain in gains])


def _stump(X: pd.DataFrame, y: NDArray[np.bool_]) -> tuple[Rule, str]:
    """The signal, threshold and side that are right most often, the first of equals; the trivial rule if none is."""
    often = bool(y.mean() >= 0.5)
    best, rule, told = float((y == often).mean()), _always(often), "none is better than the trivial rule"
    for index, name in enumerate(X):
        values = np.unique(X[name])
        for cut in (values[1:] + values[:-1]) / 2.0:
            for side in (True, False):
                one = partial(_beyond, index, cut, side)
                right = float((one(X.to_numpy()) == y).mean())
                if right > best:
                    best, rule, told = right, one, f"{name} {'above' if side else 'below'} {cut:.3g}"
    return rule, told


def _beyond(index: int, cut: float, side: bool, args: Values) -> NDArray[np.bool_]:
    return np.asarray((args[:, index] > cut) == side)


def _always(answer: bool) -> Rule:
    return lambda args: np.full(len(args), answer)


def _logistic(X: Values, y: NDArray[np.bool_]) -> Rule:
    """Logistic regression whose penalty is chosen on the fitting datasets; one answer if there is but one."""
    if y.mean() in (0.0, 1.0) or min(y.sum(), (~y).sum()) < 3:
        return _always(bool(y.mean() >= 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=np.logspace(-3, 1, 9), cv=3, scoring="neg_log_loss", max_iter=2000)
        fitted = make_pipeline(StandardScaler(), model).fit(X, y)
    return lambda args: np.asarray(fitted.predict(args), dtype=bool)


def _share(hits: NDArray[np.bool_]) -> str:
    if not len(hits):
        return "0 of 0"
    low, high = wilson_interval(float(hits.mean()), len(hits))
    return f"{hits.sum()} of {len(hits)} ({100 * hits.mean():.0f} %, {100 * low:.0f} to {100 * high:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-home", type=Path, help="the folder of the manifest; default: GENLABEL_DATA_HOME")
    parser.add_argument("--sets", type=int, nargs="+", help="ids of OpenML; default: all of the manifest in the limits")
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the splits, the diagnosis and the networks")
    parser.add_argument("--jobs", type=int, default=1, help="datasets at once")
    parser.add_argument("--families", action="store_true", help="datasets whose names begin alike are on the same side")
    parser.add_argument("--json", type=Path, help="write the records there; datasets that it holds are not done again")
    parser.add_argument("--report", type=Path, help="measure nothing, report these records")
    args = parser.parse_args()
    records = json.loads(args.report.read_text())["sets"] if args.report else run(parser, args)
    print(f"\n{report(records, args.families)}")


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[dict[str, Any]]:
    known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {"seed": args.seed, "sets": []}
    if known["seed"] != args.seed:
        parser.error(f"{args.json} holds records of seed {known['seed']}; name another file")
    records = {record["id"]: record for record in known["sets"] if "error" not in record}
    numbers = sorted(dict.fromkeys(args.sets or _all_ids(parser, args)))
    calls = (delayed(measure)(number, args.data_home, args.seed) for number in numbers if number not in records)
    for index, record in enumerate(Parallel(n_jobs=args.jobs, return_as="generator_unordered")(calls)):
        records[record["id"]] = record
        shown = record.get("error") or f"{record['name']}: {record['verdict']}, {record['seconds']} s"
        print(index + 1, record["id"], shown, flush=True)
        if args.json:
            lines = ",\n".join(json.dumps(records[number]) for number in sorted(records))
            args.json.write_text(f'{{"seed": {args.seed}, "sets": [\n{lines}\n]}}\n')
    return [records[number] for number in numbers]


def _all_ids(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[int]:
    manifest = openml_manifest(args.data_home)
    if manifest is None:
        parser.error("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    return manifest_ids(manifest, args.max_features, min_rows=100, max_rows=args.max_rows)


if __name__ == "__main__":
    main()

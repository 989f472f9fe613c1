"""Sentences about 200 generated comparisons against an oracle: sign, size and verdict; each number has one value."""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from genlabel import write_report
from genlabel.data.tables import Table
from genlabel.evaluation.comparison import PLAIN_TRAINING, PRIOR_BASELINE
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.density_check import DensityCheck, MeanDifference
from genlabel.evaluation.diagnosis.diagnose import NEGLIGIBLE_GAIN, decide_verdict
from genlabel.evaluation.diagnosis.paired_experiment import ARMS, COMPARISONS, MIXING_ARMS, PairedExperiment
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.reporting.findings import MAX_USELESS_GAIN, Findings

NAMES = ["GenLabel", "mixup", PLAIN_TRAINING, "stacked density", "logistic regression", "boosting", "a third party"]
SEEDS = range(200)
NAME = "|".join(sorted([*NAMES, *ARMS, PRIOR_BASELINE], key=len, reverse=True))
GAIN = re.compile(
    rf"({NAME}) against ({NAME}): (clearly better|clearly worse|no clear difference|a negligible difference), "
    r"log-loss (?:less than )?([\d.]+\d) (lower|higher)"
)


def count_predictions(rng: np.random.Generator, classes: list[str], size: int) -> dict[str, Any]:
    """Return counts of random predictions, of which some classes are never made."""
    log_proba = np.log(rng.dirichlet(np.ones(len(classes)), size))
    if rng.random() < 0.4:
        log_proba[:, -1] = -40.0
    y = rng.choice(len(classes), size, p=np.array([0.7, *[0.3 / (len(classes) - 1)] * (len(classes) - 1)]))
    return PredictionCounts.of(log_proba, y, classes).to_dict()


def random_results(rng: np.random.Generator) -> pd.DataFrame:
    """Return results with random methods, splits, levels, noise and failed fits."""
    methods = list(rng.permutation(NAMES)[: rng.integers(1, len(NAMES) + 1)])
    methods += [PRIOR_BASELINE] if rng.random() < 0.8 else []
    n_splits, scale, counted = int(rng.integers(1, 11)), float(rng.choice([0.001, 0.02, 0.3])), rng.random() < 0.7
    classes = ["no", "yes", "maybe"][: int(rng.integers(2, 4))]
    hard, rows = rng.normal(0, 0.05, n_splits), []
    for name in methods:
        level = 0.7 - (name != PRIOR_BASELINE) * scale * rng.exponential() * rng.choice([1.0, -0.3])
        for split in range(n_splits):
            if len(methods) > 2 and rng.random() < 0.05:
                continue  # a fit that failed
            record = {"method": name, "split": split, "seconds": float(rng.exponential())}
            record["log_loss"] = 0.7 if name == PRIOR_BASELINE else level + hard[split] + rng.normal(0, scale / 3)
            record["accuracy"] = 0.6 if name == PRIOR_BASELINE else float(np.clip(rng.normal(0.65, 0.1), 0, 1))
            record["auc"] = 0.5 if name == PRIOR_BASELINE else float(np.clip(rng.normal(0.6, 0.1), 0, 1))
            record["balanced_accuracy"] = record["accuracy"]
            record["params"] = {"clean_fraction": float(rng.choice([0.75, 1.0]))} if name == "mixup" else {}
            if counted:
                record["held_out"] = count_predictions(rng, classes, 40)
            rows.append(record)
    return pd.DataFrame(rows)


def random_diagnosis(rng: np.random.Generator) -> Diagnosis:
    """Return a diagnosis with random gains."""
    loss = {arm: float(rng.uniform(0.2, 0.7)) for arm in ARMS}
    size = float(rng.choice([0.001, 0.03, 0.3]))
    gains = {}
    for arm, rival in COMPARISONS:
        mean = loss[rival] - loss[arm]
        gains[f"{arm} over {rival}"] = MeanDifference(mean, mean - size, mean + size)
    counts = {arm: PredictionCounts.from_dict(count_predictions(rng, ["no", "yes"], 60)) for arm in ARMS}
    numbers = dict.fromkeys(MIXING_ARMS, 1.0)
    accuracy = {arm: float(rng.uniform(0.5, 0.9)) for arm in ARMS}
    experiment = PairedExperiment(60, 4, loss, accuracy, gains, numbers, numbers, dict.fromkeys(ARMS, 0.5), counts)
    gain = MeanDifference(0.1, 0.05, 0.15)
    check = DensityCheck(bool(rng.random() < 0.7), ["it was checked"], 60, 0.5, 0.6, 0.7, gain, gain)
    verdict = decide_verdict(check, None, experiment)
    settings = {"clean_fraction": 0.75}
    return Diagnosis(verdict, check, 60, 2, np.array(["no", "yes"]), settings, [], None, experiment)


@cache
def findings_of(seed: int) -> Findings:
    rng = np.random.default_rng(seed)
    results = None if seed % 10 == 9 else random_results(rng)
    diagnosis = random_diagnosis(rng) if results is None or rng.random() < 0.6 else None
    return Findings(results, diagnosis, 0.3, "genlabel fit data.csv --target y")


def oracle(findings: Findings, method: str, other: str, score: str = "log_loss") -> tuple[float, float, float] | None:
    """Return the gain of a method with its interval: the corrected t-interval, or that of the experiment."""
    if method in ARMS:
        assert findings.diagnosis is not None
        assert findings.diagnosis.experiment is not None
        gains = findings.diagnosis.experiment.gains
        return gains[f"{method} over {other}"]
    assert findings.results is not None
    table = findings.results.set_index(["split", "method"])[score].unstack()
    if method not in table or other not in table:
        return None
    values = (table[other] - table[method]).dropna().to_numpy() * (1 if score == "log_loss" else -1)
    if len(values) < 2:
        return (float(values.mean()), np.nan, np.nan) if len(values) else None
    error = np.sqrt(values.var(ddof=1) * (1 / len(values) + 0.3 / 0.7))
    half = float(stats.t.ppf(0.975, len(values) - 1) * error)
    return float(values.mean()), float(values.mean()) - half, float(values.mean()) + half


def means_of(findings: Findings, score: str) -> dict[str, float]:
    assert findings.results is not None
    return findings.results.groupby("method")[score].mean().to_dict()


def ranking_of(findings: Findings) -> list[str]:
    losses = means_of(findings, "log_loss")
    return sorted((name for name in losses if name != PRIOR_BASELINE), key=losses.__getitem__) or [PRIOR_BASELINE]


def recommended_by(findings: Findings) -> str:
    """Return the method of the headline: that of the lowest log-loss, or one without a clear difference from any."""
    (line,) = [line for line in findings.headline if "of unseen rows" in line and not line.startswith("Caution")]
    (name,) = set(re.findall(rf"(?<![\w-])({NAME})(?![\w-])", line))
    return str(name)


compared = [seed for seed in SEEDS if findings_of(seed).results is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_sentences_about_pairs_agree_with_the_oracle_and_each_other(seed: int) -> None:
    findings, said = findings_of(seed), defaultdict(set)
    text = "\n".join(findings.lines)
    for method, other, word, size, direction in GAIN.findall(text):
        gain, low, high = oracle(findings, method, other) or (0.0, 0.0, 0.0)
        if word == "no clear difference":
            assert low <= 0 <= high
        elif word == "a negligible difference":
            assert method in ARMS
            assert abs(gain) <= NEGLIGIBLE_GAIN
        else:
            assert low > 0 if word == "clearly better" else high < 0
        assert (direction == "lower") == (gain > 0)
        assert float(size) == pytest.approx(abs(gain), abs=0.0006, rel=0.5)
        assert float(size) > 0
        said[frozenset((method, other))].add((method, word, size))
    assert all(len(statements) == 1 for statements in said.values())
    words = "clearly (?:better|worse),|(?:no clear|a negligible) difference,"
    assert len(re.findall(words, text)) == sum(map(len, said.values()))


@pytest.mark.parametrize("seed", SEEDS[::20])
def test_pages_say_what_their_findings_say(seed: int, tmp_path: Path, read_html: Callable[[str], Any]) -> None:
    findings = findings_of(seed)
    table = Table("t", pd.DataFrame({"x": range(20)}), pd.Series(["no", "yes"] * 10))
    write_report(tmp_path / "t.html", table, findings.results, findings.diagnosis, fit_command=findings.fit_command)
    text = read_html((tmp_path / "t.html").read_text(encoding="utf-8")).text
    assert all(line in text for line in findings.lines)
    assert not findings.next_command or findings.next_command in text
    said = defaultdict(set)
    for method, other, *words in GAIN.findall(text):
        said[method, other].add(tuple(words))
    assert all(len(statements) == 1 for statements in said.values())
    lowest = re.findall(rf"({NAME})[^.]* has the lowest log-loss[^.\d]*([\d.]+\d)", text)
    assert len(set(lowest)) <= 1
    assert len(set(re.findall(r"probabilities (?:of .*? )?are off by ([\d.]+)", text))) <= 1
    for pair in findings.pairs:
        sign = "clearly better" if pair.low > 0 else "clearly worse" if pair.high < 0 else "no clear difference"
        assert all(words[0] == sign for words in said.get((pair.method, pair.other), ()))


@pytest.mark.parametrize("seed", compared)
def test_headline_names_the_best_method_and_its_accuracy(seed: int) -> None:
    findings = findings_of(seed)
    best, accuracy = recommended_by(findings), means_of(findings, "accuracy")
    (line,) = [line for line in findings.headline if "of unseen rows" in line and not line.startswith("Caution")]
    assert best in line
    assert f"right on {100 * accuracy[best]:.1f} %" in line
    if PRIOR_BASELINE in accuracy:
        assert f"{100 * accuracy[PRIOR_BASELINE]:.1f} %" in line
        assert ("no more often" in line) == (accuracy[best] <= accuracy[PRIOR_BASELINE])
    losses = means_of(findings, "log_loss")
    gap = oracle(findings, best, PRIOR_BASELINE) if PRIOR_BASELINE in losses else None
    sure = gap is None or np.isnan(gap[1]) or gap[1] > 0
    assert line.startswith(("Use ", "Do not ", "Too few"))
    assert line.startswith("Use ") or not sure
    if line.startswith("Do not "):
        assert gap is not None
        assert gap[2] <= MAX_USELESS_GAIN * losses[PRIOR_BASELINE]
        assert not findings.next_command
    others = [line for line in findings.headline if line.startswith("Most often right: ")]
    top = max(value for name, value in accuracy.items() if name != PRIOR_BASELINE)
    assert (accuracy[best] < top) or not others
    assert all(f"{100 * top:.1f} %" in line for line in others)


METHOD_OPTIONS = {"GenLabel": "", "mixup": " --method mixup", PLAIN_TRAINING: " --method vanilla"}
METHOD_OPTIONS["stacked density"] = " --method stacked"


@pytest.mark.parametrize("seed", compared)
def test_all_advice_is_about_one_method(seed: int) -> None:
    findings = findings_of(seed)
    best, name = ranking_of(findings)[0], recommended_by(findings)
    gains = [oracle(findings, name, other) for other in means_of(findings, "log_loss") if other != name]
    assert name == best or not any(gain is not None and gain[2] < 0 for gain in gains)
    command, text = findings.next_command, "\n".join(findings.lines)
    assert not command or command == f"genlabel fit data.csv --target y{METHOD_OPTIONS[name]}"
    worthwhile = "Do not train" not in text
    assert bool(command) == (name in METHOD_OPTIONS and worthwhile)
    assert (f"genlabel fit does not train {name}" in text) == (name not in METHOD_OPTIONS and worthwhile)
    weaknesses = re.findall(rf"({NAME}) finds [\d.]+ %", text)
    assert not findings.compared_counts or set(weaknesses) == {name} or name not in findings.counts
    assert findings.answers["What should I train?"][0].startswith(name)


@pytest.mark.parametrize("seed", compared)
def test_order_of_the_methods_agrees_with_the_oracle(seed: int) -> None:
    findings = findings_of(seed)
    best, lowest, losses = recommended_by(findings), ranking_of(findings)[0], means_of(findings, "log_loss")
    lines = findings.answers["What should I train?"]
    rank = f"the lowest log-loss{'' if min(losses.values()) == losses[lowest] else ' but for the class priors'}"
    assert f"{rank}: {losses[lowest]:.3f}" in lines[best != lowest]
    assert f"{losses[best]:.3f}" in lines[0]
    gains = {other: oracle(findings, best, other) for other in losses if other not in (best, PRIOR_BASELINE)}
    near = {other for other, gain in gains.items() if gain is not None and not gain[1] > 0}
    said = [line.split(":")[0] for line in lines if line.startswith("No clear difference from ")]
    if findings.n_splits == 1:
        assert not said
        assert any("--n-splits 10" in line for line in lines)
    else:
        assert {name for text in said for name in re.findall(NAME, text)} == near or len(near) > 6
        assert not (near and any("Every other method is clearly worse" in line for line in lines))


@pytest.mark.parametrize("seed", compared)
def test_missed_classes_stand_first_and_numbers_have_one_value(seed: int) -> None:
    findings = findings_of(seed)
    text = "\n".join(findings.lines)
    counts = findings.counts.get(findings.counted_method)
    if counts is not None:
        shares = counts.confusion.diagonal() / np.maximum(counts.class_counts, 1)
        rare = counts.class_counts < counts.class_counts.mean()
        missed = bool((((shares == 0) | ((shares < 0.2) & rare)) & (counts.class_counts > 0)).any())
        assert findings.headline[0].startswith("Caution") == missed
        assert ("--class-weight balanced" in findings.headline[0]) == (missed and bool(findings.next_command))
        (gap,) = set(re.findall(r"off by ([\d.]+)", text))
        size, mass, hits = counts.reliability.T
        assert float(gap) == pytest.approx(np.abs(mass - hits).sum() / size.sum(), abs=0.0006)
    assert len(set(re.findall(r"guessing the largest class (?:is right on |\()([\d.]+) %", text))) <= 1
    assert len(set(re.findall(r"that of the class priors|([\d.]+) is that of the class priors", text))) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_words_need_no_glossary(seed: int) -> None:
    findings = findings_of(seed)
    text = "\n".join(findings.lines).replace("--method vanilla", "")
    assert findings.lines
    assert not re.search(r"\b(nats?|blends?|class shares|vanilla|nan|within noise)\b", text)
    assert len(findings.lines) == len(set(findings.lines))
    for term, help_text in {"log-loss": "penalty for", "recall": "finds", "AUC": "0.5"}.items():
        if term in text and findings.results is not None:
            assert help_text in text


def test_unmixed_splits_are_counted() -> None:
    rows = {"method": ["mixup", PLAIN_TRAINING] * 4, "split": np.repeat(range(4), 2), "accuracy": 0.8, "seconds": 1.0}
    params = [{"clean_fraction": 1.0}, {}] * 3 + [{"clean_fraction": 0.75}, {}]
    findings = Findings(pd.DataFrame({**rows, "log_loss": 0.5, "params": params}))
    text = " ".join(findings.answers["Does mixing matter?"])
    assert "mixup is the same as plain training on all 4 splits" in text
    assert "not to mix on 3 of 4 splits" in text
    losses = [0.5 if params else 0.4 for params in [{"clean_fraction": 1.0}, {}] * 4]
    never = Findings(pd.DataFrame({**rows, "log_loss": losses, "params": [{"clean_fraction": 1.0}, {}] * 4}))
    assert "never chose to mix" in " ".join(never.answers["Does mixing matter?"])


def test_a_good_ranking_is_no_lack_of_signal() -> None:
    rng, splits = np.random.default_rng(0), 5
    frame = {"split": [*range(splits)] * 2, "method": ["boosting"] * splits + [PRIOR_BASELINE] * splits}
    frame |= {
        "log_loss": [*rng.normal(0.6, 0.15, splits), *[0.69] * splits],
        "accuracy": [0.7] * splits + [0.5] * splits,
    }
    good = Findings(pd.DataFrame({**frame, "auc": [*rng.normal(0.85, 0.02, splits), *[0.5] * splits]}))
    assert good.skill == "ranks"
    assert not re.search("say little|Too few", " ".join(good.lines))
    unsure = Findings(pd.DataFrame({**frame, "auc": [*rng.normal(0.55, 0.3, splits), *[0.5] * splits]}))
    assert unsure.skill == "unknown"
    flat = {**frame, "log_loss": [*rng.normal(0.69, 0.001, splits), *[0.69] * splits], "auc": 0.5}
    assert Findings(pd.DataFrame(flat)).skill == "none"
    assert Findings(pd.DataFrame({**flat, "auc": [0.85] * splits + [0.5] * splits})).skill == "ranks"

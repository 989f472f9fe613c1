"""The verdict of a diagnosis: one word, one sentence and its reasons; and the signals that a rule may rest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.intervals import Z_95, MeanDifference
from genlabel.evaluation.diagnosis.mixed_samples import MAX_ATYPICAL, MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import PairedExperiment

NEGLIGIBLE_GAIN = 0.002
"""Difference of log-losses, in nats, that counts as none."""
SENTENCES = {
    "GenLabel": "Mixing helps here, with the labels of the stacked density.",
    "mixup": "Mixing helps here, with mixup's own labels.",
    "vanilla": "Mixing hurts here: use plain training.",
    "no difference": "Mixing makes no difference here beyond the noise.",
    "not mixup": "Mixup's labels hurt here; those of the stacked density neither hurt nor help beyond the noise.",
    "not tried": "There are too few rows to hold any out, so mixing was not tried.",
    "not trusted": "The stacked density cannot be trusted here, so mixing was not tried.",
}
"""The verdicts, word and sentence."""
AVERAGED = ("intrusion", "typicality", "atypical", "total_variation")
"""Columns of the table of pairs that are averaged over the pairs of classes."""


class DiagnosisVerdict(NamedTuple):
    """Verdict of a diagnosis.

    It is the `verdict` of a :class:`Diagnosis`.
    """

    word: str
    """Key of `SENTENCES`."""
    sentence: str
    reasons: list[str]


def untrusted_verdict(reasons: list[str]) -> DiagnosisVerdict:
    """Return the verdict where the stacked density is not trusted.

    >>> untrusted_verdict(["the log-loss is infinite"]).word
    'not trusted'
    """
    return DiagnosisVerdict("not trusted", SENTENCES["not trusted"], reasons)


def decide_verdict(
    check: DensityCheck, mixed: MixedSampleStats, experiment: PairedExperiment | None
) -> DiagnosisVerdict:
    """Return the verdict where the stacked density is trusted: what the paired experiment shows beyond its noise.

    Intrusion, typicality and labels are reasons, not votes.
    """
    reasons = [*check.reasons, *_mixed_sample_reasons(mixed)]
    if experiment is None:
        return DiagnosisVerdict("not tried", SENTENCES["not tried"], reasons)
    gains = []
    for name, gain in experiment.gains.items():
        result = "better" if _is_better(gain) else "worse" if _is_worse(gain) else "the same within the noise"
        interval = f"interval {-gain.high:+.3f} to {-gain.low:+.3f}"
        gains.append(f"{name}: {result} (log-loss {-gain.mean:+.3f}, {interval})")
    word = choose_verdict(*experiment.gains.values())
    return DiagnosisVerdict(word, SENTENCES[word], [*gains, *reasons])


def choose_verdict(mixup: MeanDifference, genlabel: MeanDifference, over_mixup: MeanDifference) -> str:
    """Return the word of the verdict from the gains of mixup and GenLabel over vanilla, and GenLabel over mixup."""
    if _is_better(genlabel) and not _is_worse(over_mixup):
        return "GenLabel"
    if _is_better(mixup):
        return "mixup"
    if _is_worse(genlabel):
        return "vanilla"
    return "not mixup" if _is_worse(mixup) else "no difference"


def _is_better(gain: MeanDifference) -> bool:
    return gain.low > 0.0 and gain.mean > NEGLIGIBLE_GAIN


def _is_worse(gain: MeanDifference) -> bool:
    return gain.high < 0.0 and gain.mean < -NEGLIGIBLE_GAIN


def _mixed_sample_reasons(mixed: MixedSampleStats) -> list[str]:
    """Return sentences about intrusion, typicality and labels of the mixed samples."""
    mean, worst = overall_stats(mixed), mixed.pairs.iloc[int(mixed.pairs["low"].argmax())]
    intrusion = (
        f"{100 * mean['intrusion']:.1f} % of mixup's mixed samples land among another class "
        f"({100 * mixed.chance:.1f} % with permuted labels)"
    )
    if worst["intrusion"] > 0:
        low, high = 100 * worst["low"], 100 * worst["high"]
        pair = f"{worst['class_1']} with {worst['class_2']}"
        intrusion += f", most clearly {pair}: {100 * worst['intrusion']:.0f} % ({low:.0f} to {high:.0f} %)"
    return [
        intrusion,
        f"{100 * mean['atypical']:.0f} % of the mixed samples are unlike any training row "
        f"(typicality of {MAX_ATYPICAL} or less)",
        f"mixup's labels and the stacked density's differ by {mean['total_variation']:.2f} (0 same, 1 disjoint)",
    ]


def overall_stats(mixed: MixedSampleStats) -> dict[str, float]:
    """Return means over the pairs of classes, each weighted by how often mixup draws it."""
    pairs = mixed.pairs
    return {name: float(np.average(pairs[name], weights=pairs["weight"])) for name in AVERAGED}


def diagnosis_signals(
    check: DensityCheck, mixed: MixedSampleStats | None, experiment: PairedExperiment | None
) -> dict[str, float]:
    """Return the numbers of a diagnosis that a rule may rest on, by name; NaN for what was not measured."""
    nan = float("nan")
    signals = {
        "stacked density over class priors": check.over_prior.mean,
        "stacked density over logistic regression": check.over_logistic.mean,
        **(overall_stats(mixed) if mixed is not None else dict.fromkeys(AVERAGED, nan)),
        "permuted intrusion": mixed.chance if mixed is not None else nan,
    }
    for name in ("mixup over vanilla", "GenLabel over vanilla", "GenLabel over mixup"):
        gain = experiment.gains[name] if experiment is not None else MeanDifference(nan, nan, nan)
        half = gain.high - gain.mean
        signals |= {name: gain.mean, f"{name}, in standard errors": 0.0 if half == 0.0 else Z_95 * gain.mean / half}
    for name in ("mixup", "GenLabel"):
        signals[f"affinity, {name}"] = experiment.affinity[name] if experiment is not None else nan
        signals[f"log diversity, {name}"] = float(np.log(experiment.diversity[name])) if experiment is not None else nan
    return signals

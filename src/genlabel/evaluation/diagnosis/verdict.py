"""The verdict: one word, one sentence, and its reasons; and the numbers that a rule may rest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.intervals import WIDTH, Gap
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import PairedExperiment

SAME = 0.002
"""Log-losses that differ by less, in nats, are the same."""
WORDS = {
    "GenLabel": "Mixing helps here, with the stacked density's labels.",
    "mixup": "Mixing helps here, with mixup's own labels.",
    "vanilla": "Mixing hurts here: train on the rows as they are.",
    "no difference": "Mixing makes no difference here beyond the noise.",
    "not mixup": "Mixup's labels hurt here; the stacked density's do not, and do not help beyond the noise.",
    "not tried": "Nothing could be held out to try: there are too few rows.",
    "not trusted": "The stacked density cannot be trusted here, so nothing is said of mixing.",
}
"""The verdicts."""


MEANS = ("intrusion", "support", "odd", "total_variation")
"""What is averaged over the pairs of classes."""


class DiagnosisVerdict(NamedTuple):
    """What the diagnosis comes to.

    It is the `verdict` of what `diagnose` returns.
    """

    word: str
    """One of `WORDS`."""
    sentence: str
    reasons: list[str]


def untrusted_verdict(reasons: list[str]) -> DiagnosisVerdict:
    """Return the verdict where the stacked density knows too little.

    >>> untrusted_verdict(["it knows nothing"]).word
    'not trusted'
    """
    return DiagnosisVerdict("not trusted", WORDS["not trusted"], reasons)


def decide(trust: DensityCheck, blends: MixedSampleStats, trial: PairedExperiment | None) -> DiagnosisVerdict:
    """Return the verdict of a diagnosis whose stacked density is trusted: what the paired run shows beyond its noise.

    Intrusion, support and labels are reasons, not votes: they say why, and on whose account.
    """
    reasons = [*trust.reasons, *_about_blends(blends)]
    if trial is None:
        return DiagnosisVerdict("not tried", WORDS["not tried"], reasons)
    mixup, genlabel, apart = (trial.gains[name] for name in trial.gains)
    word = _word(mixup, genlabel, apart)
    return DiagnosisVerdict(word, WORDS[word], [*(_about(name, gain) for name, gain in trial.gains.items()), *reasons])


def _word(mixup: Gap, genlabel: Gap, apart: Gap) -> str:
    if _is_better(genlabel) and not _is_worse(apart):
        return "GenLabel"
    if _is_better(mixup):
        return "mixup"
    if _is_worse(genlabel):
        return "vanilla"
    return "not mixup" if _is_worse(mixup) else "no difference"


def _is_better(gain: Gap) -> bool:
    return gain.low > 0.0 and gain.mean > SAME


def _is_worse(gain: Gap) -> bool:
    return gain.high < 0.0 and gain.mean < -SAME


def _about(name: str, gain: Gap) -> str:
    """One line of a gain."""
    said = "better" if _is_better(gain) else "worse" if _is_worse(gain) else "the same within the noise"
    return f"{name}: {said} (log-loss {-gain.mean:+.3f}, interval {-gain.high:+.3f} to {-gain.low:+.3f})"


def _about_blends(blends: MixedSampleStats) -> list[str]:
    """What the blends say, in lines."""
    whole, pairs = overall(blends), blends.pairs
    place = int(pairs["low"].argmax())
    columns = ("class_1", "class_2", "intrusion", "low", "high")
    one, other, most, low, high = (pairs[name].iloc[place] for name in columns)
    lines = [
        f"{100 * whole['intrusion']:.1f} % of mixup's blends land among another class "
        f"({100 * blends.chance:.1f} % with permuted labels)"
    ]
    if most > 0:
        lines[0] += f", surest of {one} with {other}: {100 * most:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"
    lines.append(f"{100 * whole['odd']:.0f} % of the blends are unlike any training row (support of 0.05 or less)")
    lines.append(
        f"mixup's labels and the stacked density's are {whole['total_variation']:.2f} apart (0 same, 1 disjoint)"
    )
    return lines


def overall(blends: MixedSampleStats) -> dict[str, float]:
    """Return the means over the pairs of classes, each as often as mixup draws it."""
    pairs = blends.pairs
    return {name: float(np.average(pairs[name], weights=pairs["weight"])) for name in MEANS}


def signals(trust: DensityCheck, blends: MixedSampleStats | None, trial: PairedExperiment | None) -> dict[str, float]:
    """Return the numbers of a diagnosis that a rule may rest on, by name; NaN for what was not measured."""
    found = {
        "stacked density over shares": trust.over_shares.mean,
        "stacked density over plain": trust.over_plain.mean,
        **(overall(blends) if blends is not None else dict.fromkeys(MEANS, float("nan"))),
        "permuted intrusion": blends.chance if blends is not None else float("nan"),
    }
    for name in ("mixup over vanilla", "GenLabel over vanilla", "GenLabel over mixup"):
        gain = trial.gains[name] if trial is not None else Gap(*[float("nan")] * 3)
        found |= {name: gain.mean, f"{name}, in standard errors": _in_errors(gain)}
    for name in ("mixup", "GenLabel"):
        found[f"affinity, {name}"] = trial.affinity[name] if trial is not None else float("nan")
        found[f"log diversity, {name}"] = float(np.log(trial.diversity[name])) if trial is not None else float("nan")
    return found


def _in_errors(gain: Gap) -> float:
    """A mean over its standard error; 0 where nothing differs."""
    half = gain.high - gain.mean
    return 0.0 if half == 0.0 else WIDTH * gain.mean / half

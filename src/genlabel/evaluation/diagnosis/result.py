"""The result of a diagnosis, as text, tables and plain values; `genlabel.reporting.plot_diagnosis` draws it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._validation import check_choice, check_count
from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import ARMS, DecisionRegions, PairedExperiment
from genlabel.evaluation.diagnosis.verdict import DiagnosisVerdict, diagnosis_signals, overall_stats
from genlabel.evaluation.prediction_counts import PredictionCounts

MAX_PRINTED = 3
"""Classes of a label that are written, and rows of a table that are printed."""
MIN_SHARE = 0.1
"""Weight of either parent in a mixed sample that is printed; with less it is almost the other parent."""
TABLES = ("mixed_samples", "pairs", "lambda", "experiment")


@final
@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Result of :func:`genlabel.diagnose`: print it, or get tables (`to_frame`) and plain values (`to_dict`)."""

    verdict: DiagnosisVerdict
    """Word, sentence and reasons."""
    density_check: DensityCheck
    """Check of the stacked density on held-out rows."""
    n: int
    """Number of rows."""
    d: int
    """Number of features."""
    classes: NDArray[Any]
    """(k,)"""
    settings: dict[str, Any]
    notes: list[str]
    """Sentences about rows and pairs that were left out."""
    mixed: MixedSampleStats | None = None
    """Measurements of mixed samples; None where the stacked density is not trusted, like the next two."""
    experiment: PairedExperiment | None = None
    """The paired experiment."""
    regions: DecisionRegions | None = None
    """Decision regions, where there are two features."""

    @property
    def signals(self) -> dict[str, float]:
        """Numbers that a rule may rest on, by name; NaN for what was not measured."""
        return diagnosis_signals(self.density_check, self.mixed, self.experiment)

    @property
    def prediction_counts(self) -> dict[str, PredictionCounts]:
        """Counts of the held-out predictions of each arm of the paired experiment, with the names of the classes."""
        names = tuple(str(name) for name in self.classes)
        counts = {} if self.experiment is None else self.experiment.counts
        return {arm: replace(count, classes=names) for arm, count in counts.items()}

    def to_frame(self, what: str = "mixed_samples", n: int | None = 20) -> pd.DataFrame:
        """Return a table.

        Parameters
        ----------
        what : "mixed_samples", "pairs", "lambda" or "experiment"
            The mixed samples whose two labels differ most, with their parents (rows of your table), lambda (the weight
            of the first) and both labels; the pairs of classes, the clearest intrusion first (by the lower end of its
            interval); the distance of the labels by pair and lambda; the three arms of the paired experiment.
        n : int or None
            Number of rows; None returns all of them.
        """
        check_choice("what", what, TABLES)
        if what == "experiment":
            return self._experiment_frame()
        if self.mixed is None:
            raise ValueError(f"there is no table {what!r}: the stacked density is not trusted; see diagnosis.verdict")
        if what == "mixed_samples":
            frame = self._mixed_frame(self.mixed)
        elif what == "pairs":
            order = ["low", "intrusion", "total_variation"]
            frame = self.mixed.pairs.sort_values(order, ascending=False, ignore_index=True)
        else:
            frame = self.mixed.lambdas
        return frame if n is None else frame.head(check_count("n", n))

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain values for JSON; NaN and infinity are None."""
        check = self.density_check._asdict()
        check |= {name: check[name]._asdict() for name in ("over_prior", "over_logistic")}
        values: dict[str, Any] = {
            "verdict": self.verdict._asdict(),
            "table": {"rows": self.n, "features": self.d, "classes": self.classes.tolist()},
            "settings": self.settings,
            "notes": self.notes,
            "density_check": check,
            "signals": self.signals,
        }
        if self.mixed is not None:
            values["overall"] = {**overall_stats(self.mixed), "permuted": self.mixed.permuted}
            values["pairs"] = self.to_frame("pairs", None).to_dict("records")
            values["lambda"] = self.mixed.lambdas.to_dict("records")
            values["mixed_samples"] = self.to_frame("mixed_samples").to_dict("records")
        if self.experiment is not None:
            counts = {name: count.to_dict() for name, count in self.prediction_counts.items()}
            gains = {name: gain._asdict() for name, gain in self.experiment.gains.items()}
            values["experiment"] = self.experiment._asdict() | {"counts": counts, "gains": gains}
        return _plain(values)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict.word}; {self.n} rows, {self.d} features, {len(self.classes)} classes>"

    def __str__(self) -> str:
        check, number = self.density_check, "{:.3f}".format
        losses = {"stacked density": check.density, "logistic regression": check.logistic, "class priors": check.prior}
        parts = [
            f"Diagnosis of {self.n} rows, {self.d} features, {len(self.classes)} classes\n\n{self.verdict.sentence}",
            "\n".join(f"- {reason}" for reason in self.verdict.reasons),
            f"Held-out log-loss (nats, {check.rows} rows)\n"
            + "\n".join(f"  {name:20} {value:.3f}" for name, value in losses.items()),
        ]
        if self.mixed is not None:
            columns = ["class_1", "class_2", "intrusion", "low", "high", "permuted", "atypical", "total_variation"]
            table = self.to_frame("pairs", MAX_PRINTED)[columns].to_string(index=False, float_format=number)
            parts.append(f"Pairs of classes whose mixed samples land among another class most often\n{table}")
            columns = ["row_1", "row_2", "class_1", "class_2", "lam", "mixup_label", "density_label", "total_variation"]
            frame = self.to_frame("mixed_samples", None)
            shown = frame[frame["lam"].between(MIN_SHARE, 1.0 - MIN_SHARE)].head(MAX_PRINTED)[columns]
            heading = "Mixed samples, with a tenth of either parent at least, whose labels differ most"
            parts.append(f"{heading}\n{shown.to_string(index=False, float_format=number)}")
        if self.experiment is not None:
            rows, folds = self.experiment.rows, self.experiment.folds
            heading = f"Paired experiment: networks alone, {rows} rows held out in {folds} folds"
            table = self._experiment_frame().rename_axis(None).to_string(float_format=number, na_rep="")
            parts.append(f"{heading}\n{table}")
        parts += ["\n".join(f"note: {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join(parts)

    def _mixed_frame(self, mixed: MixedSampleStats) -> pd.DataFrame:
        samples, (first, second, lam) = mixed.samples, mixed.samples.pairs
        order = np.argsort(-samples.total_variation, kind="stable")
        names = self.classes[mixed.class_index]
        return pd.DataFrame(
            {
                "row_1": mixed.rows[first[order]],
                "row_2": mixed.rows[second[order]],
                "class_1": names[first[order]],
                "class_2": names[second[order]],
                "lam": lam[order],
                "mixup_label": [self._format_label(label) for label in samples.linear_labels[order]],
                "density_label": [self._format_label(label) for label in samples.density_labels[order]],
                "total_variation": samples.total_variation[order],
                "intrudes": samples.intrudes[order],
                "typicality": samples.typicality[order],
            }
        )

    def _format_label(self, label: NDArray[np.float64]) -> str:
        """Return the most probable classes of a soft label."""
        order = np.argsort(-label, kind="stable")[:MAX_PRINTED]
        return ", ".join(f"{self.classes[c]} {label[c]:.2f}" for c in order if label[c] >= 0.005)

    def _experiment_frame(self) -> pd.DataFrame:
        if self.experiment is None:
            raise ValueError("there was no paired experiment; see diagnosis.verdict")
        experiment = self.experiment
        gains = {arm: experiment.gains[f"{arm} over vanilla"] for arm in ARMS if arm != "vanilla"}
        columns = {
            "log_loss": experiment.log_loss,
            "accuracy": experiment.accuracy,
            "gain": {arm: gain.mean for arm, gain in gains.items()},
            "gain_low": {arm: gain.low for arm, gain in gains.items()},
            "gain_high": {arm: gain.high for arm, gain in gains.items()},
            "affinity": experiment.affinity,
            "diversity": experiment.diversity,
        }
        return pd.DataFrame(columns, index=list(ARMS)).rename_axis("arm")


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it, those of numpy, tuples and dicts too."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)

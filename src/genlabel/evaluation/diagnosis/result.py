"""What a diagnosis holds, and how it is shown: as text, as tables, as plain values, as a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._validation import check_choice, check_count
from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.intervals import Gap
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import ARMS, PairedExperiment
from genlabel.evaluation.diagnosis.plane import Plane
from genlabel.evaluation.diagnosis.verdict import DiagnosisVerdict, overall, signals
from genlabel.evaluation.prediction_counts import PredictionCounts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SHOWN = 3
"""Classes of a label that are written out, and pairs that are printed."""
LEAST = 0.1
"""Weight of either row in a blend that is shown: one of less is hardly more than the other row."""


@final
@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What :func:`diagnose` found. Print it, ask it for tables (`to_frame`), plain values (`to_dict`), a picture."""

    verdict: DiagnosisVerdict
    """Its word, its sentence, its reasons."""
    trust: DensityCheck
    """Whether the stacked density knows the classes."""
    n: int
    d: int
    classes: NDArray[Any]
    """(k,)"""
    settings: dict[str, Any]
    notes: list[str]
    """What was left out."""
    blends: MixedSampleStats | None = None
    """What was seen at blends; None where the stacked density is not trusted, as what follows."""
    trial: PairedExperiment | None = None
    """The paired run."""
    plane: Plane | None = None
    """The regions of the classes, where there are two features."""

    @property
    def signals(self) -> dict[str, float]:
        """The numbers that a rule may rest on, by name; NaN for what was not measured."""
        return signals(self.trust, self.blends, self.trial)

    @property
    def tallies(self) -> dict[str, PredictionCounts]:
        """Counts of what the arms of the paired run say of held-out rows, with the names of the classes."""
        names = tuple(str(name) for name in self.classes)
        found = {} if self.trial is None else self.trial.tallies
        return {name: replace(tally, classes=names) for name, tally in found.items()}

    def to_frame(self, what: str = "blends", n: int | None = 20) -> pd.DataFrame:
        """Return a table.

        Parameters
        ----------
        what : "blends", "pairs", "lambda" or "trial"
            The blends whose two labels are furthest apart, row by row, with their parents (rows of your table), lambda
            (the weight of the first) and both labels; the pairs of classes, the surest intrusion first (by the lower
            end of its interval); the distance of the labels by pair and lambda; the three arms of the paired run.
        n : int or None
            So many rows; None is all of them.
        """
        check_choice("what", what, ["blends", "pairs", "lambda", "trial"])
        if what == "trial":
            return self._trial_frame()
        if self.blends is None:
            raise ValueError(
                f"there is no table of {what!r}: the stacked density is not trusted; see diagnosis.verdict"
            )
        if what == "blends":
            frame = self._worst_blends(self.blends)
        elif what == "pairs":
            worst_first = ["low", "intrusion", "total_variation"]
            frame = self.blends.pairs.sort_values(worst_first, ascending=False, ignore_index=True)
        else:
            frame = self.blends.lambdas
        return frame if n is None else frame.head(check_count("n", n))

    def to_dict(self) -> dict[str, Any]:
        """Return all that was found as plain values, fit for JSON; what is no number is None."""
        found: dict[str, Any] = {
            "verdict": self.verdict._asdict(),
            "table": {"rows": self.n, "features": self.d, "classes": self.classes.tolist()},
            "settings": self.settings,
            "notes": self.notes,
            "trust": self.trust._asdict(),
            "signals": self.signals,
        }
        if self.blends is not None:
            found["overall"] = {**overall(self.blends), "permuted": self.blends.permuted}
            found["pairs"] = self.to_frame("pairs", None).to_dict("records")
            found["lambda"] = self.blends.lambdas.to_dict("records")
            found["blends"] = self.to_frame("blends").to_dict("records")
        if self.trial is not None:
            counts = {name: tally.to_dict() for name, tally in self.tallies.items()}
            found["trial"] = self.trial._asdict() | {"tallies": counts}
        return _plain(found)

    def plot(self) -> Figure:
        """Draw what was found on one page; `plot().savefig("diagnosis.png")` keeps it."""
        from genlabel.evaluation.diagnosis.figure import plot_diagnosis

        return plot_diagnosis(self)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict.word}; {self.n} rows, {self.d} features, {len(self.classes)} classes>"

    def __str__(self) -> str:
        parts = [
            f"Diagnosis of {self.n} rows, {self.d} features, {len(self.classes)} classes\n\n{self.verdict.sentence}",
            "\n".join(f"- {reason}" for reason in self.verdict.reasons),
            f"Held-out log-loss (nats, {self.trust.rows} rows)\n{self._trust_lines()}",
        ]
        if self.blends is not None:
            parts.append(f"Pairs of classes whose blends land among another class most often\n{self._pair_lines()}")
            heading = "Blends, of a tenth of either row at least, whose labels are furthest apart"
            parts.append(f"{heading}\n{self._blend_lines()}")
        if self.trial is not None:
            heading = f"Paired run: networks alone, {self.trial.rows} rows held out in {self.trial.folds} folds"
            parts.append(
                f"{heading}\n{self._trial_frame().rename_axis(None).to_string(float_format='{:.3f}'.format, na_rep='')}"
            )
        parts += ["\n".join(f"note: {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join(parts)

    def _trust_lines(self) -> str:
        trust = self.trust
        lines = {"stacked density": trust.label_model, "logistic regression": trust.plain, "class shares": trust.shares}
        return "\n".join(f"  {name:20} {value:.3f}" for name, value in lines.items())

    def _pair_lines(self) -> str:
        names = ["class_1", "class_2", "intrusion", "low", "high", "permuted", "odd", "total_variation"]
        return str(self.to_frame("pairs", SHOWN)[names].to_string(index=False, float_format="{:.3f}".format))

    def _blend_lines(self) -> str:
        names = ["row_1", "row_2", "class_1", "class_2", "lam", "mixup_label", "model_label", "total_variation"]
        frame = self.to_frame("blends", None)
        shown = frame[frame["lam"].between(LEAST, 1.0 - LEAST)].head(SHOWN)
        return str(shown[names].to_string(index=False, float_format="{:.3f}".format))

    def _worst_blends(self, blends: MixedSampleStats) -> pd.DataFrame:
        seen, (first, second, lam) = blends.seen, blends.seen.blends
        worst = np.argsort(-seen.total_variation, kind="stable")
        names = self.classes[blends.class_number]
        return pd.DataFrame(
            {
                "row_1": blends.rows[first[worst]],
                "row_2": blends.rows[second[worst]],
                "class_1": names[first[worst]],
                "class_2": names[second[worst]],
                "lam": lam[worst],
                "mixup_label": [self._written(label) for label in seen.mixup[worst]],
                "model_label": [self._written(label) for label in seen.model[worst]],
                "total_variation": seen.total_variation[worst],
                "intrudes": seen.intrudes[worst],
                "support": seen.support[worst],
            }
        )

    def _written(self, label: NDArray[np.float64]) -> str:
        """The likeliest classes of a soft label, as text."""
        order = np.argsort(-label, kind="stable")[:SHOWN]
        return ", ".join(f"{self.classes[c]} {label[c]:.2f}" for c in order if label[c] >= 0.005)

    def _trial_frame(self) -> pd.DataFrame:
        if self.trial is None:
            raise ValueError("there was no paired run; see diagnosis.verdict")
        trial = self.trial
        gains = {name: trial.gains[f"{name} over vanilla"] for name in ARMS if name != "vanilla"}
        columns = {
            "log_loss": trial.log_loss,
            "accuracy": trial.accuracy,
            "gain": {name: gain.mean for name, gain in gains.items()},
            "gain_low": {name: gain.low for name, gain in gains.items()},
            "gain_high": {name: gain.high for name, gain in gains.items()},
            "affinity": trial.affinity,
            "diversity": trial.diversity,
        }
        return pd.DataFrame(columns, index=list(ARMS)).rename_axis("arm")


def _plain(value: Any) -> Any:
    """A value of numpy, or a tuple or dict of such, as JSON knows it."""
    if isinstance(value, Gap):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)

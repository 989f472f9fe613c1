"""The answers, first on the page: would mixing help, what to train, how far to trust it."""

from __future__ import annotations

from math import isnan

import numpy as np

from genlabel.evaluation.comparison import PRIOR_BASELINE
from genlabel.evaluation.comparison.verdict import ENOUGH
from genlabel.reporting.markup import Markup, element, shorten
from genlabel.reporting.report.given import ReportData, count, listed, name_of, percent, signed

FASTER = 5.0
"""How many times as fast a method must be for that to be said."""
NOTES, NOTE = 3, 160
"""Notes that are shown at once, and their letters."""
UNEQUAL = 0.8
"""Share of the largest class from which accuracy tells little."""
WARNS, UNSURE = ("vanilla", "not mixup"), ("no difference", "not tried", "not trusted")


def answers(given: ReportData) -> Markup:
    """Return a box with the verdict in a sentence, and an answer to each of the questions."""
    asked = {
        "Would mixing help?": mixing(given),
        "What should I train?": training(given),
        "How far can I trust it?": trusting(given),
    }
    shown = [(question, lines) for question, lines in asked.items() if lines]
    parts = [
        element("div", element("h3", question), *(element("p", line) for line in lines)) for question, lines in shown
    ]
    inside = [element("p", headline(given)), *parts, *_noted(given)]
    return element("div", *inside, class_=f"verdict-box {_mood(given)}".strip())


def headline(given: ReportData) -> str:
    """Return the verdict in one sentence."""
    said = []
    if given.diagnosis is not None:
        said.append(given.diagnosis.verdict.sentence)
    if given.results is not None:
        near = given.near
        also = f"{listed(near)} cannot be told from it" if near else "no other method comes near it"
        also = "one split tells no noise" if given.splits == 1 else also
        said.append(f"Lowest held-out log-loss: {given.best}; {also}.")
    return " ".join(said)


def mixing(given: ReportData) -> list[str]:
    """Whether mixing helps: what the paired run shows, and what the comparison does."""
    lines = []
    if given.diagnosis is not None and given.diagnosis.trial is not None:
        gains = given.diagnosis.trial.gains
        found = [f"{name} {signed(gap.mean)} ({signed(gap.low)} to {signed(gap.high)})" for name, gap in gains.items()]
        lines.append(
            "Networks that differ in their blends alone gain, in nats of held-out log-loss with 95 % intervals: "
            f"{'; '.join(found)}."
        )
    elif given.diagnosis is not None:
        reasons = "; ".join(given.diagnosis.verdict.reasons)
        lines.append(f"{reasons[:1].upper()}{reasons[1:]}.")
    pairs = [given.pair(one, other) for one, other in (("mixup", "vanilla"), ("GenLabel", "vanilla"))]
    told = [str(pair) for pair in pairs if pair is not None]
    if told:
        lines.append(f"As a user gets them, each with its own search: {'; '.join(told)}.")
    return lines


def training(given: ReportData) -> list[str]:
    """What to train: the best, what is as good, and what is as good and fast."""
    if given.results is None:
        return ["This page has a diagnosis alone; genlabel compare measures what to train."] if given.diagnosis else []
    best, near = given.best, given.near
    loss, right = given.mean(best, "log_loss"), given.mean(best, "accuracy") / 100
    words = f"{best} has the lowest mean log-loss, {loss:.3f} nats over {count(given.splits, 'split')}, "
    words += f"and is right on {percent(right)} of held-out rows."
    if given.splits == 1:
        return [words, *_few(given)]
    words += f" Within noise of it: {listed(near)}." if near else " Every other method is worse beyond the noise."
    return [words, *_fast(given, near), *_few(given)]


def trusting(given: ReportData) -> list[str]:
    """How far its answers can be trusted: accuracy beside guessing, calibration, the weakest class."""
    if not given.counted:
        return []
    method, tally = given.counted, given.tallies[given.counted]
    right = tally.confusion.diagonal().sum() / tally.rows
    guess = tally.support.max() / tally.rows
    words = f"On rows that it has not seen {method} is right {percent(right)} of the time; "
    words += f"always guessing the most frequent class is right {percent(guess)}."
    recall = np.where(np.isnan(tally.recall), np.inf, tally.recall)
    worst = int(recall.argmin())
    found = percent(float(recall[worst]), 0)
    words += f" Its weakest class is {name_of(tally.classes[worst])}: {found} of its rows are found."
    return [words + (_scored(given, guess) if given.compared else "")]


def _scored(given: ReportData, guess: float) -> str:
    """Scores of the comparison: those that suit unequal classes, and calibration."""
    words = ""
    balanced, area, error = (
        given.mean(given.counted, name) for name in ("balanced_accuracy", "auc", "calibration_error")
    )
    if guess >= UNEQUAL and not isnan(balanced) and not isnan(area):
        words += (
            f" With classes so unequal, accuracy tells little: balanced accuracy is {balanced:.1f} % "
            f"({percent(1 / len(given.classes), 0)} is guessing), AUC {area:.3f}."
        )
    if not isnan(error):
        words += f" Its probabilities are off by {error:.3f} on average (calibration error; few rows make it larger)."
    return words


def _noted(given: ReportData) -> list[Markup]:
    """The first notes on the table, which may bear upon all of it, with a link to the rest; none of the training."""
    notes = [note for note in dict.fromkeys(given.notes) if note in given.table.notes]
    if not notes:
        return []
    shown = "; ".join(shorten(note, NOTE, tail=False) for note in notes[:NOTES])
    more = f", and {len(notes) - NOTES} more" if len(notes) > NOTES else ""
    link = element("a", "What was found in the table", href="#table")
    return [element("p", link, f": {shown}{more}.", class_="soft")]


def _fast(given: ReportData, near: list[str]) -> list[str]:
    seconds = {name: given.mean(name, "seconds") for name in [given.best, *near] if name != PRIOR_BASELINE}
    fastest = min(seconds, key=lambda name: seconds[name])
    if fastest == given.best or seconds[given.best] < FASTER * seconds[fastest]:
        return []
    times = f"{_time(seconds[fastest])} a fit against {_time(seconds[given.best])} for {given.best}"
    return [f"Of these {fastest} is the fastest: {times}."]


def _few(given: ReportData) -> list[str]:
    if given.splits >= ENOUGH:
        return []
    if given.splits == 1:
        return ["One split tells no noise, so that no method can be called better; --repeats 10 tells more."]
    return [f"So few splits ({given.splits}) tell little of the noise; --repeats 10 tells more."]


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 0.01 else "under 0.01 s"


def _mood(given: ReportData) -> str:
    if given.diagnosis is None:
        return ""
    word = given.diagnosis.verdict.word
    return "warns" if word in WARNS else "unsure" if word in UNSURE else ""

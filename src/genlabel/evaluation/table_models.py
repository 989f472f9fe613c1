"""Models of tables: fitted with a first measurement on held-out rows, saved, and applied to another table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, cast, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from genlabel._arrays import chunks
from genlabel._text import count_of
from genlabel._validation import check_choice
from genlabel.data.tables import Table, TableReadSpec, make_splits, read_frame, table_pipeline
from genlabel.data.tables.files import join_names
from genlabel.data.tables.mistakes import list_values
from genlabel.data.tables.reading import replace_na_values
from genlabel.data.tables.splits import Split
from genlabel.data.tables.table import select_rows
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.estimators.unusual_values import (
    describe_value,
    format_limit,
    is_new_category,
    recurring_columns,
    restore_dates,
)
from genlabel.evaluation.comparison import count_warnings, default_methods, score_table
from genlabel.evaluation.runner import groups_fit_param, with_random_state
from genlabel.metrics import index_labels, log_loss, predict_log_proba, prior_log_loss, score_log_proba
from genlabel.persistence import LoadedModel, save_model
from genlabel.persistence.model import classifier_of

TABLE_METHODS = {"genlabel": "GenLabel", "mixup": "mixup", "vanilla": "plain training", "stacked": "stacked density"}
"""Methods that can be fitted -> their names in a comparison."""
READ_SPEC = "read_spec"
"""Name under which a saved model has the `TableReadSpec` of its table."""
COLUMN_EFFECTS = "column_effects"
"""Name under which a saved model has the `ColumnEffect` of each column, as a list."""
MAX_BLANK_CELLS = 20_000
"""Maximum of rows times columns that are predicted to measure the effects of columns."""
MIN_BLANK_ROWS = 20
"""Minimum of rows for these scores."""
MIN_BLANK_LOSS = 0.01
"""Increase of the log-loss without the values of a column, from which the column matters."""
MIN_CHANCE_OF_GAPS = 0.01
"""Probability that all rows of a file lack a value by chance, below which that is unusual."""
MIN_CHANCE_OF_NEW_CATEGORIES = 0.01
"""Probability of as many new categories in a column by chance, below which a note tells them."""
FIRST_FIT_SHARE = 0.4
"""Share of the time limit that the first fit may take."""
MAX_NAMED_CLASSES = 8
"""Largest number of classes that a note names."""
MAX_UNUSUAL_COLUMNS = 5
"""Largest number of columns whose unusual values are described one by one."""
CHUNK_ROWS = 20_000
"""Rows that are predicted at once."""

StageContext = Callable[[str], AbstractContextManager[Any]]
"""Function of the name of a stage of a fit that returns a context manager for it."""


@final
@dataclass(frozen=True)
class HoldoutScores:
    """Scores of a first fit on held-out rows; the `held_out` of what `fit_table` returns."""

    rows: int
    cases: int
    """Number of groups of these rows if the table has groups, else of rows: rows of a group are not independent."""
    scores: dict[str, float]
    """Metrics of `genlabel.evaluation.comparison.score_table`."""
    prior_scores: dict[str, float]
    """Accuracy and log-loss of predicting the class priors of the other rows."""
    recall: dict[str, float]
    """Share of the held-out rows of each class that are predicted as it."""

    def to_plain(self) -> dict[str, Any]:
        """Return the scores for a model card."""
        scores = {name: self.scores[name] for name in ("accuracy", "log_loss")}
        prior = {f"prior_{name}": value for name, value in self.prior_scores.items()}
        return {"rows": self.rows, "cases": self.cases, **scores, **prior, "recall": self.recall}


class ColumnEffect(NamedTuple):
    """Effect of a column on the predictions of a model; `measure_columns` returns a dict of them."""

    missing: float
    """Share of the training rows without a value."""
    accuracy: float = float("nan")
    """Accuracy on held-out rows; NaN if none were held out."""
    accuracy_if_blank: float = float("nan")
    """Accuracy on the same rows without any value of the column."""
    loss: float = float("nan")
    """Log-loss on these rows."""
    loss_if_blank: float = float("nan")
    """Log-loss on these rows without any value of the column."""

    @property
    def matters(self) -> bool:
        """True if the scores are known to depend on the column."""
        return self.loss_if_blank - self.loss >= MIN_BLANK_LOSS

    def describe(self) -> str:
        """Return the change of the scores without the values of the column, in words.

        >>> ColumnEffect(0.0, 0.9, 0.6, 0.3, 0.7).describe()
        'right on 60.0 % instead of 90.0 %, with log-loss 0.700 instead of 0.300 (lower is better)'
        """
        right, right_if_blank = (f"{100 * share:.1f} %" for share in (self.accuracy, self.accuracy_if_blank))
        change = f"right on {right_if_blank} instead of {right}"
        if right == right_if_blank:
            change = f"right on {right} as before"
        return f"{change}, with log-loss {self.loss_if_blank:.3f} instead of {self.loss:.3f} (lower is better)"


@final
@dataclass(frozen=True)
class FittedTable:
    """Model that was fitted to a table; `fit_table` returns it."""

    model: Pipeline
    """Classifier of the features of the table."""
    read_spec: TableReadSpec
    """Specification of how the file of the table was read."""
    held_out: HoldoutScores | None
    """None if no rows were held out."""
    columns: dict[str, ColumnEffect]
    """Effect of each column of the file."""
    warnings: dict[str, int]
    """Number of times that each warning was issued during the fits."""
    seconds: float

    @property
    def chosen(self) -> dict[str, Any]:
        """Hyperparameters that the search chose."""
        return dict(getattr(self.model[-1], "best_params_", {}))

    @property
    def has_intervals(self) -> bool:
        """True if probabilities have intervals."""
        return hasattr(self.model[-1], "venn_abers_")

    def save(
        self,
        folder: str | Path,
        notes: list[str] | None = None,
        training_data: tuple[Any, Any] | None = None,
        *,
        overwrite: bool = False,
    ) -> Path:
        """Save the model with the specification of its table and its scores in a folder; see `genlabel.save_model`."""
        return save_model(
            self.model,
            folder,
            notes=notes or [],
            extra={
                READ_SPEC: self.read_spec.to_plain(),
                COLUMN_EFFECTS: {name: list(effect) for name, effect in self.columns.items()},
            },
            training_data=training_data,
            test_scores=None if self.held_out is None else self.held_out.to_plain(),
            overwrite=overwrite,
        )


def make_classifier(
    name: str, network: Any = "mlp", epochs: Any = "auto", class_weight: Any = None, device: Any = "auto"
) -> BaseEstimator:
    """Return the classifier of a method of `TABLE_METHODS`, the same as in a comparison, with class weights.

    >>> make_classifier("vanilla", class_weight="balanced").class_weight
    'balanced'
    """
    check_choice("method", name, list(TABLE_METHODS))
    method = default_methods(network, "stacked", epochs, device=device)[TABLE_METHODS[name]]
    return cast(BaseEstimator, method.set_params(class_weight=class_weight))


def fit_table(
    table: Table,
    method: BaseEstimator,
    *,
    test_size: float = 0.2,
    seed: int = 0,
    time_limit: float | None = None,
    costs: Mapping[Any, float] | str | None = None,
    stage: StageContext = nullcontext,
) -> FittedTable:
    """Measure a first fit of a method on held-out rows of a table, then fit the method to all rows.

    The held-out rows are those of the first split of `make_splits`: stratified, with groups on one side, or the latest
    ones, and none of a class of fewer than 4 rows. The folds of a search keep groups on one side, too.

    Parameters
    ----------
    table : Table
    method : classifier
        Classifier that `save_model` can save; it trains with `seed` unless it has a random state.
    test_size : float
        Share of the rows held out from the first fit; 0 skips that fit.
    seed : int
    time_limit : float, optional
        Seconds for both fits together, for methods with a network.
    costs : dict of class -> number, "balanced" or None
        Costs of errors, by which both fits predict: see `set_costs` of the classifiers.
    stage : callable (name) -> context manager

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> fitted = fit_table(load_table("iris"), GenerativeClassifier())
    >>> fitted.held_out.rows, fitted.held_out.scores["accuracy"] > 0.9
    (30, True)
    >>> fitted.model.predict(load_table("iris").X[:1]).tolist()
    ['setosa']
    """
    start, read_spec = monotonic(), TableReadSpec.of(table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held_out, columns = None, measure_columns(read_spec, table)
        if test_size > 0 and (split := _hold_out(table, test_size, seed)) is not None:
            train, test = split
            with stage("first fit"):
                limit = None if time_limit is None else FIRST_FIT_SHARE * time_limit
                first = _fit(select_rows(table, np.isin(np.arange(len(table.y)), train)), method, seed, limit, costs)
            y_train, y_test = (index_labels(table.y.iloc[rows], first.classes_) for rows in split)
            log_proba = predict_log_proba(first, table.X.iloc[test])
            hits = first[-1].decide(log_proba) == y_test
            recall = {str(first.classes_[c]): float(hits[y_test == c].mean()) for c in np.unique(y_test)}
            scores = score_table(log_proba, y_test)
            scores |= {"accuracy": float(hits.mean()), "balanced_accuracy": float(np.mean(list(recall.values())))}
            prior_scores = {"accuracy": float((y_test == np.bincount(y_train).argmax()).mean())}
            prior_scores["log_loss"] = prior_log_loss(y_train, y_test)
            cases = len(test) if table.groups is None else table.groups.iloc[test].nunique()
            held_out = HoldoutScores(len(test), cases, scores, prior_scores, recall)
            sample = np.random.default_rng(seed).permutation(len(test))
            columns = measure_columns(read_spec, table, first, test[sample], y_test[sample])
        limit = None if time_limit is None else max(time_limit - (monotonic() - start), 1.0)
        with stage("final fit"):
            model = _fit(table, method, seed, limit, costs)
        if not hasattr(model[-1], "typicality_"):
            with stage("typicality"):
                model[-1].fit_typicality(model[:-1].transform(table.X), table.y)
    return FittedTable(model, read_spec, held_out, columns, count_warnings(caught), monotonic() - start)


def measure_columns(
    read_spec: TableReadSpec,
    table: Table,
    model: Pipeline | None = None,
    rows: NDArray[np.int64] | None = None,
    y: NDArray[np.int64] | None = None,
) -> dict[str, ColumnEffect]:
    """Return the effect of each column of the file: its share of missing values, and scores without its values.

    The scores are those of a model on rows of the table that it was not trained on, with class indices `y`; of many
    columns only the first rows are predicted.

    >>> table = Table("t", pd.DataFrame({"size": [1.0, None, 3.0, 4.0]}), pd.Series(list("abab")))
    >>> measure_columns(TableReadSpec.of(table), table)["size"].missing
    0.25
    """
    features = {spec.name: [name for name in spec.features if name in table.X] for spec in read_spec.columns}
    effects = {name: ColumnEffect(float(table.X[used].isna().all(axis=1).mean())) for name, used in features.items()}
    if model is None or rows is None or y is None or len(features) > MAX_BLANK_CELLS // MIN_BLANK_ROWS:
        return effects
    rows, y = rows[: MAX_BLANK_CELLS // len(features)], y[: MAX_BLANK_CELLS // len(features)]
    for name, used in features.items():
        effects[name] = _effect_of_blanks(model, table.X.iloc[rows], y, used, effects[name].missing)
    return effects


def _effect_of_blanks(
    model: Pipeline | LoadedModel, X: pd.DataFrame, y: NDArray[np.int64], features: list[str], missing: float
) -> ColumnEffect:
    """Return the scores of a model on rows with class indices `y` (n,), with the values of features and without."""
    blank = X.assign(**dict.fromkeys(features, np.nan))
    log_probas = [predict_log_proba(model, rows) for rows in (X, blank)]
    accuracies = [float((classifier_of(model).decide(log_proba) == y).mean()) for log_proba in log_probas]
    return ColumnEffect(missing, *accuracies, *(float(log_loss(log_proba, y)) for log_proba in log_probas))


class NewRows(NamedTuple):
    """Rows of a file, read like the table of a model; `NewRows.of` returns them, and `predict_table` takes their X."""

    X: pd.DataFrame
    """Features of the model."""
    y: NDArray[np.int64] | None
    """Class index of each row, -1 for an unknown label; None without a label column."""
    notes: list[str]

    @classmethod
    def of(cls, model: LoadedModel, path: str | Path) -> NewRows:
        """Read a file for a model; for a model that `genlabel fit` did not write, columns are not converted."""
        notes: list[str] = []
        if READ_SPEC not in model.extra:
            return cls(read_frame(path, notes=notes), None, notes)
        spec = TableReadSpec.from_plain(model.extra[READ_SPEC])
        frame = spec.read(path, notes)
        X = spec.features_of(frame, notes)
        empty = _empty_columns(model, spec, X)
        notes = [note for note in notes if not note.startswith(tuple(f"missing values of {name!r}," for name in empty))]
        if empty:
            notes.append(_note_empty_columns(model, spec, empty))
        for name, kind, categories in model.schema.columns:
            if kind != "text":
                continue
            missing = int(X[name].isna().sum())
            if missing and "(missing)" not in categories and name not in empty:
                notes.append(f"missing values of {name!r}, which had none in training: {missing}")
        y = spec.classes_of(frame, model.classes_)
        if y is not None:
            notes += _note_unknown_labels(
                replace_na_values(frame[[spec.target]], spec.na_values)[spec.target], y, model
            )
        return cls(X, y, notes)


def _note_unknown_labels(labels: pd.Series[Any], y: NDArray[np.int64], model: LoadedModel) -> list[str]:
    """Return a note on the labels of a file that are not classes of the model."""
    unknown = labels[(y < 0) & labels.notna().to_numpy()]
    if not len(unknown):
        return []
    scores = "" if (y >= 0).any() else "; there are no scores"
    return [
        f"labels of {labels.name!r} that are not classes of the model: {len(unknown)} of {labels.notna().sum()} "
        f"({list_values(unknown)}); its classes are {join_names(model.classes_.tolist(), MAX_NAMED_CLASSES)}{scores}"
    ]


def _empty_columns(model: LoadedModel, spec: TableReadSpec, X: pd.DataFrame) -> dict[str, ColumnEffect]:
    """Return the columns without any value in the rows, unless that is usual, with the effect of each alone."""
    known = {name: ColumnEffect(*effect) for name, effect in model.extra.get(COLUMN_EFFECTS, {}).items()}
    empty = {}
    for column in spec.columns:
        effect = known.get(column.name, ColumnEffect(0.0))
        is_empty = bool(X[[name for name in column.features if name in X]].isna().all(axis=None))
        if is_empty and effect.missing ** len(X) <= MIN_CHANCE_OF_GAPS:
            empty[column.name] = effect
    return empty


def _note_empty_columns(model: LoadedModel, spec: TableReadSpec, empty: dict[str, ColumnEffect]) -> str:
    """Return a note on the empty columns of a file with their joint effect.

    The effect of one column was measured at the fit, on held-out rows; that of several is measured on the training rows
    that the model has kept.
    """
    shares = sorted({f"{100 - 100 * effect.missing:.0f}" for effect in empty.values()}, key=int)
    shown = f"{shares[0]} to {shares[-1]}" if len(shares) > 1 else shares[0]
    if len(empty) == 1:
        ((name, effect),) = empty.items()
        note = f"column {name!r} is empty here, and {shown} % of the training rows had a value"
        if not np.isfinite(effect.loss):
            return note
        return f"{note}; without its values a first fit was {effect.describe()} on held-out rows"
    note = f"columns {join_names(empty)} are empty here, and {shown} % of the training rows had values"
    rows = model.training_rows
    if rows is None:
        return f"{note}; their joint effect is unknown, because the model has kept no training rows"
    features = [name for column in spec.columns if column.name in empty for name in column.features if name in rows.X]
    joint = _effect_of_blanks(model, rows.X, index_labels(rows.y, model.classes_), features, float("nan"))
    return (
        f"{note}; without all their values the model is {joint.describe()} on {len(rows.y)} training rows, on which it "
        "is better than on new ones"
    )


def predict_table(
    model: LoadedModel, X: pd.DataFrame, *, intervals: bool = False, on_rows: Callable[[int], None] | None = None
) -> pd.DataFrame:
    """Return the predictions of a model for the rows of a table, in their order.

    Parameters
    ----------
    model : LoadedModel
    X : DataFrame (m, d)
        Features of the model.
    intervals : bool
        Also return the lower and the upper probability of each class, which contain the probability itself.
    on_rows : callable (rows), optional
        Called with the number of rows done since the last call.

    Returns
    -------
    DataFrame (m, ...)
        prediction, probability_CLASS for each class, with `intervals` lower_probability_CLASS and
        upper_probability_CLASS, typicality if the model has it, and unusual_values: the values of the row that are
        unlike training by themselves, with their columns and ranges, or an empty string.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.persistence import LoadedModel
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LoadedModel(GenerativeClassifier().fit(X, y))
    >>> predictions = predict_table(model, X[99:101])
    >>> predictions.drop(columns="unusual_values").round(2)
       prediction  probability_0  probability_1  probability_2  typicality
    0           1            0.0            1.0            0.0        0.91
    1           2            0.0            0.0            1.0        0.17
    >>> score_predictions(model, predictions, np.array([1, -1]))["accuracy"]
    1.0
    """
    if not len(X):
        raise ValueError("X has no rows; there is nothing to predict, pass at least one")
    if intervals and not hasattr(model.classifier, "venn_abers_"):
        raise ValueError(
            "the model was fitted without intervals; leave out intervals=True, or fit a method with a network to a "
            "table with enough rows"
        )
    parts = []
    for rows in chunks(len(X), CHUNK_ROWS):
        chunk = X.iloc[rows]
        log_proba = model.predict_log_proba(chunk)
        proba = np.exp(log_proba)
        columns: dict[str, Any] = {"prediction": model.classes_[model.classifier.decide(log_proba)]}
        columns |= {f"probability_{name}": proba[:, c] for c, name in enumerate(model.classes_)}
        if intervals:
            low, high = model.predict_proba_interval(chunk)
            for c, name in enumerate(model.classes_):
                columns |= {f"lower_probability_{name}": low[:, c], f"upper_probability_{name}": high[:, c]}
        if hasattr(model.classifier, "typicality_"):
            columns["typicality"] = model.typicality(chunk)
        unusual = np.full(len(chunk), "", dtype=object)
        for row, *value in _unusual_values(model, chunk).itertuples(index=False):
            unusual[row] += ("; " if unusual[row] else "") + describe_value(*value)
        columns["unusual_values"] = unusual
        parts.append(pd.DataFrame(columns))
        if on_rows is not None:
            on_rows(len(chunk))
    return pd.concat(parts, ignore_index=True)


def describe_unusual_rows(model: LoadedModel, X: pd.DataFrame, predictions: pd.DataFrame) -> list[str]:
    """Return how many rows of a table are unusual, as `predict_table` found them, and the unusual values by column.

    A row is unusual if its typicality is at most `TYPICALITY_THRESHOLD`, or if it has an unusual value.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LoadedModel(GenerativeClassifier().fit(X, y))
    >>> new = X[60:80].assign(**{"petal width (cm)": [130.0, *X["petal width (cm)"][61:80]]})
    >>> for line in describe_unusual_rows(model, new, predict_table(model, new)):
    ...     print(line)
    1 of 20 rows looks unusual (typicality of 0.05 or less, or an unusual value); about 1 would by chance
    unusual values of 'petal width (cm)', which was 0.1 to 2.5 in training: 1, such as 130 in row 0, counted from 0
    """
    lines = []
    if "typicality" in predictions:
        unusual = (predictions["unusual_values"] != "") | (predictions["typicality"] <= TYPICALITY_THRESHOLD)
        rows, verb = count_of(len(X), "row"), "looks" if unusual.sum() == 1 else "look"
        lines.append(
            f"{unusual.sum()} of {rows} {verb} unusual (typicality of {TYPICALITY_THRESHOLD} or less, or an unusual "
            f"value); about {TYPICALITY_THRESHOLD * len(X):.0f} would by chance"
        )
        if (least := 1.0 / (1.0 + model.classifier.typicality_.size_)) > TYPICALITY_THRESHOLD:
            lines[0] = (
                f"{unusual.sum()} of {len(X)} rows have an unusual value; the model has too few training rows to judge "
                f"whole rows, since the lowest typicality is {least:.2f}"
            )
    groups = list(_unusual_values(model, X).groupby("column", sort=False))
    for column, values in groups[:MAX_UNUSUAL_COLUMNS]:
        row, _, value, low, high = values.iloc[0]
        if pd.isna(low):
            examples = values.drop_duplicates("value")[["value", "row"]][:3].to_numpy().tolist()
            shown = ", ".join(f"{str(text)[:50]!r} in row {number}" for text, number in examples)
            lines.append(f"values of {column!r} that training did not have: {len(values)} ({shown}, counted from 0)")
        else:
            lines.append(
                f"unusual values of {column!r}, which was {format_limit(low)} to {format_limit(high)} in training: "
                f"{len(values)}, such as {format_limit(value)} in row {row}, counted from 0"
            )
    if len(groups) > MAX_UNUSUAL_COLUMNS:
        more = count_of(len(groups) - MAX_UNUSUAL_COLUMNS, "more column")
        lines.append(f"unusual values in {more}: see unusual_values")
    return [*lines, *_note_new_categories(model, X)]


def _note_new_categories(model: LoadedModel, X: pd.DataFrame) -> list[str]:
    """Return a note on each column whose new categories are usual, but more than would be expected."""
    columns, notes = model.table_columns(), []
    recurring = recurring_columns(columns)
    for column in columns:
        if column.kind != "text" or column.name in recurring:
            continue
        count, expected = int(is_new_category(column, X).sum()), column.new_share * len(X)
        if binom.sf(count - 1, len(X), column.new_share) < MIN_CHANCE_OF_NEW_CATEGORIES:
            notes.append(
                f"{count} of {len(X)} values of {column.name!r} are new; about {expected:.0f} would be by the training "
                "rows, so single ones are not marked as unusual"
            )
    return notes


def _unusual_values(model: LoadedModel, X: pd.DataFrame) -> pd.DataFrame:
    """Return the unusual values of the rows of a file, with dates as dates."""
    values = model.unusual_values(X)
    if READ_SPEC not in model.extra:
        return values
    return restore_dates(values, TableReadSpec.from_plain(model.extra[READ_SPEC]).day_features)


def score_predictions(model: LoadedModel, predictions: pd.DataFrame, y: NDArray[np.int64]) -> dict[str, float]:
    """Return accuracy, log-loss and more of the result of `predict_table`, over the rows whose class is known.

    The class indices `y` (m,) are -1 for the other rows.

    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LoadedModel(GenerativeClassifier().fit(X, y))
    >>> score_predictions(model, predict_table(model, X[:60]), np.where(y[:60] == 0, 0, -1))["accuracy"]
    1.0
    """
    columns = [f"probability_{name}" for name in model.classes_]
    known = y >= 0
    with np.errstate(divide="ignore"):
        scores = score_log_proba(np.log(predictions[columns].to_numpy()[known]), y[known])
    hits = predictions["prediction"].to_numpy()[known] == model.classes_[y[known]]
    return scores | {"accuracy": float(hits.mean())}


def _hold_out(table: Table, share: float, seed: int) -> Split | None:
    """Return training and held-out rows; None, with a warning, if the table is too small."""
    try:
        return make_splits(table, 1, share, seed)[0]
    except ValueError as error:
        warnings.warn(f"nothing was held out: {error}", UserWarning, stacklevel=2)
        return None


def _fit(
    table: Table,
    method: BaseEstimator,
    seed: int,
    time_limit: float | None,
    costs: Mapping[Any, float] | str | None,
) -> Pipeline:
    estimator = with_random_state(method, seed)
    if time_limit is not None and "search__time_limit" in estimator.get_params():
        estimator.set_params(search__time_limit=time_limit)
    model = table_pipeline(table.X, estimator)
    model.fit(table.X, table.y, **groups_fit_param(model, table))
    model[-1].set_costs(costs)
    return model

"""Explanation of predictions: the columns that moved them, the nearest training rows, and typicality by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from genlabel._arrays import as_rng
from genlabel._validation import check_choice, check_count
from genlabel.data.tables.files import join_names
from genlabel.estimators.unusual_values import describe_value, restore_dates
from genlabel.evaluation.shapley import Array, PredictMixed, ShapleyValues, draw_orders, exact_shapley, sampled_shapley
from genlabel.persistence import LoadedModel
from genlabel.persistence.model import classifier_of
from genlabel.persistence.training_rows import TrainingRows

MAX_EXACT_COLUMNS = 8
"""Largest number of columns for which "auto" computes exact values, from 2^columns predictions a background row."""
MAX_COLUMNS_BY_SUBSETS = 16
"""Largest number of columns for which "exact" is allowed."""
MAX_LOG_ODDS = 100.0
"""Log-odds are clipped here, because those of probability 1 are infinite."""


@final
@dataclass(frozen=True)
class Explanation:
    """Explanation of the predictions of m rows with d columns and k classes; `explain` returns it.

    For each row and class, the `contributions` of the columns add up to `output` minus `base`.
    """

    model: str
    """Name of the model: its class, or the method of a comparison."""
    columns: list[str]
    """Columns of the user, (d,); those of a group count as one."""
    classes: NDArray[Any]
    """(k,)"""
    scale: str
    """"probability" or "log-odds"."""
    values: pd.DataFrame
    """Values of the rows, (m, d); the index has the labels of the rows."""
    output: Array
    """Prediction for each class on the scale, (m, k)."""
    base: Array
    """Mean of the predictions for the background rows, (k,)."""
    contributions: Array
    """(m, d, k)"""
    standard_error: Array
    """Standard errors of the contributions, (m, d, k); 0 if they are exact."""
    exact: bool
    n_background: int
    neighbors: pd.DataFrame
    """Nearest training rows: "class", "training_row", "distance", the nearest first; indexed by the row's position."""
    neighbor_values: pd.DataFrame
    """Values of the training rows in the order of `neighbors`."""
    typicality: Array | None
    """Typicality of each row, (m,); None if the model has none."""
    typicality_gain: Array | None
    """Gain in log-density from a common value in each column, (m, d)."""
    unusual_values: list[str]
    """Values of each row that are unlike training by themselves, with their columns and ranges, in words, (m,)."""

    @property
    def predicted(self) -> NDArray[np.intp]:
        """Index of the most probable class of each row, (m,)."""
        return self.output.argmax(axis=1)

    @property
    def mean_absolute(self) -> Array:
        """Mean over the rows of half the sum over the classes of the absolute contributions, (d,).

        On the probability scale it is the mean probability that a column moves from some classes to others.
        """
        return np.abs(self.contributions).sum(axis=2).mean(axis=0) / 2.0

    def chosen(self, label: Any = None) -> NDArray[np.intp]:
        """Return the index of the class to explain for each row, (m,): that of `label`, or the predicted class."""
        return self.predicted if label is None else np.full(len(self.values), class_index(self.classes, label))

    def to_frame(self, label: Any = None) -> pd.DataFrame:
        """Return a line for each row and column, for the predicted class of the row or the class `label`."""
        m, d, _ = self.contributions.shape
        chosen, rows = self.chosen(label), np.arange(m)
        lines = {
            "row": np.repeat(self.values.index.to_numpy(), d),
            "class": np.repeat(self.classes[chosen], d),
            self.scale: np.repeat(self.output[rows, chosen], d),
            "background": np.repeat(self.base[chosen], d),
            "column": self.columns * m,
            "value": self.values.to_numpy(dtype=object).ravel(),
            "contribution": self.contributions[rows, :, chosen].ravel(),
            "standard_error": self.standard_error[rows, :, chosen].ravel(),
        }
        if self.typicality is not None:
            lines["typicality"] = np.repeat(self.typicality, d)
        if self.typicality_gain is not None:
            lines["typicality_gain"] = self.typicality_gain.ravel()
        return pd.DataFrame(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        names = [str(name) for name in self.classes.tolist()]
        rows = []
        for i, label in enumerate(self.values.index.tolist()):
            columns = []
            for j, name in enumerate(self.columns):
                value: Any = self.values.iat[i, j]
                column = {
                    "column": name,
                    "value": None if pd.isna(value) else value if isinstance(value, float | int) else str(value),
                    "contributions": dict(zip(names, self.contributions[i, j].tolist(), strict=True)),
                    "standard_errors": dict(zip(names, self.standard_error[i, j].tolist(), strict=True)),
                }
                if self.typicality_gain is not None:
                    column["typicality_gain"] = float(self.typicality_gain[i, j])
                columns.append(column)
            near = self.neighbors.loc[[i]]
            rows.append(
                {
                    "row": label,
                    "prediction": names[self.predicted[i]],
                    "output": dict(zip(names, self.output[i].tolist(), strict=True)),
                    "columns": columns,
                    "nearest_training_rows": near.assign(**{"class": near["class"].astype(str)}).to_dict("records"),
                    "typicality": None if self.typicality is None else float(self.typicality[i]),
                    "unusual_values": self.unusual_values[i],
                }
            )
        return {
            "model": self.model,
            "scale": self.scale,
            "exact": self.exact,
            "background_rows": self.n_background,
            "background_output": dict(zip(names, self.base.tolist(), strict=True)),
            "rows": rows,
        }


def class_index(classes: NDArray[Any], label: Any) -> int:
    """Return the index of a class; raise if the model does not have it."""
    names = [str(name) for name in classes.tolist()]
    if str(label) not in names:
        raise ValueError(f"the model has no class {str(label)!r}; its classes are {join_names(names)}")
    return names.index(str(label))


def explain(
    model: Any,
    X: Any,
    X_train: Any = None,
    y_train: Any = None,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    scale: str = "probability",
    method: str = "auto",
    n_background: int = 100,
    n_permutations: int = 10,
    n_neighbors: int = 3,
    random_state: Any = 0,
    on_rows: Callable[[int], None] | None = None,
) -> Explanation:
    """Explain the predictions of a fitted model for the rows of `X`: which columns moved them, and what is near.

    A contribution is a Shapley value: the prediction minus its mean over background rows of the training data is
    divided among the columns. A column that is not yet known takes the value of a background row. See docs/explain.md.

    Parameters
    ----------
    model : classifier, Pipeline or LoadedModel
        Fitted classifier of genlabel, alone or at the end of a pipeline, or what `load_model` returns.
    X : array or DataFrame (m, d)
    X_train, y_train : array or DataFrame (n, d) and array (n,), optional
        Training data; by default the rows that were saved with the model.
    groups : dict of str, optional
        Columns that count as one, by the name to show, such as {"since": ["since (day)", "since (month)"]}.
    scale : "probability" or "log-odds"
        Scale on which contributions add up.
    method : "auto", "exact" or "permutation"
        "exact" takes every subset of columns, "permutation" random orders of the columns; "auto" is "exact" for at
        most 8 columns.
    n_background : int
        Number of background rows, drawn from the training data.
    n_permutations : int
        Number of orders for each background row, even and at least 4.
    n_neighbors : int
        Number of nearest training rows of each class.
    random_state : int, Generator or None
        Seed of the background and of the orders. They are the same for all rows.
    on_rows : callable (rows), optional
        Called with the number of rows done since the last call.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> explanation = explain(GenerativeClassifier().fit(X, y), X[70:71], X, y)
    >>> explanation.to_frame()[["column", "value", "contribution"]].round(2)
                  column value  contribution
    0  sepal length (cm)   5.9         -0.03
    1   sepal width (cm)   3.2         -0.08
    2  petal length (cm)   4.8          0.05
    3   petal width (cm)   1.8          0.26
    """
    check_is_fitted(classifier_of(model), "scaler_")
    check_choice("scale", scale, ["probability", "log-odds"])
    check_count("n_background", n_background)
    check_count("n_neighbors", n_neighbors)
    loaded = model if isinstance(model, LoadedModel) else LoadedModel(model)
    frame, rng = loaded.schema.to_frame(X), as_rng(random_state)
    if not len(frame):
        raise ValueError("X has no rows; there is nothing to explain, pass at least one")
    rows = _training_rows(loaded, X_train, y_train, rng)
    columns = _column_groups([str(name) for name in frame.columns], groups or {})
    exact, d = _is_exact(method, len(columns)), len(columns)
    neighbors, neighbor_positions = _nearest_rows(loaded, frame, rows, n_neighbors)
    background = rows.X.iloc[:n_background]
    n = len(background)
    orders = None if exact else draw_orders(d, n, n_permutations, rng)
    start, output = _predict(loaded, background, scale), _predict(loaded, frame, scale)
    shares: list[ShapleyValues] = []
    for i in range(len(frame)):
        predict = _mixed_predictor(loaded, background, frame.iloc[[i]], list(columns.values()), scale)
        shares.append(
            exact_shapley(predict, d, n) if orders is None else sampled_shapley(predict, orders, start, output[i])
        )
        if on_rows is not None:
            on_rows(1)
    return Explanation(
        model=type(loaded.classifier).__name__,
        columns=list(columns),
        classes=loaded.classes_,
        scale=scale,
        values=_shown_values(frame, columns),
        output=output,
        base=start.mean(axis=0),
        contributions=np.stack([share.values for share in shares]),
        standard_error=np.stack([share.standard_error for share in shares]),
        exact=exact,
        n_background=n,
        neighbors=neighbors,
        neighbor_values=_shown_values(rows.X.iloc[neighbor_positions], columns),
        **_typicality(loaded, frame, columns),
        unusual_values=_unusual_values(loaded, frame, columns),
    )


def _training_rows(model: LoadedModel, X: Any, y: Any, rng: np.random.Generator) -> TrainingRows:
    """Return the training rows that the user gave, in random order, or those that were saved with the model."""
    if X is not None and y is not None:
        return TrainingRows.draw(model.schema, X, y, None, rng)
    if X is not None or y is not None:
        raise ValueError("X_train and y_train belong together; pass both, or neither")
    if model.training_rows is None:
        raise ValueError("the model was saved without training rows; pass the training data, X_train and y_train")
    return model.training_rows


def _is_exact(method: str, d: int) -> bool:
    """Return whether a method computes exact values for d columns."""
    check_choice("method", method, ["auto", "exact", "permutation"])
    if method == "exact" and d > MAX_COLUMNS_BY_SUBSETS:
        raise ValueError(
            f"method='exact' needs 2^{d} predictions a background row; use 'permutation', an estimate, "
            f"or at most {MAX_COLUMNS_BY_SUBSETS} columns"
        )
    return d == 1 or method == "exact" or (method == "auto" and d <= MAX_EXACT_COLUMNS)


def _column_groups(features: list[str], groups: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Return the positions of the features of each column, in the order of the features."""
    name_of = {feature: name for name, members in groups.items() for feature in members}
    unknown = [feature for feature in name_of if feature not in features]
    if unknown:
        raise ValueError(f"groups has {join_names(unknown)}, but the model has the columns {join_names(features)}")
    repeated = [name for name in groups if name in features and name_of.get(name) != name]
    if repeated or len(name_of) < sum(map(len, groups.values())):
        raise ValueError(f"groups={dict(groups)!r} names a column twice; give each group other columns and a new name")
    columns: dict[str, list[int]] = {}
    for position, feature in enumerate(features):
        columns.setdefault(name_of.get(feature, feature), []).append(position)
    return columns


def _mixed_predictor(
    model: LoadedModel, background: pd.DataFrame, row: pd.DataFrame, columns: list[list[int]], scale: str
) -> PredictMixed:
    """Return a function that predicts background rows in which the columns of a mask have the values of a row."""
    column_of = np.empty(background.shape[1], dtype=np.intp)
    for column, positions in enumerate(columns):
        column_of[positions] = column
    stacked = [_stack(background[name], row[name]) for name in background.columns]

    def predict(mask: NDArray[np.bool_], number: NDArray[np.intp]) -> Array:
        index = np.where(mask, len(background), number[:, None])
        mixed = [values.take(index[:, column]) for values, column in zip(stacked, column_of, strict=True)]
        return _predict(model, pd.DataFrame(dict(zip(background.columns, mixed, strict=True))), scale)

    return predict


def _stack(first: pd.Series[Any], second: pd.Series[Any]) -> Any:
    """Return the values of both columns as one array; values of other types than in training stay what they are."""
    if first.dtype == second.dtype:
        return pd.concat([first, second]).array
    values = np.concatenate([first.to_numpy(dtype=object), second.to_numpy(dtype=object)])
    return pd.Series(values).infer_objects().array


def _as_input(model: LoadedModel, frame: pd.DataFrame) -> Any:
    """Return what the model takes: a DataFrame, or an array if it was fitted without names of columns."""
    return frame if model.schema.named else frame.to_numpy()


def _predict(model: LoadedModel, frame: pd.DataFrame, scale: str) -> Array:
    """Return the probabilities, or their log-odds, of each class, (m, k)."""
    log_proba = model.predict_log_proba(_as_input(model, frame))
    if scale == "probability":
        return np.exp(log_proba)
    top = log_proba.argmax(axis=1)[:, None]
    others = log_proba.copy()
    np.put_along_axis(others, top, -np.inf, axis=1)
    log_rest = np.log1p(-np.exp(others))
    np.put_along_axis(log_rest, top, logsumexp(others, axis=1)[:, None], axis=1)  # 1 - p is inexact for p near 1
    return np.clip(log_proba - log_rest, -MAX_LOG_ODDS, MAX_LOG_ODDS)


def _nearest_rows(
    model: LoadedModel, frame: pd.DataFrame, rows: TrainingRows, count: int
) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Return the nearest training rows of each class, by the distance of standardized features, and their positions."""
    scaler = model.classifier.scaler_
    queries, points = (scaler(model.features(_as_input(model, part))) for part in (frame, rows.X))
    parts = []
    for name in model.classes_:
        members = np.flatnonzero(rows.y == name)
        if not len(members):
            continue
        n_nearest = min(count, len(members))
        distance, nearest = NearestNeighbors(n_neighbors=n_nearest).fit(points[members]).kneighbors(queries)
        part = {"row": np.repeat(np.arange(len(frame)), n_nearest), "class": name, "distance": distance.ravel()}
        parts.append(pd.DataFrame(part | {"position": members[nearest.ravel()]}))
    if not parts:
        known = join_names([str(name) for name in model.classes_.tolist()])
        raise ValueError(f"y_train has none of the classes of the model, {known}; pass the labels of X_train")
    neighbors = pd.concat(parts).sort_values(["row", "distance"], kind="stable").set_index("row")
    positions = neighbors.pop("position").to_numpy()
    neighbors.insert(1, "training_row", rows.X.index.to_numpy()[positions])
    return neighbors, positions


def _typicality(model: LoadedModel, frame: pd.DataFrame, columns: Mapping[str, list[int]]) -> dict[str, Array | None]:
    """Return the typicality of the rows, (m,), and the gain from a common value in each column, (m, d)."""
    if not hasattr(model.classifier, "typicality_"):
        return {"typicality": None, "typicality_gain": None}
    rows = _as_input(model, frame)
    gains = model.atypical_columns(rows)
    by_feature = (gains[list(frame.columns)] if model.schema.named else gains).to_numpy()
    of_columns = [by_feature[:, positions].max(axis=1) for positions in columns.values()]
    return {"typicality": model.typicality(rows), "typicality_gain": np.stack(of_columns, axis=1)}


def _unusual_values(model: LoadedModel, frame: pd.DataFrame, columns: Mapping[str, list[int]]) -> list[str]:
    """Return the values of each row that are unlike training by themselves, in words, (m,)."""
    words: list[list[str]] = [[] for _ in range(len(frame))]
    values = restore_dates(
        model.unusual_values(_as_input(model, frame)), {f"{name} (day)": name for name in _date_groups(frame, columns)}
    )
    for row, *value in values.itertuples(index=False):
        words[row].append(describe_value(*value))
    return ["; ".join(texts) for texts in words]


def _date_groups(frame: pd.DataFrame, columns: Mapping[str, list[int]]) -> list[str]:
    """Return the groups of features that are parts of a date."""
    return [name for name, positions in columns.items() if frame.columns[positions[0]] == f"{name} (day)"]


def _shown_values(frame: pd.DataFrame, columns: Mapping[str, list[int]]) -> pd.DataFrame:
    """Return the value of each column; those of a group are joined, and the parts of a date are shown as the date."""
    shown: dict[str, Any] = {}
    dates = _date_groups(frame, columns)
    for name, positions in columns.items():
        parts = [frame.iloc[:, position] for position in positions]
        if name in dates:
            shown[name] = pd.to_datetime(parts[0], unit="D").dt.date.astype(object)
        elif len(parts) == 1:
            shown[name] = parts[0].astype(object)
        else:
            shown[name] = [", ".join(map(str, values)) for values in zip(*parts, strict=True)]
    return pd.DataFrame(shown, index=frame.index)

"""Save a fitted model and load it again, without pickle: no code of the files runs."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import genlabel
from genlabel._text import count_of
from genlabel.data.tables.table import EncodedColumn, encoded_columns
from genlabel.estimators.classifier import Intervals, ProbabilityClassifier
from genlabel.estimators.unusual_values import find_unusual_values
from genlabel.persistence.card import describe_model, write_card
from genlabel.persistence.files import TREE, Decoder, Encoder, Files, check_folder, read_files, write_files
from genlabel.persistence.legacy import upgrade_about, upgrade_extra
from genlabel.persistence.objects import PersistenceError
from genlabel.persistence.schema import Schema
from genlabel.persistence.training_rows import TrainingRows

PACKAGES = ("numpy", "pandas", "scikit-learn", "torch")
"""Packages on which predictions depend; their versions are saved."""
PROBE_TOLERANCE = 1e-4
"""Largest difference, relative and absolute, of the log-probabilities of the probes on another machine."""


@final
class LoadedModel:
    """A loaded model; it checks the columns of a table, and predicts its rows.

    `load_model` returns it. Fitted attributes (`best_params_`, `cv_results_`, ...) are those of the classifier.

    Attributes
    ----------
    model : Pipeline or classifier
        The saved object.
    classifier : classifier
        The model itself, or the last step of the pipeline.
    schema : Schema
        Columns that it takes: names, kinds, categories.
    about : dict
        Facts of the model card, and "left_out", parameters that could not be saved.
    extra : dict
        Values that were saved with the model.
    training_rows : TrainingRows or None
        Sample of the training rows, if one was saved with the model.
    classes_ : ndarray (k,)
        Class labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GenerativeClassifier().fit(X, y)
    >>> LoadedModel(model)
    <GenerativeClassifier for 4 columns and 3 classes>
    """

    def __init__(
        self,
        model: Any,
        schema: Schema | None = None,
        about: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        training_rows: TrainingRows | None = None,
    ) -> None:
        self.model, self.about, self.extra = model, dict(about or {}), dict(extra or {})
        self.training_rows = training_rows
        self.classifier: ProbabilityClassifier = classifier_of(model)
        self.schema = Schema.of(model) if schema is None else schema

    def __repr__(self) -> str:
        columns, classes = count_of(len(self.schema.columns), "column"), count_of(len(self.classes_), "class")
        return f"<{type(self.classifier).__name__} for {columns} and {classes}>"

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the classifier."""
        if name == "classifier" or not name.endswith("_") or name.startswith("_"):
            raise AttributeError(f"a LoadedModel has no attribute {name!r}")
        return getattr(self.classifier, name)

    def features(self, X: Any) -> NDArray[np.float64]:
        """Return the features (m, d) of a table, without missing values, before the classifier standardizes them."""
        return self.classifier.encode(self._checked(X))

    def predict(self, X: Any, return_typicality: bool = False) -> Any:
        """Return the most probable class of each row, (m,); with `return_typicality`, also its typicality, (m,)."""
        return self.classifier.predict(self._checked(X), return_typicality)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (m, k), columns in the order of `classes_`."""
        return self.classifier.predict_proba(self._checked(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k)."""
        return self.classifier.predict_log_proba(self._checked(X))

    def typicality(self, X: Any) -> NDArray[np.float64]:
        """Return the typicality of each row among the training rows, (m,), in (0, 1]."""
        return self.classifier.typicality(self._checked(X))

    def atypical_columns(self, X: Any) -> pd.DataFrame:
        """Return how much more typical each row becomes with a common value in each column, (m, columns)."""
        gains = self.classifier.atypical_columns(self._checked(X), self.table_columns())
        return gains.set_axis(X.index) if isinstance(X, pd.DataFrame) else gains

    def unusual_values(self, X: Any) -> pd.DataFrame:
        """Return a line for each value of `X` that is far outside the training rows: row, column, value, range."""
        checked, encoder = self.schema.check(X), self.classifier.encoder_
        if not isinstance(self.model, Pipeline):
            return self.classifier.unusual_values(checked)
        points = self.classifier.encode(self.model[:-1].transform(checked))
        arrays = [points, *(np.zeros_like(points[:1]) + limit for limit in (encoder.minimum, encoder.maximum))]
        steps = [step for _, step in self.model.steps[:-1] if not isinstance(step, ColumnTransformer)]
        for step in reversed(steps):  # a scaler: report the units of the table
            arrays = [step.inverse_transform(values) for values in arrays]
        return find_unusual_values(self.table_columns(), checked, arrays[0], arrays[1][0], arrays[2][0])

    def predict_proba_interval(self, X: Any) -> Intervals:
        """Return lower and upper probabilities of each class, (m, k) each, around those of `predict_proba`."""
        return self.classifier.predict_proba_interval(self._checked(X))

    def table_columns(self) -> list[EncodedColumn]:
        """Return the columns that the model uses, with the features that the pipeline or classifier makes of them."""
        first = self.model.steps[0][1] if isinstance(self.model, Pipeline) else self.classifier
        if isinstance(first, ColumnTransformer):
            return encoded_columns(first)
        if first is self.classifier:
            return self.classifier.encoder_.table_columns(self.classifier)
        names = (column.name for column in self.schema.columns)
        return [EncodedColumn(name, "numbers", range(i, i + 1)) for i, name in enumerate(names)]

    def _checked(self, X: Any) -> Any:
        """Return the input of the classifier for a table that fits the schema."""
        checked = self.schema.check(X)
        return self.model[:-1].transform(checked) if isinstance(self.model, Pipeline) else checked


def save_model(
    model: Any,
    folder: str | PathLike[str],
    *,
    notes: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
    training_data: tuple[Any, Any] | None = None,
    test_scores: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a fitted model into a folder: arrays in safetensors, everything else in JSON, and a model card.

    Before the files are written, the model is built from their contents and
    must predict the same for a few rows, to the last bit.

    Parameters
    ----------
    model : GenLabelClassifier, MixupClassifier, AdaMixupClassifier, GenerativeClassifier, Pipeline or LoadedModel
        Fitted classifier, or a pipeline of `genlabel.data.tables.table_pipeline` that ends in one.
    folder : path
        Folder of the model.
    notes : sequence of str
        Lines for the model card, such as the source of the data.
    extra : dict, optional
        Values to save with the model, such as the options of reading its file: numbers, strings, arrays, lists, dicts.
        They come back as `LoadedModel.extra`.
    training_data : (X, y), optional
        The training data, of which up to 500 random rows, and at least 5 of each class, are kept in the folder for
        `genlabel.explain`. Whoever has the folder can read them.
    test_scores : dict, optional
        Scores on rows that no fit has seen, with which the card begins: rows, accuracy and log_loss, and if known
        recall (of each class), and prior_accuracy and prior_log_loss, those of predicting the class priors.
    overwrite : bool
        Replace a model that is in the folder; without it, that is an error. A folder with other files is refused.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GenerativeClassifier("kernel").fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_model(save_model(model, folder))
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    extra, training_rows = dict(extra or {}), None
    check_folder(Path(folder), overwrite)
    if isinstance(model, LoadedModel):
        notes = [*model.about.get("notes", []), *notes]
        test_scores = test_scores or model.about.get("test_scores")
        extra, training_rows = model.extra | extra, model.training_rows
        model = model.model
    classifier = classifier_of(model)
    check_is_fitted(classifier, "scaler_")
    schema, encoder = Schema.of(model), Encoder()
    tree = encoder.encode(model, "model")
    if training_data is not None:
        training_rows = TrainingRows.draw(schema, *training_data)
    about = describe_model(classifier, schema, notes, test_scores)
    about["training_rows"] = 0 if training_rows is None else len(training_rows.y)
    predictions = _predict_probes(LoadedModel(model, schema))
    probes = {name: encoder.encode(values, f"probes.{name}") for name, values in predictions.items()}
    left_out = {name: text for item in encoder.objects for name, text in item.get("left_out", {}).items()}
    body = {
        "about": about,
        "extra": encoder.encode(extra, "extra"),
        "classes": [str(name) for name in classifier.classes_.tolist()],
        "left_out": left_out,
        "model": tree,
        "objects": encoder.objects,
        "probes": probes,
        "schema": schema.to_plain(),
        "training_rows": encoder.encode(None if training_rows is None else training_rows.to_plain(schema), "rows"),
        "versions": _versions(),
    }
    files = Files(body, encoder.arrays)
    copy = _predict_probes(_decode(files)[0])
    if not all(np.array_equal(copy[name], values, equal_nan=True) for name, values in predictions.items()):
        raise RuntimeError(f"a copy of this {about['kind']} would give other predictions, so none is saved; report it")
    write_files(Path(folder), files, write_card({**about, "left_out": left_out}, schema))
    if left_out:
        hint = "after loading they have their defaults, and predictions are the same"
        warnings.warn(f"left out, because they cannot be saved: {', '.join(left_out)}; {hint}", UserWarning, 2)
    return Path(folder)


def load_model(folder: str | PathLike[str]) -> LoadedModel:
    """Load a model that :func:`save_model` has written; no code of the files runs.

    A file that is missing, changed, or of another format raises a ValueError, and so does a model that gives other
    predictions than where it was saved. Models of genlabel 0.2.0 are read, too.

    Parameters
    ----------
    folder : path
        Folder that `save_model` has written.

    Returns
    -------
    LoadedModel

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(GenerativeClassifier().fit(X, y), folder, notes=["iris, all rows"])
    ...     loaded = load_model(path)
    >>> loaded.about["notes"], loaded.predict(X[:2]).tolist()
    (['iris, all rows'], [0, 0])
    """
    path = Path(folder)
    files = read_files(path)
    try:
        model, expected = _decode(files)
        log_proba = _predict_probes(model)["log_proba"]
    except Exception as error:  # a forged file may fail in any way
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
        reason = kind + " ".join(str(error).split())[:200]
        raise ValueError(f"{str(path / TREE)!r} cannot be loaded: {reason}{_version_hint(files.body)}") from error
    same_shape = expected.shape == log_proba.shape
    if not same_shape or not np.allclose(log_proba, expected, PROBE_TOLERANCE, PROBE_TOLERANCE, equal_nan=True):
        hint = _version_hint(files.body)
        raise ValueError(f"the model in {str(path)!r} gives other predictions than where it was saved{hint}")
    return model


def classifier_of(model: Any) -> ProbabilityClassifier:
    """Return the model itself or the last step of a pipeline; raise unless it is a classifier of genlabel."""
    if isinstance(model, LoadedModel):
        return model.classifier
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, ProbabilityClassifier):
        raise PersistenceError(
            f"{type(last).__name__} is not a classifier of genlabel; fit a GenLabelClassifier, MixupClassifier, "
            "AdaMixupClassifier or GenerativeClassifier, alone or at the end of genlabel.data.tables.table_pipeline"
        )
    return last


def _decode(files: Files) -> tuple[LoadedModel, NDArray[np.float64]]:
    """Return the model in the files, and the log-probabilities that it gave the probes when it was saved."""
    body, decoder = files.body, Decoder(files.body["objects"], files.arrays, files.format_version)
    about, extra = body["about"], decoder.decode(body["extra"])
    if files.format_version == 1:
        about, extra = upgrade_about(about), upgrade_extra(extra)
    about = {**about, "left_out": body["left_out"], "versions": body["versions"]}
    model, schema = decoder.decode(body["model"]), Schema.from_plain(body["schema"])
    rows = decoder.decode(body.get("training_rows"))
    training_rows = None if rows is None else TrainingRows.from_plain(rows)
    return LoadedModel(model, schema, about, extra, training_rows), decoder.decode(body["probes"]["log_proba"])


def _predict_probes(model: LoadedModel) -> dict[str, NDArray[np.float64]]:
    """Return the predictions for a few made-up rows: of a table, or around the mean."""
    if model.schema.table:
        rows: Any = model.schema.probes()
    else:
        mean, scale = model.classifier.scaler_.mean, model.classifier.scaler_.scale
        rows = np.stack([mean, mean + scale, mean - scale])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an array has no feature names
        predictor: Any = model if model.schema.table else model.classifier
        predictions = {"log_proba": predictor.predict_log_proba(rows)}
        if hasattr(model.classifier, "typicality_"):
            predictions["typicality"] = predictor.typicality(rows)
        if hasattr(model.classifier, "venn_abers_"):
            predictions["interval"] = np.stack(predictor.predict_proba_interval(rows))
    return predictions


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in PACKAGES}
    return {**packages, "genlabel": genlabel.__version__, "python": platform.python_version()}


def _version_hint(body: Mapping[str, Any]) -> str:
    """Return a hint about packages of other versions than where the model was saved, or an empty string."""
    there, here = body.get("versions", {}), _versions()
    different = [f"{name} {there[name]} (here {here[name]})" for name in sorted(there) if there[name] != here.get(name)]
    return f"; it was saved with {', '.join(different)}: load it with these" if different else ""

"""Saving a fitted model and loading it again, without pickle: loading runs no code from the files."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import genlabel
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.intervals import Intervals
from genlabel.persistence.card import describe, write_card
from genlabel.persistence.deserializer import Reader
from genlabel.persistence.files import TREE, Files, read_files, write_files
from genlabel.persistence.preprocessing import PersistenceError
from genlabel.persistence.schema import Schema
from genlabel.persistence.serializer import Writer

PACKAGES = ("numpy", "pandas", "scikit-learn", "torch")
"""Whose versions are noted: what is predicted is theirs to compute."""
CLOSE = 1e-4
"""Log-probabilities of the probes may differ by this share on another machine."""


@final
class LoadedModel:
    """A model that was loaded: it takes a table as it was fitted with, and checks that it is one.

    `load_model` returns it.

    What a fit has left (`best_params_`, `cv_results_`, ...) is read through from the classifier.

    Attributes
    ----------
    model : Pipeline or classifier
        As it was saved.
    classifier : classifier
        The model itself, or the last step of the pipeline.
    schema : Schema
        The columns that it takes: names, kinds, categories.
    about : dict
        What the model card says, as numbers and texts; and "left_out", parameters that could not be kept.
    extra : dict
        What was kept beside the model.
    classes_ : ndarray (k,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GenerativeClassifier().fit(X, y)
    >>> kept = LoadedModel(model, Schema.of(model))
    >>> kept
    <GenerativeClassifier for 4 columns and 3 classes>
    >>> kept.predict(X[::60]).tolist()
    [0, 1, 2]
    """

    def __init__(
        self, model: Any, schema: Schema, about: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        self.model, self.schema, self.about, self.extra = model, schema, dict(about or {}), dict(extra or {})
        self.classifier: ProbabilityClassifier = classifier_of(model)

    def __repr__(self) -> str:
        columns, classes = len(self.schema.columns), len(self.classes_)
        return f"<{type(self.classifier).__name__} for {columns} columns and {classes} classes>"

    def __getattr__(self, name: str) -> Any:
        """What a fit has left in the classifier."""
        if name == "classifier" or not name.endswith("_") or name.startswith("_"):
            raise AttributeError(f"a LoadedModel has no attribute {name!r}")
        return getattr(self.classifier, name)

    def features(self, X: Any) -> NDArray[np.float64]:
        """The table as numbers (m, d), without gaps, before the classifier standardises them."""
        return self.classifier.encode(self._given(X))

    def predict(self, X: Any, return_typicality: bool = False) -> Any:
        """The most probable class of each row, (m,); with `return_typicality`, also the support of each, (m,)."""
        return self.classifier.predict(self._given(X), return_typicality)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (m, k), columns in the order of `classes_`."""
        return self.classifier.predict_proba(self._given(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probability of each class, (m, k)."""
        return self.classifier.predict_log_proba(self._given(X))

    def typicality(self, X: Any) -> NDArray[np.float64]:
        """How typical each row is of the training rows, (m,), in (0, 1]."""
        return self.classifier.typicality(self._given(X))

    def predict_proba_interval(self, X: Any) -> Intervals:
        """A lower and an upper probability of each class, (m, k) each, by Venn-Abers on held-out rows."""
        return self.classifier.predict_proba_interval(self._given(X))

    def _given(self, X: Any) -> Any:
        """What the classifier is given of the table, once it is checked."""
        checked = self.schema.check(X)
        return self.model[:-1].transform(checked) if isinstance(self.model, Pipeline) else checked


def save_model(
    model: Any, folder: str | PathLike[str], *, notes: Sequence[str] = (), extra: Mapping[str, Any] | None = None
) -> Path:
    """Write a fitted model into a folder: arrays in safetensors, everything else in JSON, and a model card.

    A model that is there already is replaced. Before it is written it is built again from what would be, and must say
    the same of a few rows, to the last bit.

    Parameters
    ----------
    model : GenLabelClassifier, MixupClassifier, AdaMixupClassifier, GenerativeClassifier, Pipeline or LoadedModel
        Fitted; or a pipeline of `genlabel.data.table_pipeline` that ends in one, preparation included.
    folder : path
    notes : sequence of str
        Lines for the model card: where the data came from, what was left out.
    extra : dict, optional
        Plain values to keep beside the model, such as how its file is read: numbers, texts, arrays, lists, dicts. They
        come back as `LoadedModel.extra`.

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
    fitted, said, beside = model, [], dict(extra or {})
    if isinstance(model, LoadedModel):
        fitted, said, beside = model.model, model.about["notes"], {**model.extra, **beside}
    classifier, schema = classifier_of(fitted), Schema.of(_fitted(fitted))
    writer = Writer()
    tree = writer.write(fitted, "model")
    about = describe(classifier, schema, [*said, *notes])
    answers = _answers(LoadedModel(fitted, schema))
    probes = {name: writer.write(values, f"probes.{name}") for name, values in answers.items()}
    left_out = {name: said for found in writer.objects for name, said in found.get("left_out", {}).items()}
    body = {
        "about": about,
        "extra": writer.write(beside, "extra"),
        "classes": [str(name) for name in classifier.classes_.tolist()],
        "left_out": left_out,
        "model": tree,
        "objects": writer.objects,
        "probes": probes,
        "schema": schema.to_plain(),
        "versions": _versions(),
    }
    again = _answers(_rebuilt(body, writer.arrays)[0])
    if not all(np.array_equal(again[name], values, equal_nan=True) for name, values in answers.items()):
        raise RuntimeError(f"what would be written of this {about['kind']} does not say the same; please report it")
    path = Path(folder)
    write_files(path, Files(body, writer.arrays), write_card({**about, "left_out": left_out}, schema))
    return path


def load_model(folder: str | PathLike[str]) -> LoadedModel:
    """Load a model that :func:`save_model` has written; no code of the files runs.

    A file that is missing, changed, or of another format is refused with a ValueError, and so is one that does not say
    here what it said where it was saved.

    Parameters
    ----------
    folder : path

    Returns
    -------
    LoadedModel
        With `predict`, `predict_proba`, `predict_log_proba`, `typicality` and `predict_proba_interval`; `.model` is the
        saved object.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import GenerativeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(GenerativeClassifier().fit(X, y), folder, notes=["iris, all rows"])
    ...     kept = load_model(path)
    >>> kept, kept.about["notes"], kept.predict(X[:2]).tolist()
    (<GenerativeClassifier for 4 columns and 3 classes>, ['iris, all rows'], [0, 0])
    """
    path = Path(folder)
    body, arrays = read_files(path)
    try:
        found, expected = _rebuilt(body, arrays)
        here = _answers(found)["log_proba"]
    except Exception as error:  # a forged file may fail in any way
        raise ValueError(f"{str(path / TREE)!r} cannot be loaded: {_reason(error)}{_unlike(body)}") from error
    if expected.shape != here.shape or not np.allclose(here, expected, rtol=CLOSE, atol=CLOSE, equal_nan=True):
        raise ValueError(f"the model in {str(path)!r} says other things here than where it was saved{_unlike(body)}")
    return found


def _rebuilt(body: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[LoadedModel, NDArray[np.float64]]:
    """The model that files hold, and what it must say of the probes, log-probabilities."""
    reader = Reader(body["objects"], arrays)
    about = {**body["about"], "left_out": body["left_out"], "versions": body["versions"]}
    model, schema = reader.read(body["model"]), Schema.from_plain(body["schema"])
    found = LoadedModel(model, schema, about, reader.read(body["extra"]))
    return found, reader.read(body["probes"]["log_proba"])


def classifier_of(model: Any) -> ProbabilityClassifier:
    """Return the classifier that a model is, or ends in; raise if it is none of ours."""
    if isinstance(model, LoadedModel):
        return model.classifier
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, ProbabilityClassifier):
        raise PersistenceError(
            f"{type(last).__name__} cannot be kept; fit a GenLabelClassifier, MixupClassifier, AdaMixupClassifier or "
            "GenerativeClassifier, alone or at the end of genlabel.data.table_pipeline"
        )
    return last


def _fitted(model: Any) -> Any:
    check_is_fitted(classifier_of(model), "scaler_")
    return model


def _answers(model: LoadedModel) -> dict[str, NDArray[np.float64]]:
    """What a model says of a few rows that are made up: of a table, or around the mean."""
    if model.schema.table:
        rows: Any = model.schema.probes()
    else:
        mean, scale = model.classifier.scaler_.mean, model.classifier.scaler_.scale
        rows = np.stack([mean, mean + scale, mean - scale])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that an array does not have
        asked: Any = model if model.schema.table else model.classifier
        found = {"log_proba": asked.predict_log_proba(rows)}
        if hasattr(model.classifier, "typicality_"):
            found["support"] = asked.typicality(rows)
        if hasattr(model.classifier, "venn_abers_"):
            found["interval"] = np.stack(asked.predict_proba_interval(rows))
    return found


def _versions() -> dict[str, str]:
    here = {name: version(name) for name in PACKAGES}
    return {**here, "genlabel": genlabel.__version__, "python": platform.python_version()}


def _unlike(body: Mapping[str, Any]) -> str:
    """Which versions are others than those that saved the model; the way out, if there are any."""
    there, here = body.get("versions", {}), _versions()
    unlike = [f"{name} {there[name]} (here {here[name]})" for name in sorted(there) if there[name] != here.get(name)]
    return f"; it was saved with {', '.join(unlike)}: load it with these" if unlike else ""


def _reason(error: BaseException) -> str:
    """An error in one short line."""
    text = " ".join(str(error).split())[:200]
    return text if isinstance(error, ValueError) else f"{type(error).__name__} {text}"

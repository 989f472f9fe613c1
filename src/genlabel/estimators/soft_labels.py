"""Any scikit-learn classifier on soft labels: a synthetic sample is a weighted row for every class in its label."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, has_fit_parameter, validate_data

from genlabel._validation import check_frame, check_labels, check_positive, ignore_overflow, restore_on_error
from genlabel.mixing import GenMix, Sampler


def _estimator_has(method: str) -> Any:
    """Return a decorator of a method that exists only if the estimator, fitted or not, has it."""
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), method))


@final
class SoftLabelClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Train a classifier on the given rows and on synthetic samples with soft labels.

    The cross-entropy of a soft label is the mean over the classes, weighted by the label: a sample with the label (0.3,
    0.7) is two rows, of weights 0.3 and 0.7. Every classifier that takes `sample_weight` can learn from them.

    Parameters
    ----------
    estimator : classifier
        Its `fit` takes `sample_weight`. A pipeline goes around this classifier: `make_pipeline(StandardScaler(),
        SoftLabelClassifier(LogisticRegression()))`.
    sampler : Sampler or None
        Makes the synthetic samples, such as :class:`GenMix` or :class:`GenLabelSampler`; None is `GenMix()`. Its
        `output` has no effect.
    synthetic_weight : float
        Weight of a synthetic sample; a given row has weight 1.
    random_state : int, RandomState or None
        Seeds every `random_state` of the estimator and of the sampler that is None.

    Attributes
    ----------
    estimator_, sampler_
        Fitted.
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftLabelClassifier(LogisticRegression(max_iter=1000), GenMix(n_aug=0.3), random_state=0)
    >>> model.fit(X[50:], y[50:]).score(X[50:], y[50:]) > 0.9
    True
    """

    def __init__(
        self, estimator: Any, sampler: Any = None, *, synthetic_weight: float = 1.0, random_state: Any = None
    ) -> None:
        self.estimator = estimator
        self.sampler = sampler
        self.synthetic_weight = synthetic_weight
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to the rows of `X` (n, d) with labels `y` (n,), and to synthetic samples.

        A call that fails leaves the classifier unchanged.
        """
        with restore_on_error(self):
            check_positive("synthetic_weight", self.synthetic_weight, "1 gives a synthetic sample the weight of a row")
            if self.sampler is not None and not isinstance(self.sampler, Sampler):
                raise ValueError(f"sampler={self.sampler!r} must be a Sampler, such as GenMix() or GenLabelSampler()")
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise ValueError(
                    f"estimator={self.estimator!r} does not take sample_weight, which soft labels need; use one that "
                    "does, and put a pipeline around SoftLabelClassifier, not inside"
                )
            X = check_frame(X, numbers=True)
            check_labels(y)
            with ignore_overflow():
                points, target = validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
            check_classification_targets(target)
            rng = check_random_state(self.random_state)
            self.sampler_ = _seeded(GenMix() if self.sampler is None else self.sampler, rng)
            rows, labels = self.sampler_.set_params(output="weighted").fit_resample(points, target)
            weight = np.where(self.sampler_.is_synthetic_, self.synthetic_weight, 1.0) * self.sampler_.sample_weight_
            self.estimator_ = _seeded(self.estimator, rng).fit(rows, labels, sample_weight=weight)
            self.classes_ = self.estimator_.classes_
        return self

    @_estimator_has("predict")
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the estimator's class of each row, (m,)."""
        return self._call("predict", X)

    @_estimator_has("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the estimator's probabilities, (m, k)."""
        return self._call("predict_proba", X)

    @_estimator_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of the estimator's probabilities, (m, k)."""
        return self._call("predict_log_proba", X)

    @_estimator_has("decision_function")
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the estimator's scores, (m,) for two classes, else (m, k)."""
        return self._call("decision_function", X)

    def _call(self, method: str, X: Any) -> Any:
        check_is_fitted(self, "estimator_")
        points = validate_data(self, check_frame(X), dtype=np.float64, order="C", reset=False)
        return getattr(self.estimator_, method)(points)


def _seeded(estimator: Any, rng: np.random.RandomState) -> Any:
    """Return a copy with a seed for every random_state that is None."""
    copy = clone(estimator)
    unseeded = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**{name: int(rng.randint(np.iinfo(np.int32).max)) for name in sorted(unseeded)})

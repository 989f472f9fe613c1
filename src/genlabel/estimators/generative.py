"""Generative classifier: Bayes' rule on class densities, without a network."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from genlabel._runtime import one_thread
from genlabel._validation import deduplicate_warnings, restore_on_error
from genlabel.data.folds import make_folds
from genlabel.densities.candidates import named_density
from genlabel.densities.posterior import log_posterior, log_priors
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.validation import validate_fit_input


@final
class GenerativeClassifier(ProbabilityClassifier):
    """Predict the class with the largest posterior, p_c(x) pi_c (the generative classifier of arXiv Table 2).

    Parameters
    ----------
    density : "stacked", "discriminant", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or ClassDensity
        By name, "gaussian" is shrunk by the rule of Ledoit and Wolf; the paper's GM is `GaussianDensity()`.
    priors : "empirical", "uniform" or array (k,)
    class_weight : None, "balanced" or dict
        Multiplies the priors.
    standardize : bool
        Standardize the features inside; constant ones are left out.

    Attributes
    ----------
    classes_, class_count_, n_features_in_, feature_names_in_
    density_ : ClassDensity
        Fitted to `scaler_(X)`.
    typicality_ : Typicality
        Learned from the training rows, for :meth:`typicality`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> GenerativeClassifier("kernel").fit(X, y).predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        density: Any = "gaussian",
        priors: Any = "empirical",
        *,
        class_weight: Any = None,
        standardize: bool = True,
    ) -> None:
        self.density = density
        self.priors = priors
        self.class_weight = class_weight
        self.standardize = standardize

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the density to the rows of `X` (n, d) with labels `y` (n,).

        A stacked density holds out the rows of a group together: `groups` (n,). A call that fails leaves the classifier
        unchanged.
        """
        with restore_on_error(self), deduplicate_warnings(), one_thread():
            density = named_density(self.density)
            data, self.encoder_ = validate_fit_input(
                self, X, y, sample_weight, self.class_weight, smallest_class=1, groups=groups
            )
            self.scaler_ = data.fit_scaler(self.standardize)
            self.density_ = clone(density)
            params = self.density_.get_params(deep=False)
            if data.groups is not None and isinstance(params.get("cv"), Integral):
                # The density does not know the groups: it gets folds that hold them out together.
                cv, seed = params["cv"], params["random_state"]
                folds = make_folds(cv, data.y, seed, classes=data.classes, groups=data.groups)
                self.density_.set_params(cv=folds)
            self.density_.fit(self.scaler_(data.X), data.labels, data.weight)
            self.log_priors_ = log_priors(
                self.priors, self.density_.class_prior_, self.density_.default_priors, data.class_weight
            )
            self.class_weight_ = data.class_weight
            for name in ("venn_abers_", "costs_"):  # of an earlier fit
                self.__dict__.pop(name, None)
            self.classes_, self.class_count_ = data.classes, np.bincount(data.y, minlength=len(data.classes))
            self.typicality_ = Typicality().fit(data.X, data.y, data.weight)
        return self

    def resolved_config(self) -> dict[str, Any]:
        """Return the density that the parameter stands for."""
        return {"density": named_density(self.density)}

    def predict_log_proba_scaled(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probability of each class, (m, k), at standardized points, `scaler_(X)`."""
        posterior = log_posterior(self.density_.log_prob(torch.from_numpy(points)), self.log_priors_)
        return np.ascontiguousarray(posterior.log_proba.numpy())

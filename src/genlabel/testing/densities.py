"""Check of the contract of densities."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from genlabel.densities import ClassDensity, DensityWarning

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


def check_density(density: ClassDensity, *, rtol: float = 1e-9, symmetric: bool = True) -> None:
    """Check that a density keeps the contract of :class:`genlabel.densities.ClassDensity`.

    The density is cloned and fitted to small tables of 90 rows, three features and three classes. The checks cover
    parameters and clones, shapes, kinds of arrays and precision, the order of the classes, independence of the rows,
    gradients, sample weights, small and degenerate classes, far points, invalid input, pickling, and, for a density
    that is `normalized`, the integral over a line.

    Parameters
    ----------
    density : ClassDensity
        An unfitted instance whose random numbers, if any, come from a fixed seed.
    rtol : float
        Relative tolerance between results that differ by rounding only; larger for training in single precision.
    symmetric : bool
        Whether renaming the classes permutes the columns of `log_prob`; False for a density that is made for three
        given classes, which is not fitted to other tables.

    Examples
    --------
    >>> from genlabel.densities import DiscriminantDensity
    >>> check_density(DiscriminantDensity())
    """
    assert isinstance(density, ClassDensity), f"{density!r} is not a ClassDensity"
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 3)
    X = rng.normal(size=(90, 3)) * (1 + y[:, None]) + 2 * y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        parameters = density.get_params(deep=False)
        unfitted = clone(density)
        assert unfitted is not density, "clone returned the same object"
        with raises("an unfitted density was queried", NotFittedError):
            unfitted.log_prob(X)
        points, labels, fitted = X.copy(), y.copy(), clone(density)
        assert fitted.fit(points, labels) is fitted, "fit must return the density"
        assert (points == X).all(), "fit changed X"
        assert (labels == y).all(), "fit changed y"
        assert fitted.get_params(deep=False).keys() == parameters.keys(), "fit changed the parameters"
        assert fitted.classes_.tolist() == [0, 1, 2], "classes_ must be the sorted classes"
        assert fitted.n_features_in_ == 3, "n_features_in_ must be the number of features"
        np.testing.assert_allclose(fitted.class_prior_, 1 / 3, err_msg="class_prior_ must be the class frequencies")
        assert not hasattr(clone(fitted), "classes_"), "a clone of a fitted density must be unfitted"
        _check_queries(fitted, X, rtol)
        _check_fits(density, fitted, X, y, rtol, symmetric)
        if symmetric:  # otherwise the density cannot be fitted to other tables
            _check_other_tables(density)
    _check_errors(density, fitted, X, y)


def _check_queries(fitted: ClassDensity, X: Floats, rtol: float) -> None:
    """Check the kind of array, shape and precision of results, that rows are independent, and repeated queries."""
    log_prob = fitted.log_prob(X)
    assert isinstance(log_prob, np.ndarray), "a numpy array must give a numpy array"
    assert log_prob.shape == (len(X), 3), f"log_prob has shape {log_prob.shape}, expected {(len(X), 3)}"
    assert log_prob.dtype == np.float64, "numpy results must be float64"
    assert np.isfinite(log_prob).all(), "log_prob must be finite at the training points"
    assert fitted.log_prob(X.tolist()).shape == log_prob.shape, "lists must be accepted"
    assert fitted.log_prob(X[:0]).shape == (0, 3), "no rows must give no rows"
    for dtype in (torch.float64, torch.float32):
        tensor = fitted.log_prob(torch.from_numpy(X).to(dtype))
        assert isinstance(tensor, torch.Tensor), "a tensor must give a tensor"
        assert tensor.dtype == dtype, f"a tensor of {dtype} must give a tensor of {dtype}"
    exact = fitted.log_prob(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_array_equal(exact, log_prob, err_msg="tensors and arrays give different results")
    gradient = fitted.gradient(X[:5])
    assert gradient.shape == (5, 3, 3), f"gradient has shape {gradient.shape}, expected (5, 3, 3)"
    assert not np.isnan(gradient).any(), "gradient is NaN"
    far = fitted.log_prob(np.array([[1e308, 0.0, 0.0], [-1e6, 1e6, 1e6]]))
    assert not np.isnan(far).any(), "log_prob is NaN at far points"
    rtol = max(rtol, 1e-9)
    single = np.concatenate([fitted.log_prob(X[i : i + 1]) for i in (0, 41)])
    np.testing.assert_allclose(single, log_prob[[0, 41]], rtol=rtol, err_msg="rows depend on each other")
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_allclose(
        fitted.log_prob(X[order]), log_prob[order], rtol=rtol, err_msg="the order of rows matters"
    )
    np.testing.assert_array_equal(fitted.log_prob(X), log_prob, err_msg="a second query differs")


def _check_fits(
    density: ClassDensity, fitted: ClassDensity, X: Floats, y: Classes, rtol: float, symmetric: bool
) -> None:
    """Check fits to the same table in other forms, weights, and copies."""
    log_prob = fitted.log_prob(X)
    refitted = clone(fitted).fit(X, y).log_prob(X)
    np.testing.assert_array_equal(refitted, log_prob, err_msg="a refit differs; set the random state to a fixed seed")
    from_tensors = clone(density).fit(torch.from_numpy(X), torch.from_numpy(y)).log_prob(X)
    np.testing.assert_allclose(from_tensors, log_prob, rtol=rtol, err_msg="fits to tensors and to arrays differ")
    named = clone(density).fit(X, np.array(["a", "b", "c"])[y])
    assert named.classes_.tolist() == ["a", "b", "c"], "classes_ must be the sorted classes"
    np.testing.assert_allclose(named.log_prob(X), log_prob, rtol=rtol, err_msg="class names change the result")
    if symmetric:
        swapped = clone(density).fit(X, np.array(["c", "b", "a"])[y]).log_prob(X)[:, ::-1]
        np.testing.assert_allclose(swapped, log_prob, rtol=rtol, err_msg="columns must follow the sorted classes")
    ones = clone(density).fit(X, y, np.ones(len(X))).log_prob(X)
    np.testing.assert_allclose(ones, log_prob, rtol=rtol, err_msg="unit weights change the result")
    weighted = clone(density).fit(X, y, (np.arange(len(X)) >= 10).astype(float))
    present = clone(density).fit(X[10:], y[10:])
    np.testing.assert_allclose(weighted.class_prior_, present.class_prior_, err_msg="class_prior_ ignores weights")
    message = "a row of weight 0 must count as absent"
    np.testing.assert_allclose(weighted.log_prob(X), present.log_prob(X), rtol=rtol, err_msg=message)
    copied = copy.deepcopy(fitted).log_prob(X)
    np.testing.assert_array_equal(copied, log_prob, err_msg="a copy differs")
    try:
        content = pickle.dumps(fitted)
    except (AttributeError, pickle.PicklingError):  # a class that was defined in a function or a session
        return
    unpickled = pickle.loads(content)  # made above  # nosec B301
    np.testing.assert_array_equal(unpickled.log_prob(X), log_prob, err_msg="a pickled copy differs")


def _check_other_tables(density: ClassDensity) -> None:
    """Check small and degenerate classes, and that sum_c pi_c p_c integrates to 1 over a line."""
    plain = np.random.default_rng(0).normal(size=(30, 3))
    tables = {
        "a class of two points": plain[:22],
        "a class of equal points": np.vstack([plain[:20], np.ones((6, 3))]),
        "a constant column": np.column_stack([plain[:, :2], np.ones(30)]),
        "a copied column": np.column_stack([plain[:, :2], plain[:, 0]]),
    }
    for name, X in tables.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                fitted = clone(density).fit(X, (np.arange(len(X)) >= 20).astype(int))
        except ValueError as error:
            raise AssertionError(f"fit fails with {name}: {error}") from error
        log_prob = fitted.log_prob(np.vstack([X, X.mean(0) + 3.0]))
        assert not np.isnan(log_prob).any(), f"log_prob is NaN with {name}"
    if not density.normalized:
        return
    rng = np.random.default_rng(1)
    line = np.concatenate([rng.normal(size=40), rng.normal(4, 2, size=40)])[:, None]
    try:
        fitted = clone(density).fit(line, np.repeat([0, 1], 40))
    except ValueError:  # the density is made for another number of features
        return
    grid = np.linspace(-200, 200, 400_001)[:, None]
    integral = trapezoid(np.exp(fitted.log_prob(grid)) @ fitted.class_prior_, grid[:, 0])
    assert abs(integral - 1.0) < 0.01, f"exp(log_prob) integrates to {integral:.3g}; set normalized = False"


def _check_errors(density: ClassDensity, fitted: ClassDensity, X: Floats, y: Classes) -> None:
    """Check that invalid input raises ValueError and that a failing fit leaves the density as it was."""
    missing = X.copy()
    missing[3, 1] = np.nan
    for name, arguments in {
        "NaN in X": (missing, y),
        "rows without labels": (X, y[:5]),
        "no rows": (X[:0], y[:0]),
        "negative weights": (X, y, -np.ones(len(X))),
        "too few weights": (X, y, np.ones(5)),
        "a missing label": (X, np.where(y == 0, np.nan, y)),
    }.items():
        with raises(f"fit accepts {name}"):
            clone(density).fit(*arguments)
    with raises("log_prob accepts another number of features"):
        fitted.log_prob(X[:, :2])
    before = fitted.log_prob(X)
    with raises("fit accepts NaN in X"):
        fitted.fit(missing, y)
    np.testing.assert_array_equal(fitted.log_prob(X), before, err_msg="a failing fit changed the density")


@contextmanager
def raises(message: str, error: type[Exception] = ValueError) -> Iterator[None]:
    """Raise an AssertionError with the message unless an error of the type is raised within."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{message}: expected {error.__name__}")

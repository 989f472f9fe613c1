"""Expectations over lam against the moments of the Beta distribution and integrals of jumps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import beta as beta_function
from scipy.stats import beta

from genlabel_paper.theory.quadrature import graded_nodes, mixing_nodes, nodes_between


@given(alpha=st.floats(0.05, 20.0), a=st.integers(0, 6), b=st.integers(0, 6))
def test_moments_equal_the_beta_distribution(alpha: float, a: int, b: int) -> None:
    lam, weight = mixing_nodes(alpha)
    exact = beta_function(alpha + a, alpha + b) / beta_function(alpha, alpha)
    assert weight @ (lam**a * (1 - lam) ** b) == pytest.approx(exact, abs=1e-10)


@given(alpha=st.floats(0.2, 5.0), edge=st.floats(0.01, 0.99))
def test_jump_at_an_edge_is_exact(alpha: float, edge: float) -> None:
    lam, weight = mixing_nodes(alpha, [edge])
    assert weight @ (lam > edge) == pytest.approx(beta.sf(edge, alpha, alpha), abs=1e-12)


@given(edge=st.floats(0.05, 0.95), size=st.floats(0.0, 7.0), shallow=st.booleans())
def test_steep_logistic_curve_equals_the_closed_form(edge: float, size: float, shallow: bool) -> None:
    slope = 10.0**size
    depth = max(5, int(np.log2(slope)) + 2) if shallow else 24  # enough for a curve of known width
    lam, weight = nodes_between(np.array([edge]), depth)
    exact = (np.logaddexp(0, slope * (1 - edge)) - np.logaddexp(0, -slope * edge)) / slope
    assert weight @ (1 / (1 + np.exp(np.clip(-slope * (lam - edge), -700, 700)))) == pytest.approx(exact, abs=1e-9)


def test_each_row_has_its_own_edges() -> None:
    edges = np.random.default_rng(0).uniform(size=(4, 3, 2))
    edges.sort(-1)
    lam, weight = nodes_between(edges)
    assert lam.shape == weight.shape == (4, 3, 3 * len(graded_nodes().lam))
    between = (weight * ((lam > edges[..., :1]) & (lam < edges[..., 1:]))).sum(-1)
    np.testing.assert_allclose(between, edges[..., 1] - edges[..., 0], atol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("edge", [0.0, 1e-38, 1e-12, 1.0 - 1e-16, 1.0])
def test_edge_at_an_end_is_harmless(alpha: float, edge: float) -> None:
    lam, weight = mixing_nodes(alpha, [edge, 0.5])
    assert np.isfinite(lam).all()
    assert weight @ lam == pytest.approx(0.5, abs=1e-10)


def test_alpha_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"alpha=0"):
        mixing_nodes(0)

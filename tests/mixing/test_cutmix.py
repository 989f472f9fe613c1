"""Test CutMix against pasted pixels, and the distribution of its boxes."""

import numpy as np
import pytest
from scipy.stats import beta, binomtest, kstest, uniform

from genlabel.mixing import CutMix, MixParams


@pytest.mark.parametrize("side", [7, 28, 32, 49, 103])
def test_whole_pixels_come_from_one_parent(side: int) -> None:
    """Boxes aligned with pixels, pasted by slices as in Yun et al. (2019)."""
    rng = np.random.default_rng(side)
    images = rng.normal(size=(40, 3, side, side))
    draw = CutMix(pixels=side).draw(40, rng)
    expected = images.copy()
    for i, box in enumerate(draw.box):
        top, bottom, left, right = np.rint(box * side).astype(int)
        expected[i, :, top:bottom, left:right] = images[draw.partner[i], :, top:bottom, left:right]
        assert draw.lam[i] == pytest.approx(1 - (bottom - top) * (right - left) / side**2, abs=1e-12)
    np.testing.assert_array_equal(CutMix().mix(images, draw), expected)


def test_a_pixel_on_an_edge_is_weighted_by_its_covered_area() -> None:
    """Compare with a grid of 100 x 100 sub-pixels."""
    draw = MixParams(
        np.array([1, 0]), np.array([0.0, 0.0]), box=np.array([[0.13, 0.62, 0.25, 0.81], [0.0, 1.0, 0.4, 0.4]])
    )
    images = np.stack([np.zeros((1, 3, 5)), np.ones((1, 3, 5))])
    fine = (np.arange(3 * 100) + 0.5) / 300, (np.arange(5 * 100) + 0.5) / 500
    inside = ((fine[0] > 0.13) & (fine[0] < 0.62))[:, None] & ((fine[1] > 0.25) & (fine[1] < 0.81))
    expected = inside.reshape(3, 100, 5, 100).mean((1, 3))
    mixed = CutMix().mix(images, draw)
    np.testing.assert_allclose(mixed[0, 0], expected, atol=1e-9)
    np.testing.assert_array_equal(mixed[1], images[1])


def test_boxes_have_the_drawn_area_and_uniform_centers() -> None:
    draw = CutMix(alpha=1.0).draw(40_000, 0)
    top, bottom, left, right = draw.box.T
    inside = (top > 0) & (bottom < 1) & (left > 0) & (right < 1)
    np.testing.assert_allclose((bottom - top)[inside], (right - left)[inside], atol=1e-12)
    np.testing.assert_allclose(1 - draw.lam, (bottom - top) * (right - left), atol=1e-12)
    # The side s has density 2 s and fits with probability (1 - s)^2: a sixth fit, with Beta(2, 3) sides.
    assert binomtest(int(inside.sum()), len(inside), 1 / 6).pvalue > 1e-3
    assert kstest((bottom - top)[inside], beta(2, 3).cdf).pvalue > 1e-3
    small = inside & (bottom - top < 0.1)
    center = (top + bottom)[small] / 2
    assert kstest(center, uniform(0.0, 1.0).cdf).pvalue > 1e-3
    batch = CutMix(lam_per="batch").draw(5, 1)
    assert (batch.box == batch.box[0]).all()


def test_bad_input_raises() -> None:
    with pytest.raises(ValueError, match="images"):
        CutMix().mix(np.zeros((3, 4)), CutMix().draw(3, 0))
    with pytest.raises(ValueError, match="pixels=0"):
        CutMix(pixels=0).draw(3, 0)

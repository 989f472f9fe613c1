"""Numbers in sentences: a difference is never shown as none, and keeps its sign and size."""

import numpy as np
import pytest

from genlabel._text import magnitude, signed
from genlabel.evaluation.comparison import describe_change, describe_gain


@pytest.mark.parametrize("seed", range(20))
def test_differences_keep_sign_and_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for value in rng.choice([-1, 1], 50) * 10 ** rng.uniform(-6, 1, 50):
        assert float(signed(value)) == pytest.approx(value, abs=0.0006, rel=0.5)
        assert np.sign(float(signed(value))) == np.sign(value)
        assert float(magnitude(value)) > 0
        assert magnitude(value) in describe_change(value)
    assert "less than" in magnitude(1e-9)
    assert float(signed(0.0)) == 0


@pytest.mark.parametrize("low", [1e-5, 0.0004, 0.02])
def test_a_clear_difference_shows_an_interval_without_zero(low: float) -> None:
    for gain, ends in ((2 * low, (low, 3 * low)), (-2 * low, (-3 * low, -low))):
        text = describe_gain("a", "b", gain, *ends)
        assert ("clearly better" in text) == (gain > 0)
        assert not any(float(number) == 0 for number in text.replace(")", " ").split() if number[0] == "0")

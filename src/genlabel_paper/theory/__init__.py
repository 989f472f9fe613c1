"""The mathematics of the paper, executable: examples, proposition, lemmas and theorems; also oracles for tests."""

from genlabel_paper.theory.coefficients import (
    Moments,
    class_coefficients,
    limit_coefficients,
    pair_coefficients,
    taylor_coefficients,
)
from genlabel_paper.theory.example1 import (
    example1_loss,
    example1_loss_by_quadrature,
    example1_margin,
    example1_prediction,
    example1_theta,
    make_example1,
)
from genlabel_paper.theory.example2 import (
    Example2,
    example2_descent,
    example2_loss,
    example2_margins,
    example2_printed_weights,
    example2_solution,
    example2_steps_to_match,
    example2_weights,
    make_example2,
)
from genlabel_paper.theory.example3 import (
    Example3Ranges,
    example3_angle,
    example3_angles,
    example3_limit,
    example3_loss,
    example3_margin,
    example3_order,
    example3_parameters,
    make_example3,
)
from genlabel_paper.theory.expansions import Expansion, expand
from genlabel_paper.theory.gaussian import (
    GaussianPair,
    SquareCoefficients,
    inverse_coefficients,
    proof_label,
    sigma_inverse,
    sigma_matrix,
    square_coefficients,
)
from genlabel_paper.theory.inputs import SCHEMES
from genlabel_paper.theory.labels import gaussian_label, logistic_label
from genlabel_paper.theory.losses import adversarial_loss, genlabel_loss, mixup_loss, standard_loss
from genlabel_paper.theory.theorem import TheoremCheck, check_theorem

__all__ = [
    "SCHEMES",
    "Example2",
    "Example3Ranges",
    "Expansion",
    "GaussianPair",
    "Moments",
    "SquareCoefficients",
    "TheoremCheck",
    "adversarial_loss",
    "check_theorem",
    "class_coefficients",
    "example1_loss",
    "example1_loss_by_quadrature",
    "example1_margin",
    "example1_prediction",
    "example1_theta",
    "example2_descent",
    "example2_loss",
    "example2_margins",
    "example2_printed_weights",
    "example2_solution",
    "example2_steps_to_match",
    "example2_weights",
    "example3_angle",
    "example3_angles",
    "example3_limit",
    "example3_loss",
    "example3_margin",
    "example3_order",
    "example3_parameters",
    "expand",
    "gaussian_label",
    "genlabel_loss",
    "inverse_coefficients",
    "limit_coefficients",
    "logistic_label",
    "make_example1",
    "make_example2",
    "make_example3",
    "mixup_loss",
    "pair_coefficients",
    "proof_label",
    "sigma_inverse",
    "sigma_matrix",
    "square_coefficients",
    "standard_loss",
    "taylor_coefficients",
]

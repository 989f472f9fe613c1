"""A table to a model, and a model to predictions of another table: what `genlabel fit` and `genlabel predict` do."""

from genlabel.fitting.fit import METHODS, FittedTable, HeldOut, fit_table, named_method
from genlabel.fitting.predict import NewRows, low_support, predict_table, score_predictions

__all__ = [
    "METHODS",
    "FittedTable",
    "HeldOut",
    "NewRows",
    "fit_table",
    "low_support",
    "named_method",
    "predict_table",
    "score_predictions",
]

"""A table to a model, and a model to predictions of another table: what `genlabel fit` and `genlabel predict` do."""

from genlabel.evaluation.table_models.fit import METHODS, FittedTable, HoldoutScores, fit_table, make_classifier
from genlabel.evaluation.table_models.predict import NewRows, is_atypical, predict_table, score_predictions

__all__ = [
    "METHODS",
    "FittedTable",
    "HoldoutScores",
    "NewRows",
    "fit_table",
    "is_atypical",
    "make_classifier",
    "predict_table",
    "score_predictions",
]

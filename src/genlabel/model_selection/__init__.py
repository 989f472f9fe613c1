"""Model selection: options, folds, search space, successive halving, scoring, pooling, time budget, search, refit."""

from genlabel.model_selection.options import GridSearch, HalvingSearch, TrainingOptions

__all__ = ["GridSearch", "HalvingSearch", "TrainingOptions"]

"""Model selection: splits, search space, successive halving, scoring, pooling, time budget and refit."""

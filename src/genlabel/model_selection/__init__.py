"""Model selection: options, folds of a fit, search space, successive halving, scoring and pooling, refit."""

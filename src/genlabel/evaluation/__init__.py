"""Evaluation: metrics of predictions, records of runs, comparison of methods, diagnosis and image training."""

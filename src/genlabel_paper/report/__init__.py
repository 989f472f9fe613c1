"""Experiments from records: values, verdicts and figures, in the terminal or on a page."""

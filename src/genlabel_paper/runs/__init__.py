"""Runs of the reproduction: cells, settings, data and trials."""

"""Evaluation: records of runs, comparison of methods, models of tables, diagnosis and training on images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Benchmark of classifiers on many OpenML datasets: methods, runner, statistics and report.

Names are imported on first use, so that the command line can validate its options without importing torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

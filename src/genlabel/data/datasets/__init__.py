"""Datasets: tables by name, OpenML and images; the paper's synthetic datasets are in `synthetic`.

Names are loaded on first use, so that the command line can check its input at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

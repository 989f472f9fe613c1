"""Tables and datasets: file formats, column types, leaks, splits, synthetic datasets, OpenML and images."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

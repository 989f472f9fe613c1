"""Generative labels in any training loop: GenLabelMixup, and its adapters to other libraries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

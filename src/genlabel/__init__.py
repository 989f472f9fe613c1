"""GenLabel: mixup whose labels come from learned class densities (Sohn et al., arXiv 2201.02354).

The public names are loaded when they are first used, so that the command line answers at once.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from .comparison import compare, default_methods, run_comparison
from .images import TrainedImages, load_network, train_images

__all__ = [
    "TrainedImages",
    "compare",
    "default_methods",
    "load_network",
    "run_comparison",
    "train_images",
]

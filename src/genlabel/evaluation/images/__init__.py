"""Training on images, with the method and the network by name."""

from genlabel.evaluation.images.history import ImageScores
from genlabel.evaluation.images.methods import IMAGE_METHODS, ImageMethod, choose_network, make_image_method
from genlabel.evaluation.images.train import TrainedImages, load_network, train_images

__all__ = [
    "IMAGE_METHODS",
    "ImageMethod",
    "ImageScores",
    "TrainedImages",
    "choose_network",
    "load_network",
    "make_image_method",
    "train_images",
]

"""Training on images, the method and the network by name: a set of images in, a trained network and its scores out."""

from genlabel.evaluation.images.history import ImageScores
from genlabel.evaluation.images.methods import METHODS, ImageMethod, choose_network, make_image_method
from genlabel.evaluation.images.train import TrainedImages, load_network, train_images

__all__ = [
    "METHODS",
    "ImageMethod",
    "ImageScores",
    "TrainedImages",
    "choose_network",
    "load_network",
    "make_image_method",
    "train_images",
]

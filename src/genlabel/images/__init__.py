"""Training on images, the method and the network by name: a set of images in, a trained network and its scores out."""

from genlabel.images.diary import ImageScores
from genlabel.images.recipes import METHODS, Recipe, choose_network, make_recipe
from genlabel.images.train import TrainedImages, load_network, train_images

__all__ = [
    "METHODS",
    "ImageScores",
    "Recipe",
    "TrainedImages",
    "choose_network",
    "load_network",
    "make_recipe",
    "train_images",
]

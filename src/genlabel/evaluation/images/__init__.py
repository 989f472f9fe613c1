"""Training on images, with the method and the network by name."""

from genlabel.evaluation.images.train import TrainedImages, load_network, train_images

__all__ = ["TrainedImages", "load_network", "train_images"]

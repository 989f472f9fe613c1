"""The GAN density: curves and surfaces with noise, learned by an adversarial network and inverted."""

from genlabel.densities.gan.density import CollapsedGeneratorError, GANDensity

__all__ = ["CollapsedGeneratorError", "GANDensity"]

"""Density by the manifold of a GAN: generators, adversarial training, selection and inversion."""

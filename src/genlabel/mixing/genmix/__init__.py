"""GenMix: points between the classes at a given ratio of their densities (arXiv Section 7.2)."""

"""GenMix: points between the classes at a given ratio of their densities (arXiv Alg. 4)."""

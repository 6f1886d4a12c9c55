"""Weights that some classes have in addition to mixers, MLPs and norms."""

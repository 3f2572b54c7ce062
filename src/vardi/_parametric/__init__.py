"""Biases with parameters: normalisers and parameters by the profile likelihood, and what follows from them."""

from vardi._parametric.estimate import estimate, warn_of_vague_parameters
from vardi._parametric.ratio import LikelihoodRatio
from vardi._parametric.sample import ParametricSample
from vardi._parametric.setup import Setup, has_parameters

__all__ = ["LikelihoodRatio", "ParametricSample", "Setup", "estimate", "has_parameters", "warn_of_vague_parameters"]

"""Learning from the debiased sample: models whose errors know that the weights were estimated."""

from vardi.learn.inference import ModelInference, inference

__all__ = ["ModelInference", "inference"]

"""Learning from the debiased sample: any estimator, resampling, mixtures, honest evaluation, errors of models."""

from vardi.learn.check_weights import WeightUse, check_weight_use
from vardi.learn.estimator import DebiasedEstimator
from vardi.learn.inference import ModelInference, coefficient_sensitivity, inference
from vardi.learn.mixture import GaussianMixture
from vardi.learn.resampler import DebiasedResampler
from vardi.learn.risk import DebiasedScorer, debiased_risk, debiased_scorer

__all__ = [
    "DebiasedEstimator",
    "DebiasedResampler",
    "DebiasedScorer",
    "GaussianMixture",
    "ModelInference",
    "WeightUse",
    "check_weight_use",
    "coefficient_sensitivity",
    "debiased_risk",
    "debiased_scorer",
    "inference",
]

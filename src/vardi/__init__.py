"""K biased samples of one population in, one debiased sample out."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from vardi import biases, datasets, errors
from vardi._estimate.bias_check import BiasCheck
from vardi._estimate.bootstrap import Bootstrap
from vardi._estimate.bounds import Bounds
from vardi._estimate.cdf import Band, DebiasedCdf
from vardi._estimate.domains import Domains
from vardi._estimate.estimates import Estimate, Estimates
from vardi._estimate.known_check import KnownCheck
from vardi._estimate.likelihood_ratio import LikelihoodRatio
from vardi._estimate.sensitivity import Sensitivity
from vardi._facts.diagnostics import Diagnostics
from vardi._fit.debias import debias, debias_matrix, identify
from vardi._fit.sample import DebiasedSample
from vardi._rows import Windows
from vardi._solve.identify import Verdict
from vardi._solve.newton import Solution
from vardi.biases import (
    Bias,
    at_most,
    between,
    cells,
    class_shift,
    everywhere,
    exponential_tilt,
    isin,
    learned,
    logistic,
    parametric,
    power,
    proportional_to,
    smoothed,
    steps,
    where,
    window,
)
from vardi.biases._learned import LearnedCheck
from vardi.errors import (
    ContradictedKnownWarning,
    ConvergenceError,
    DroppedSamplesWarning,
    EmptySampleError,
    EngineError,
    ExpressionError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    InvalidKnownError,
    KnownOfAllWarning,
    MismatchError,
    MissingValuesError,
    NeedsRowsError,
    NotIdentifiableError,
    OutputError,
    RenamedError,
    SharedUnitsWarning,
    StudyError,
    TooLargeError,
    UnidentifiedParametersError,
    VardiError,
    VardiWarning,
    WeakOverlapWarning,
    WeakParametersWarning,
    WeightBlindError,
    WeightBlindWarning,
)

_LEARNING = ("DebiasedEstimator", "DebiasedResampler", "GaussianMixture", "debiased_risk", "debiased_scorer")


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn or draws only when it is asked for."""
    if name in ("learn", "paper", "plots", "report", "study"):
        return import_module(f"vardi.{name}")
    if name in _LEARNING:
        return getattr(import_module("vardi.learn"), name)
    raise AttributeError(f"module 'vardi' has no attribute {name!r}")


__version__ = version("vardi")

__all__ = [
    "Band",
    "Bias",
    "BiasCheck",
    "Bootstrap",
    "Bounds",
    "ContradictedKnownWarning",
    "ConvergenceError",
    "DebiasedCdf",
    "DebiasedEstimator",
    "DebiasedResampler",
    "DebiasedSample",
    "Diagnostics",
    "Domains",
    "DroppedSamplesWarning",
    "EmptySampleError",
    "EngineError",
    "Estimate",
    "Estimates",
    "ExpressionError",
    "GaussianMixture",
    "ImpossibleRowError",
    "InvalidBiasError",
    "InvalidCountsError",
    "InvalidKnownError",
    "KnownCheck",
    "KnownOfAllWarning",
    "LearnedCheck",
    "LikelihoodRatio",
    "MismatchError",
    "MissingValuesError",
    "NeedsRowsError",
    "NotIdentifiableError",
    "OutputError",
    "RenamedError",
    "Sensitivity",
    "SharedUnitsWarning",
    "Solution",
    "StudyError",
    "TooLargeError",
    "UnidentifiedParametersError",
    "VardiError",
    "VardiWarning",
    "Verdict",
    "WeakOverlapWarning",
    "WeakParametersWarning",
    "WeightBlindError",
    "WeightBlindWarning",
    "Windows",
    "at_most",
    "between",
    "biases",
    "cells",
    "class_shift",
    "datasets",
    "debias",
    "debias_matrix",
    "debiased_risk",
    "debiased_scorer",
    "errors",
    "everywhere",
    "exponential_tilt",
    "identify",
    "isin",
    "learn",
    "learned",
    "logistic",
    "parametric",
    "plots",
    "power",
    "proportional_to",
    "smoothed",
    "steps",
    "where",
    "window",
]

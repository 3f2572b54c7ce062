"""K biased samples of one population in, one debiased sample out."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from vardi import biases, datasets, errors
from vardi._bootstrap import Bootstrap
from vardi._cdf import Band, DebiasedCdf
from vardi._debias import debias, debias_matrix, identify
from vardi._diagnostics import Diagnostics
from vardi._estimates import Estimate, Estimates
from vardi._goodness import BiasCheck
from vardi._identify import Verdict
from vardi._newton import Solution
from vardi._parametric import LikelihoodRatio, ParametricSample
from vardi._rows import Windows
from vardi._sample import DebiasedSample
from vardi._sensitivity import Sensitivity
from vardi._shares import SharesCheck
from vardi._theory import Bounds
from vardi.biases import (
    Bias,
    at_most,
    between,
    class_shift,
    everywhere,
    exponential_tilt,
    isin,
    logistic,
    parametric,
    power,
    proportional_to,
    steps,
    where,
)
from vardi.errors import (
    ContradictedSharesWarning,
    ConvergenceError,
    DroppedSamplesWarning,
    EmptySampleError,
    EngineError,
    ExpressionError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    InvalidSharesError,
    MismatchError,
    MissingValuesError,
    NeedsRowsError,
    NotIdentifiableError,
    OutputError,
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
    "ContradictedSharesWarning",
    "ConvergenceError",
    "DebiasedCdf",
    "DebiasedEstimator",
    "DebiasedResampler",
    "DebiasedSample",
    "Diagnostics",
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
    "InvalidSharesError",
    "LikelihoodRatio",
    "MismatchError",
    "MissingValuesError",
    "NeedsRowsError",
    "NotIdentifiableError",
    "OutputError",
    "ParametricSample",
    "Sensitivity",
    "SharesCheck",
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
    "logistic",
    "parametric",
    "plots",
    "power",
    "proportional_to",
    "steps",
    "where",
]

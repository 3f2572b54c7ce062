"""K biased samples of one population in, one debiased sample out."""

from importlib.metadata import version

from vardi import biases, datasets, errors
from vardi._cdf import Band, DebiasedCdf
from vardi._debias import debias, debias_matrix, identify
from vardi._estimates import Estimate, Estimates
from vardi._identify import Verdict
from vardi._newton import Solution
from vardi._sample import DebiasedSample
from vardi.biases import Bias, at_most, between, class_shift, everywhere, isin, proportional_to, where
from vardi.errors import (
    ConvergenceError,
    DroppedSamplesWarning,
    EmptySampleError,
    ExpressionError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    MismatchError,
    MissingValuesError,
    NotIdentifiableError,
    VardiError,
    VardiWarning,
    WeakOverlapWarning,
)

__version__ = version("vardi")

__all__ = [
    "Band",
    "Bias",
    "ConvergenceError",
    "DebiasedCdf",
    "DebiasedSample",
    "DroppedSamplesWarning",
    "EmptySampleError",
    "Estimate",
    "Estimates",
    "ExpressionError",
    "ImpossibleRowError",
    "InvalidBiasError",
    "InvalidCountsError",
    "MismatchError",
    "MissingValuesError",
    "NotIdentifiableError",
    "Solution",
    "VardiError",
    "VardiWarning",
    "Verdict",
    "WeakOverlapWarning",
    "at_most",
    "between",
    "biases",
    "class_shift",
    "datasets",
    "debias",
    "debias_matrix",
    "errors",
    "everywhere",
    "identify",
    "isin",
    "proportional_to",
    "where",
]

"""K biased samples of one population in, one debiased sample out.

Nothing is loaded before it is asked for. The stub beside this file has the same names for type checkers and editors.
"""

from importlib import import_module
from typing import Any

_SUBMODULES = ("biases", "datasets", "errors", "learn", "mbar", "plots")
_COMMAND_LINE = ("report", "study")  # modules behind it, which are no part of the public surface
_NAMES = {  # public names by the module that holds them
    "_estimate.bootstrap": "Bootstrap",
    "_estimate.bounds": "Bounds",
    "_estimate.cdf": "Band DebiasedCdf",
    "_estimate.check_results": "BiasCheck KnownCheck",
    "_estimate.domains": "Domains",
    "_estimate.estimates": "Estimate Estimates",
    "_estimate.likelihood_ratio": "LikelihoodRatio",
    "_estimate.sensitivity.result": "Sensitivity",
    "_facts.diagnostics": "Diagnostics",
    "_fit.debias": "debias debias_matrix identify",
    "_fit.sample": "DebiasedSample",
    "_fit.saved": "load",
    "_fit.weigher": "Weigher",
    "_rows": "Windows",
    "_solve.identify": "Verdict",
    "_solve.newton": "Solution",
    "biases": "Bias at_most between cells class_shift everywhere exponential_tilt isin learned logistic parametric "
    "power proportional_to steps where window",
    "biases._learned": "LearnedCheck",
    "errors": "ContradictedKnownWarning ConvergenceError DroppedSamplesWarning EmptySampleError EngineError "
    "ExpressionError FewUnitsError ImpossibleRowError InvalidBiasError InvalidCountsError InvalidKnownError "
    "KnownOfAllWarning MismatchError MissingValuesError NeedsRowsError NotIdentifiableError OutputError "
    "SavedFitError SharedUnitsWarning StudyError TooLargeError UnidentifiedParametersError VardiError VardiWarning "
    "WeakOverlapWarning WeakParametersWarning WeightBlindError WeightBlindWarning",
    "learn": "DebiasedEstimator DebiasedResampler GaussianMixture debiased_risk debiased_scorer",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_SUBMODULES, *_MODULES])  # noqa: PLE0605 (names are in the stub)


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name in _SUBMODULES or name in _COMMAND_LINE:
        return import_module(f"vardi.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("vardi")
    if name not in _MODULES:
        raise AttributeError(f"module 'vardi' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"vardi.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""The public names of vardi, each with the module that it is loaded from when it is first asked for."""

from vardi import (
    biases as biases,
)
from vardi import (
    datasets as datasets,
)
from vardi import (
    errors as errors,
)
from vardi import (
    learn as learn,
)
from vardi import (
    mbar as mbar,
)
from vardi import (
    paper as paper,
)
from vardi import (
    plots as plots,
)
from vardi import (
    report as report,
)
from vardi import (
    study as study,
)
from vardi._estimate.bias_check import BiasCheck as BiasCheck
from vardi._estimate.bootstrap import Bootstrap as Bootstrap
from vardi._estimate.bounds import Bounds as Bounds
from vardi._estimate.cdf import Band as Band
from vardi._estimate.cdf import DebiasedCdf as DebiasedCdf
from vardi._estimate.domains import Domains as Domains
from vardi._estimate.estimates import Estimate as Estimate
from vardi._estimate.estimates import Estimates as Estimates
from vardi._estimate.known_check import KnownCheck as KnownCheck
from vardi._estimate.likelihood_ratio import LikelihoodRatio as LikelihoodRatio
from vardi._estimate.sensitivity import Sensitivity as Sensitivity
from vardi._facts.diagnostics import Diagnostics as Diagnostics
from vardi._fit.debias import debias as debias
from vardi._fit.debias import debias_matrix as debias_matrix
from vardi._fit.debias import identify as identify
from vardi._fit.sample import DebiasedSample as DebiasedSample
from vardi._rows import Windows as Windows
from vardi._solve.identify import Verdict as Verdict
from vardi._solve.newton import Solution as Solution
from vardi.biases import (
    Bias as Bias,
)
from vardi.biases import (
    at_most as at_most,
)
from vardi.biases import (
    between as between,
)
from vardi.biases import (
    cells as cells,
)
from vardi.biases import (
    class_shift as class_shift,
)
from vardi.biases import (
    everywhere as everywhere,
)
from vardi.biases import (
    exponential_tilt as exponential_tilt,
)
from vardi.biases import (
    isin as isin,
)
from vardi.biases import (
    learned as learned,
)
from vardi.biases import (
    logistic as logistic,
)
from vardi.biases import (
    parametric as parametric,
)
from vardi.biases import (
    power as power,
)
from vardi.biases import (
    proportional_to as proportional_to,
)
from vardi.biases import (
    smoothed as smoothed,
)
from vardi.biases import (
    steps as steps,
)
from vardi.biases import (
    where as where,
)
from vardi.biases import (
    window as window,
)
from vardi.biases._learned import LearnedCheck as LearnedCheck
from vardi.errors import (
    ContradictedKnownWarning as ContradictedKnownWarning,
)
from vardi.errors import (
    ConvergenceError as ConvergenceError,
)
from vardi.errors import (
    DroppedSamplesWarning as DroppedSamplesWarning,
)
from vardi.errors import (
    EmptySampleError as EmptySampleError,
)
from vardi.errors import (
    EngineError as EngineError,
)
from vardi.errors import (
    ExpressionError as ExpressionError,
)
from vardi.errors import (
    ImpossibleRowError as ImpossibleRowError,
)
from vardi.errors import (
    InvalidBiasError as InvalidBiasError,
)
from vardi.errors import (
    InvalidCountsError as InvalidCountsError,
)
from vardi.errors import (
    InvalidKnownError as InvalidKnownError,
)
from vardi.errors import (
    KnownOfAllWarning as KnownOfAllWarning,
)
from vardi.errors import (
    MismatchError as MismatchError,
)
from vardi.errors import (
    MissingValuesError as MissingValuesError,
)
from vardi.errors import (
    NeedsRowsError as NeedsRowsError,
)
from vardi.errors import (
    NotIdentifiableError as NotIdentifiableError,
)
from vardi.errors import (
    OutputError as OutputError,
)
from vardi.errors import (
    RenamedError as RenamedError,
)
from vardi.errors import (
    SharedUnitsWarning as SharedUnitsWarning,
)
from vardi.errors import (
    StudyError as StudyError,
)
from vardi.errors import (
    TooLargeError as TooLargeError,
)
from vardi.errors import (
    UnidentifiedParametersError as UnidentifiedParametersError,
)
from vardi.errors import (
    VardiError as VardiError,
)
from vardi.errors import (
    VardiWarning as VardiWarning,
)
from vardi.errors import (
    WeakOverlapWarning as WeakOverlapWarning,
)
from vardi.errors import (
    WeakParametersWarning as WeakParametersWarning,
)
from vardi.errors import (
    WeightBlindError as WeightBlindError,
)
from vardi.errors import (
    WeightBlindWarning as WeightBlindWarning,
)
from vardi.learn import (
    DebiasedEstimator as DebiasedEstimator,
)
from vardi.learn import (
    DebiasedResampler as DebiasedResampler,
)
from vardi.learn import (
    GaussianMixture as GaussianMixture,
)
from vardi.learn import (
    debiased_risk as debiased_risk,
)
from vardi.learn import (
    debiased_scorer as debiased_scorer,
)

__version__: str

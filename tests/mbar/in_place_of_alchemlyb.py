"""A plugin of pytest: alchemlyb's estimator MBAR is vardi's, in its tests, workflows and functions of convergence."""

import logging

logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
import alchemlyb.estimators  # noqa: E402
import alchemlyb.estimators.mbar_  # noqa: E402

logging.disable(logging.NOTSET)
from vardi.mbar import AlchemicalEstimator  # noqa: E402

alchemlyb.estimators.MBAR = alchemlyb.estimators.mbar_.MBAR = AlchemicalEstimator

import alchemlyb.convergence.convergence as of_convergence  # noqa: E402

of_convergence.estimators_dispatch["MBAR"] = AlchemicalEstimator  # wherever it was read before

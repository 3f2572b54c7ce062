"""A plugin of pytest: alchemlyb's estimator MBAR is vardi's, in its tests, workflows and functions of convergence."""

import logging

import vardi


def pytest_configure(config):
    logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
    import alchemlyb.estimators
    import alchemlyb.estimators.mbar_

    logging.disable(logging.NOTSET)
    alchemlyb.estimators.MBAR = alchemlyb.estimators.mbar_.MBAR = vardi.mbar.AlchemicalEstimator
    from alchemlyb.convergence import convergence

    convergence.estimators_dispatch["MBAR"] = vardi.mbar.AlchemicalEstimator  # wherever it was read before

"""A plugin of pytest: what pymbar's own tests import from pymbar is vardi's."""

import logging

import numpy as np

import vardi


def pytest_configure(config):
    logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
    import pymbar
    import pymbar.utils

    logging.disable(logging.NOTSET)
    pymbar.MBAR, pymbar.FES = vardi.mbar.MBAR, vardi.mbar.FES
    pymbar.utils.ParameterError = vardi.VardiError  # the class of what is refused
    np.random.seed(0)  # noqa: NPY002 their tests draw from the global generator

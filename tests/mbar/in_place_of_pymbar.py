"""A plugin of pytest: what pymbar's own tests import from pymbar is vardi's."""

import logging

import numpy as np

logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
import pymbar  # noqa: E402
import pymbar.utils  # noqa: E402

logging.disable(logging.NOTSET)
from vardi import VardiError  # noqa: E402
from vardi.mbar import FES, MBAR  # noqa: E402

pymbar.MBAR, pymbar.FES = MBAR, FES
pymbar.utils.ParameterError = VardiError  # the class of what is refused
np.random.seed(0)  # noqa: NPY002 their tests draw from the global generator

r"""Energies in kT, kJ/mol and kcal/mol.

Reduced potentials are in units of kT. With the gas constant R = 8.31446261815324 J / (mol K), exact in the SI since
2019, one kT at temperature T is RT per mole; a (thermochemical) calorie is 4.184 J.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from scipy import constants

from vardi.errors import MismatchError, suggest

Unit: TypeAlias = Literal["kT", "kJ/mol", "kcal/mol"]


def kT(unit: Unit, temperature: float) -> float:  # noqa: N802 as written in physics
    """Return one kT in another unit: the factor that converts energies in kT.

    Parameters
    ----------
    unit : {"kT", "kJ/mol", "kcal/mol"}
        The unit.
    temperature : float
        In kelvin.

    Examples
    --------
    >>> import vardi
    >>> round(vardi.mbar.kT("kJ/mol", 300), 4), round(vardi.mbar.kT("kcal/mol", 300), 4)
    (2.4943, 0.5962)
    >>> print(vardi.Estimate(4.2, 0.1) * vardi.mbar.kT("kcal/mol", 298.15))
    2.488 ± 0.059 (95%: 2.372 to 2.605)
    """
    if not isinstance(temperature, int | float) or not 0.0 < temperature < math.inf:
        raise MismatchError(f"The temperature is {temperature!r}, but it must be positive. Give it in kelvin.")
    kilojoules = constants.R / constants.kilo * temperature
    units = {"kT": 1.0, "kJ/mol": kilojoules, "kcal/mol": kilojoules / constants.calorie}
    if unit not in units:
        raise MismatchError(f"There is no unit {unit!r}.{suggest(unit, units)} Give one of {', '.join(units)}.")
    return units[unit]

"""The figures of ``vardi paper``: each a function that returns a matplotlib figure and leaves nothing behind.

Needs matplotlib: ``pip install 'vardi[paper]'``.
"""

from collections.abc import Callable
from typing import NamedTuple

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("The figures of the paper need matplotlib: pip install 'vardi[paper]'") from error

from vardi.paper._figures import _adult, _boston, _clusters, _lengths, _overlap, _rates, _scenarios
from vardi.paper._figures._style import save


class Illustration(NamedTuple):
    """A figure to be drawn.

    Attributes
    ----------
    title, caption : str
        The text above and below it.
    draw : callable
        Returns the figure; takes all runs' scores, a mapping from Cell to array, if ``needs`` names an experiment.
    needs : str or None
        The experiment whose scores are drawn.
    """

    title: str
    caption: str
    draw: Callable[..., Figure]
    needs: str | None = None


FIGURES: dict[str, Illustration] = {
    "clusters": Illustration("Clustering by vanilla and debiased EM", _clusters.CAPTION, _clusters.clusters),
    "overlap-control": Illustration("Overlap control", _overlap.CAPTION, _overlap.overlap_control),
    "boston-prices": Illustration("House prices in Boston", _boston.CAPTION, _boston.boston_prices),
    "adult-education": Illustration(
        "Income by education in Adult", _adult.EDUCATION_CAPTION, _adult.income_by_education
    ),
    "scenarios-norm": Illustration(
        "Scenarios a to f: selection by the norm", _scenarios.NORM_CAPTION, _scenarios.scenarios_of_the_norm
    ),
    "scenarios-component": Illustration(
        "Scenarios g to l: selection by the first component",
        _scenarios.COMPONENT_CAPTION,
        _scenarios.scenarios_of_the_first_component,
    ),
    "adult-age": Illustration("Income by age in Adult", _adult.AGE_CAPTION, _adult.income_by_age),
    "adult-education-by-age": Illustration(
        "Income by education within groups of age",
        _adult.EDUCATION_BY_AGE_CAPTION,
        _adult.income_by_education_within_age,
    ),
    "lengths": Illustration("Length bias in several dimensions", _lengths.CAPTION, _lengths.lengths, needs="lengths"),
    "rates": Illustration("Rates, and the price of a small overlap", _rates.CAPTION, _rates.rates, needs="rates"),
}

__all__ = ["FIGURES", "Illustration", "save"]

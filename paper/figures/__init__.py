"""The figures: each a function that returns a matplotlib figure and leaves nothing behind."""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.figure import Figure

from paper.figures import adult, boston, clusters, lengths, overlap, rates, scenarios
from paper.figures.style import save


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
    "clusters": Illustration("Clustering by vanilla and debiased EM", clusters.CAPTION, clusters.clusters),
    "overlap-control": Illustration("Overlap control", overlap.CAPTION, overlap.overlap_control),
    "boston-prices": Illustration("House prices in Boston", boston.CAPTION, boston.boston_prices),
    "adult-education": Illustration("Income by education in Adult", adult.EDUCATION_CAPTION, adult.income_by_education),
    "scenarios-norm": Illustration(
        "Scenarios a to f: selection by the norm", scenarios.NORM_CAPTION, scenarios.scenarios_of_the_norm
    ),
    "scenarios-component": Illustration(
        "Scenarios g to l: selection by the first component",
        scenarios.COMPONENT_CAPTION,
        scenarios.scenarios_of_the_first_component,
    ),
    "adult-age": Illustration("Income by age in Adult", adult.AGE_CAPTION, adult.income_by_age),
    "adult-education-by-age": Illustration(
        "Income by education within groups of age",
        adult.EDUCATION_BY_AGE_CAPTION,
        adult.income_by_education_within_age,
    ),
    "lengths": Illustration("Length bias in several dimensions", lengths.CAPTION, lengths.lengths, needs="lengths"),
    "rates": Illustration("Rates, and the price of a small overlap", rates.CAPTION, rates.rates, needs="rates"),
}

__all__ = ["FIGURES", "Illustration", "save"]

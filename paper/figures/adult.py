"""Income in Adult by education, by age, and by education within ages."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from paper.figures.style import FAINT, MUTED, POPULATION, in_this_look, light_grid, new_figure
from vardi import datasets

MIDDLE_AGE = (40, 60)
AGE_GROUPS = {"17 to 29": (17, 29), "30 to 39": (30, 39), "40 to 60": MIDDLE_AGE, "61 to 90": (61, 90)}
AGE_COLOURS = ("#3a9bd9", "#009e73", "#d55e00", "#7b4397")
AGE_STEP = 5
LEVELS = {1: "preschool", 9: "high school", 13: "bachelor", 16: "doctor"}
APART = 5.0  # per cent between labels at the ends of lines
FEWEST = 50  # people below which a proportion is not drawn
Z = 1.96

EDUCATION_CAPTION = (
    "Adult: how the 48,842 people are distributed over levels of education (bars), and the proportion at each level "
    "that earns more than 50,000 dollars a year (line; vertical strokes are 95% intervals). The dashed lines are two "
    "readings of “12+ years of education”: twelve years of school, which is level 9, and level 12 itself."
)
AGE_CAPTION = (
    "Adult: distribution of age in steps of five years (bars), and the proportion of each bar that earns more than "
    "50,000 dollars a year (line; vertical strokes are 95% intervals). The shaded ages, 40 to 60, are the group that "
    "the biased sample is drawn from."
)
EDUCATION_BY_AGE_CAPTION = (
    "Adult: proportion that earns more than 50,000 dollars a year by level of education, within groups of age; bands "
    f"are 95% intervals, and points of fewer than {FEWEST} people are left out. Education pays later in life, so the "
    "law of income given education is different in middle age: weights for education alone would not be enough."
)


@in_this_look
def income_by_education() -> Figure:
    """Draw the distribution of the years of education, and the proportion of high incomes at each."""
    people = datasets.adult("numpy")
    levels = np.arange(1, 17)
    groups = [people["education-num"] == level for level in levels]
    figure = new_figure(3.2)
    ax = figure.subplots()
    _bars_and_line(ax, levels, groups, _rich(people), width=0.82)
    for edge, text in ((8.5, "level ≥ 9\n(12 school years)"), (11.5, "level ≥ 12")):
        ax.axvline(edge, color=MUTED, lw=0.8, ls=(0, (4, 2)), zorder=0)
        ax.text(edge + 0.12, 81, text, fontsize=7.5, color=MUTED, va="top")
    _education_axis(ax)
    ax.set(ylabel="per cent", ylim=(0, 82), xlim=(0.4, 16.8))
    ax.text(8.38, 26.0, "share of people", ha="right", color=MUTED, weight="bold")
    ax.text(13.9, 60.5, "of these,\nearn over 50k", ha="right", color=POPULATION, weight="bold")
    return figure


@in_this_look
def income_by_age() -> Figure:
    """Draw the distribution of age, and the proportion of high incomes at each."""
    people = datasets.adult("numpy")
    starts = np.arange(15, 90, AGE_STEP)
    age = people["age"]
    groups = [(age >= start) & (age < start + AGE_STEP) for start in starts]
    groups[-1] = age >= starts[-1]  # 85 to 90: the last value includes all who are older
    figure = new_figure(3.0)
    ax = figure.subplots()
    ax.axvspan(MIDDLE_AGE[0], MIDDLE_AGE[1] + 1, color="#eef3f9", lw=0, zorder=0)
    ax.text(50.5, 46.8, "middle age, 40 to 60", ha="center", va="top", fontsize=7.5, color=MUTED)
    _bars_and_line(ax, starts + AGE_STEP / 2, groups, _rich(people), width=0.86 * AGE_STEP)
    ax.set_xticks(np.arange(15, 95, 5))
    ax.set(xlabel="age (years)", ylabel="per cent", ylim=(0, 48), xlim=(14, 91))
    ax.text(15.2, 14.3, "share of people", color=MUTED, weight="bold", ha="left")
    ax.text(62.0, 33.0, "of these, earn over 50k", color=POPULATION, weight="bold")
    return figure


@in_this_look
def income_by_education_within_age() -> Figure:
    """Draw the proportion of high incomes by education, one line for each group of age."""
    people = datasets.adult("numpy")
    rich = _rich(people)
    figure = new_figure(3.4)
    ax = figure.subplots()
    ends: list[tuple[float, float, str, str]] = []
    youngest, *_ = AGE_GROUPS
    for (name, (low, high)), colour in zip(AGE_GROUPS.items(), AGE_COLOURS, strict=True):
        of_age = (people["age"] >= low) & (people["age"] <= high)
        levels, values, errors = _proportions(people["education-num"][of_age], rich[of_age])
        ax.fill_between(levels, values - Z * errors, values + Z * errors, color=colour, alpha=0.15, lw=0)
        ax.plot(levels, values, color=colour, marker="o", ms=3.5, label=f"{name} years old")
        ends.append((float(levels[-1]), float(values[-1]), f"{name} years old" if name == youngest else name, colour))
    _label_ends(ax, ends)
    _education_axis(ax)
    ax.set(ylabel="earn over 50k (%)", ylim=(0, 92), xlim=(0.5, 17.6))
    light_grid(ax)
    return figure


def _education_axis(ax: Axes) -> None:
    labels = [f"{level}\n{LEVELS[level]}" if level in LEVELS else str(level) for level in range(1, 17)]
    ax.set_xticks(range(1, 17), labels)
    ax.set_xlabel("level of education (column education-num)")


def _label_ends(ax: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write the name of each line at its end, and move names apart that would overlap."""
    lowest = -np.inf
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        height = max(y, lowest + APART)
        ax.text(x + 0.2, height, name, color=colour, va="center", weight="bold", fontsize=8)
        lowest = height


def _rich(people: Any) -> NDArray[np.bool_]:
    return np.asarray(people["income"] == ">50K")


def _bars_and_line(ax: Axes, places: Any, groups: list[Any], rich: NDArray[np.bool_], width: float) -> None:
    """Draw both as per cent on one axis: the share of each group, and the proportion of it that is rich."""
    counts = np.array([np.count_nonzero(group) for group in groups])
    proportions = np.array([rich[group].mean() for group in groups])
    errors = np.sqrt(proportions * (1.0 - proportions) / counts)
    ax.bar(places, 100 * counts / len(rich), width=width, color=FAINT, label="share of people")
    ax.errorbar(
        places,
        100 * proportions,
        yerr=100 * Z * errors,
        color=POPULATION,
        marker="o",
        ms=4,
        elinewidth=0.9,
        label="earn over 50k",
    )
    light_grid(ax)


def _proportions(levels: Any, rich: NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    """Return the levels with enough people, the per cent of rich ones there, and its standard error."""
    found, counts = np.unique(levels, return_counts=True)
    found, counts = found[counts >= FEWEST], counts[counts >= FEWEST]
    proportions = np.array([rich[levels == level].mean() for level in found])
    return found, 100 * proportions, 100 * np.sqrt(proportions * (1.0 - proportions) / counts)

"""Who estimates the mean of y here: vardi, and what scikit-learn's classifiers give by plain weighting."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vardi
from benchmarks.accuracy.designs import Design
from benchmarks.problems import Floats

Answer = tuple[float, float, float]  # value, and the ends of the 95% interval; NaN where there is none
Contestant = Callable[[Design, pd.DataFrame, pd.DataFrame], dict[str, Answer]]

FIXED = "interval of its weights, taken as fixed"


def weighted(y: Floats, weights: Floats) -> Answer:
    """Return the weighted mean, with the interval that takes the weights as fixed."""
    mean = np.average(y, weights=weights)
    half = stats.norm.ppf(0.975) * np.sqrt(np.sum((weights * (y - mean)) ** 2)) / weights.sum()
    return float(mean), float(mean - half), float(mean + half)


def answered(estimate: Any) -> Answer:
    """Return an estimate of vardi."""
    low, high = estimate.interval
    return float(estimate.value), float(low), float(high)


def _naive(design: Design, panel: pd.DataFrame, survey: pd.DataFrame) -> dict[str, Answer]:
    return {AS_IT_IS: weighted(panel["y"].to_numpy(), np.ones(len(panel)))}


def _by_odds(who: str, classifier: Any) -> Contestant:
    def call(design: Design, panel: pd.DataFrame, survey: pd.DataFrame) -> dict[str, Answer]:
        names = list(design.columns)
        X, label = pd.concat([panel[names], survey[names]]), np.repeat([1, 0], [len(panel), len(survey)])
        chance = classifier.fit(X, label).predict_proba(panel[names])[:, 1]
        return {who: weighted(panel["y"].to_numpy(), (1.0 - chance) / chance)}

    return call


def _fitted(bias: Callable[[Design], Any], questions: Mapping[str, Mapping[str, Any]]) -> Contestant:
    """Return what fits once, and asks for the mean in several ways."""

    def call(design: Design, panel: pd.DataFrame, survey: pd.DataFrame) -> dict[str, Answer]:
        fit: Any = vardi.debias({"panel": panel, "survey": survey}, {"panel": bias(design), "survey": 1})
        found = {}
        for who, asked in questions.items():
            seen = {"columns": list(design.columns)} if asked.get("assisted_by") is not None else {}
            found[who] = answered(fit.expectation("y", **asked, **seen))
        return found

    return call


AS_IT_IS = "the panel as it is"
LOGISTIC, BOOSTED = "scikit-learn, odds of a logistic regression", "scikit-learn, odds of boosted trees"
CURVE, PLAIN = "vardi.logistic", "vardi.exponential_tilt"
ASSISTED = f"{PLAIN}, assisted by boosted trees"
KNOWN, LEARNED, PLUG_IN = "vardi, the selection known", "vardi.learned", "vardi.learned, plug-in"

CONTESTANTS: list[tuple[Contestant, dict[str, str]]] = [
    (_naive, {AS_IT_IS: ""}),
    (_by_odds(LOGISTIC, make_pipeline(StandardScaler(), LogisticRegression(C=np.inf))), {LOGISTIC: FIXED}),
    (_by_odds(BOOSTED, HistGradientBoostingClassifier(random_state=0)), {BOOSTED: FIXED}),
    (
        _fitted(
            lambda design: vardi.exponential_tilt(*design.columns),
            {PLAIN: {}, ASSISTED: {"assisted_by": HistGradientBoostingRegressor(random_state=0)}},
        ),
        {PLAIN: "the family of a logistic regression's odds", ASSISTED: "`assisted_by=`"},
    ),
    (_fitted(lambda design: vardi.logistic(*design.columns), {CURVE: {}}), {CURVE: ""}),
    (_fitted(lambda design: design.chance, {KNOWN: {}}), {KNOWN: "which no one has: for comparison"}),
]
if hasattr(vardi, "learned"):
    CONTESTANTS.append(
        (
            _fitted(lambda design: vardi.learned(list(design.columns)), {LEARNED: {}, PLUG_IN: {"assisted_by": None}}),
            {LEARNED: "doubly robust, as by default", PLUG_IN: "`assisted_by=None`: its error is approximate"},
        )
    )


def asked(
    contestant: Contestant, names: Iterable[str], design: Design, draw: tuple[pd.DataFrame, pd.DataFrame]
) -> dict[str, Answer]:
    """Return what a contestant says of one draw; its warnings are not shown, and what it refuses has no value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return contestant(design, *draw)
        except vardi.VardiError:
            return dict.fromkeys(names, (np.nan, np.nan, np.nan))

"""WeightedSample: rows with a weight for each, and what it estimates of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeGuard, Unpack, overload

import numpy as np

from vardi._estimate.cdf import DebiasedCdf
from vardi._estimate.estimates import Estimate, Estimates
from vardi._estimate.intervals import warn_of_doubt
from vardi._estimate.tables import in_library
from vardi._fit.capabilities import refusal
from vardi._fit.solved import Solved
from vardi._inputs.domains import By
from vardi._inputs.given import Domain, Function, Functions, Size, Table, is_function, name_of
from vardi._inputs.known import value_of
from vardi._inputs.pool import Name
from vardi._rows.contract import Kept
from vardi._rows.measure import Measure
from vardi.errors import KnownOfAllWarning, MismatchError, suggest
from vardi.errors._texts import show
from vardi.errors._warn import warn

if TYPE_CHECKING:
    import narwhals as nw

    from vardi._estimate.domains import ByDomain, Domains
    from vardi._estimate.draws import Method
    from vardi._fit.assisted import Assisted
    from vardi._fit.parts import MemoryParts
    from vardi._fit.sql import Dialect

Among: TypeAlias = Name | Sequence[Name] | None
"""Names of samples; None for all of them."""

AUTO = "auto"  # a model assists means only if a bias was learned


class MeanOptions(TypedDict, total=False):
    """From which rows a mean is made, and with which model."""

    among: Among
    assisted_by: Any
    columns: Sequence[str] | None


class TotalOptions(MeanOptions, total=False):
    """The known number that a total rests on, too."""

    size: Size | None
    relative_to: tuple[Function, Size] | None


class WeightedSample:
    """Rows of some samples with a weight for each: what :meth:`DebiasedSample.among` returns."""

    def __init__(self, solved: Solved) -> None:
        self.solved, self.data = solved, solved.data  # the solution, and the rows, in memory or in an engine
        self.solution = solved.solution
        self.names = solved.names

    def __len__(self) -> int:
        return len(self.data.pool)

    @property
    def _measure(self) -> Measure:
        """The rows with their weights."""
        return self.solved.tangent.measure

    @property
    def sizes(self) -> dict[Name, float]:
        """How many (counted) rows of each sample the fit rests on; 0 for a state that was not sampled."""
        sizes = self.solved.rows.sizes.tolist()
        return dict(zip(self.names, (int(n) if n == int(n) else n for n in sizes), strict=True))

    @cached_property
    def weights(self) -> Any:
        r"""The weight of each row, :math:`1 / \sum_l \lambda_l \omega_l(z_i) / \Omega_l`, with mean 1 over the pool.

        In pool order and in the user's library; a pandas Series has the user's index. Pass them to a learner as
        ``sample_weight`` (times ``counts``, if rows have them). Rows that were left out have weight 0.
        """
        return self.data.weights(self.solved)

    @cached_property
    def probabilities(self) -> Any:
        """The probability of each row in the debiased sample: weight times count, with sum 1."""
        return self.data.probabilities(self.solved)

    @property
    def log_omegas(self) -> dict[Name, float]:
        r"""The log of each normaliser, :math:`\log\Omega_k = \log E_P\,\omega_k`."""
        return dict(zip(self.names, self.solved.log_omegas.tolist(), strict=True))

    @property
    def omegas(self) -> dict[Name, float]:
        r"""Each normaliser, :math:`\Omega_k = E_P\,\omega_k`: the mean of the bias over the population."""
        with np.errstate(over="ignore"):  # beyond e^709 only the log is finite
            return {name: float(np.exp(value)) for name, value in self.log_omegas.items()}

    def paper_normalisers(self) -> dict[Name, float]:
        r"""Return the normalisers on the paper's scale, :math:`\max_k W_k / \lambda_k = 1`, of the sampled biases."""
        sizes, u = self.solved.rows.sizes, self.solution.u
        sampled = np.flatnonzero(sizes > 0)
        w = sizes[sampled] / sizes.sum() * np.exp(u[sampled].min() - u[sampled])
        return {self.names[k]: float(value) for k, value in zip(sampled.tolist(), w, strict=True)}

    def weight_shares(self) -> dict[Name, float]:
        """Return the share of the weight that the rows of each sample carry."""
        mass = self.parts.weight_sums().mass
        return dict(zip(self.names, (mass / mass.sum()).tolist(), strict=True))

    def effective_rows(self) -> float:
        r"""Return Kish's effective number of rows, :math:`1 / \sum_i \pi_i^2` (for rows that are counted once)."""
        return self.parts.weight_sums().effective

    def weigh(self, rows: Table) -> Any:
        r"""Return the weight of rows that need not be in the pool: it is a function of the row.

        Parameters
        ----------
        rows : array or frame
            New rows with the columns that the biases read, in memory or lazy; for a fit of a matrix, a matrix of (log)
            biases.

        Returns
        -------
        array, series or lazy frame
            :math:`1 / \sum_l \lambda_l \omega_l(z) / \Omega_l`, in the library of the rows. A row that no sample could
            have drawn is an error. A lazy frame stays lazy and gets a column ``weight``, null for such rows:
            :meth:`uncovered` counts them.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> pool = {"plain": np.array([1.0, 2.0, 4.0]), "seen": np.array([2.0, 4.0, 4.0, 8.0])}
        >>> fit = vardi.debias(pool, {"plain": 1, "seen": "x"})
        >>> fit.weigh(np.array([0.0, 1.0, 100.0])).round(3)
        array([2.333, 1.599, 0.05 ])
        """
        return self.solved.weigh(rows)

    def expression(self) -> nw.Expr:
        """Return the weight as a narwhals expression of the columns that biases and known values read.

        It is null for rows that :meth:`weigh` refuses in memory. Biases have to be expressions, with or without
        parameters, or be learned by logistic regressions.

        Examples
        --------
        >>> import narwhals as nw
        >>> import polars as pl
        >>> import vardi
        >>> pool = {"plain": pl.DataFrame({"x": [1.0, 2.0, 4.0]}), "seen": pl.DataFrame({"x": [2.0, 4.0, 4.0, 8.0]})}
        >>> fit = vardi.debias(pool, {"plain": 1, "seen": "x"})
        >>> rows = nw.from_native(pl.LazyFrame({"x": [0.0, 1.0, None]}))
        >>> rows.select(fit.expression().round(3).alias("w")).collect()["w"].to_list()
        [2.333, 1.599, None]
        """
        return self.solved.weigher.expression()

    def to_sql(self, table: str, dialect: Dialect = "duckdb", name: str = "weight") -> str:
        """Return a query of a table with a column of weights: as :meth:`vardi.Weigher.to_sql`.

        Parameters
        ----------
        table : str
            The table as it is written in SQL, or a reference of dbt; it is inserted as it is.
        dialect : {"duckdb", "postgres", "bigquery", "snowflake", "spark", "sqlite"}
            For which database. Others than DuckDB need sqlglot: ``pip install 'vardi[sql]'``.
        name : str
            The name of the column.
        """
        return self.solved.weigher.to_sql(table, dialect, name)

    def uncovered(self, rows: Table) -> int:
        """Return how many rows have no weight: no sample could have drawn them, or a value is missing.

        In an engine it takes a query.

        Parameters
        ----------
        rows : array or frame
            As for :meth:`weigh`.

        Examples
        --------
        >>> import polars as pl
        >>> import vardi
        >>> fit = vardi.debias({"low": pl.DataFrame({"x": [1.0, 2.0]})}, {"low": "x <= 5"})
        >>> rows = pl.LazyFrame({"x": [1.0, 7.0, None]})
        >>> fit.weigh(rows).collect()["weight"].to_list(), fit.uncovered(rows)
        ([1.0, None, None], 2)
        """
        return self.solved.weigher.uncovered(rows)

    def sample(
        self,
        n: int,
        seed: int | np.random.Generator | None = None,
        *,
        replace: bool | None = None,
        id: str | None = None,
    ) -> Any:
        """Draw rows from the debiased sample: what a sample without bias could have been.

        Parameters
        ----------
        n : int
            How many rows.
        seed : int or Generator, optional
            For a reproducible draw.
        replace : bool, optional
            Whether a row may be drawn more than once: by default yes in memory, and no in an engine, which draws the
            rows with the smallest E / pi, E exponential from a hash of seed and row. Without replacement rows are
            drawn one after the other, so rows with large weights are drawn less often than their share;
            :class:`vardi.DebiasedResampler` has draws that preserve it.
        id : str, optional
            In an engine: the column that identifies a row, if the engine has no row number of its own.

        Returns
        -------
        array or frame
            The rows, in the user's library; for a fit of a matrix their positions; for lazy frames a lazy frame, or
            one by name if each sample has its own.
        """
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
            raise MismatchError(f"{n!r} rows cannot be drawn. Give a whole number, 0 or more.")
        return self.data.draw(self._measure, n, seed, replace=replace, identity=id)

    def torch_sampler(self, n: float | None = None, seed: int | None = None, *, method: Method = "multinomial") -> Any:
        """Return a ``torch.utils.data.Sampler`` that draws positions of rows by weight, so that losses need no weights.

        Each pass over it is a new draw, the same for the same seed and pass; ``sampler.set_epoch(k)`` goes to a pass.

        Parameters
        ----------
        n : int, float or None
            Rows in a pass; a float is a share of the rows, None means all of them.
        seed : int, optional
            For reproducible draws; by default a new one, kept as ``sampler.seed``.
        method : {"multinomial", "systematic"}
            Independent draws, or a low-variance draw in random order.

        Examples
        --------
        .. code-block:: python

            from torch.utils.data import DataLoader, TensorDataset

            data = TensorDataset(torch.as_tensor(X), torch.as_tensor(y))  # rows of the pool, in its order
            loader = DataLoader(data, batch_size=32, sampler=fit.torch_sampler(seed=0))
            for features, target in loader:  # no weights: the batches represent the population
                loss = (target - model(features)).square().mean()
        """
        from vardi._estimate.draws import torch_sampler

        return torch_sampler(self.data.chances(self._measure), n, seed, method=method)

    def torch_weights(self, dtype: Any = None) -> Any:
        """Return the weights as a tensor with mean 1, in pool order.

        Examples
        --------
        .. code-block:: python

            from torch.utils.data import DataLoader, TensorDataset

            data = TensorDataset(torch.as_tensor(X), torch.as_tensor(y), fit.torch_weights())
            for features, target, weight in DataLoader(data, batch_size=32, shuffle=True):
                loss = (weight * (target - model(features)).square()).mean()
        """
        from vardi._estimate.draws import torch_weights

        return torch_weights(self.data.chances(self._measure), dtype)

    @property
    def parts(self) -> MemoryParts:
        """What accounts of the fit need of the holder of its rows; see :mod:`vardi._fit.parts`."""
        from vardi._fit.parts import EngineParts, MemoryParts

        return MemoryParts(self) if self.data.in_memory else EngineParts(self)

    def among(self, samples: Name | Sequence[Name]) -> WeightedSample:
        r"""Return the rows of some samples with weights of their own, for columns that only these have recorded.

        Normalisers and parameters are those of all samples; the weights are
        :math:`1 / \sum_{l \in A} \lambda_l\omega_l(z_i) / \Omega_l`, with mean 1 over the pool, and 0 on the rows of
        other samples. The weights of all samples, restricted to the rows of some, would represent the part of the
        population that these carry.

        Parameters
        ----------
        samples : str or sequence of str
            Names of samples that together cover the population: each row of the pool could have been drawn by one.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import vardi
        >>> rng = np.random.default_rng(0)
        >>> panel = pd.DataFrame({"age": rng.uniform(20, 80, 300)})
        >>> panel["spent"] = 2.0 * panel["age"] + rng.normal(0, 10, 300)
        >>> web = pd.DataFrame({"age": 20 + 60 * rng.beta(1, 2, 900)})  # the younger, the likelier; did not ask
        >>> fit = vardi.debias({"panel": panel, "web": web}, {"panel": 1, "web": "80 - age"})
        >>> print(fit.expectation("spent"))
        104.9 ± 2.1 (95%: 100.7 to 109.1; from 'panel')
        >>> fit.among("panel").weights.groupby(np.repeat(["panel", "web"], [300, 900])).mean()
        panel    4.0
        web      0.0
        Name: weight, dtype: float64
        """
        return self._of_states(self._places(samples))

    def _places(self, samples: Name | Sequence[Name]) -> tuple[int, ...]:
        names = [samples] if isinstance(samples, str) or not isinstance(samples, Sequence) else list(samples)
        there = [name for name, size in self.sizes.items() if size > 0]
        unknown = [name for name in names if name not in there]
        if unknown or not names:
            raise MismatchError(
                f"No sample {unknown[0]!r} has rows in the fit. The samples are {show(there)}."
                f"{suggest(unknown[0], there)}"
                if unknown
                else f"among= names no sample. The samples are {show(there)}: name those whose rows to use."
            )
        return tuple(k for k, name in enumerate(self.names) if name in names)

    def _of_states(self, states: tuple[int, ...], *, warns: bool = True) -> WeightedSample:
        if len(states) == int((self.solved.rows.sizes > 0).sum()):
            return self
        fit = WeightedSample(self.solved.of(states))
        if warns and self.solved.tangent.measure.coordinates.known:
            names = show([self.names[k] for k in states])
            said = (
                f"The weights of {names} alone do not meet the known values: only those of all samples together do. "
                "For a mean that uses the known values, give assisted_by= a model of the column."
            )
            warn(KnownOfAllWarning(said))
        return fit

    def _recorded(
        self, among: Among, values: Sequence[Function], by: By | None = None, *, alone: bool = True
    ) -> WeightedSample:
        """Return the rows of those chosen samples that have recorded the values; warn of known values if ``alone``."""
        fit = self if among is None else self._of_states(self._places(among), warns=alone)
        states = fit.data.recorded_by(values, () if by is None or by.labels is not None else by.columns)
        return fit._of_states(states, warns=alone)._recorded(None, values, by, alone=alone) if states else fit

    @overload
    def expectation(
        self, values: Function, level: float = ..., *, by: None = None, **options: Unpack[MeanOptions]
    ) -> Estimate: ...
    @overload
    def expectation(
        self, values: Function, level: float = ..., *, by: Domain, **options: Unpack[MeanOptions]
    ) -> Domains: ...
    def expectation(
        self,
        values: Function,
        level: float = 0.95,
        *,
        by: Domain | None = None,
        among: Among = None,
        assisted_by: Any = AUTO,
        columns: Sequence[str] | None = None,
    ) -> Estimate | Domains:
        r"""Return the mean of something over the population, :math:`E_P f = \sum_i \pi_i f(z_i)`, with its error.

        Parameters
        ----------
        values : str, expression or array
            A column, an expression of columns (``"price > 30"`` is a share), a Polars or narwhals expression, or a
            value for each row of the pool.
        level : float
            Coverage of the interval.
        by : str, list of str, or array, optional
            A column whose values define domains of the population; several columns, which are crossed; or a label
            for each row of the pool.
        among : sequence of str, optional
            Samples whose rows it is estimated from, with weights of their own (see :meth:`among`). By default all that
            have recorded the column: one that lacks it, or in which all values are missing, still helps the
            normalisers, and the estimate says which samples it is from.
        assisted_by : scikit-learn regressor or classifier, "auto" or None
            A model of the values, cross-fitted in five folds within samples: the estimate is its mean over all samples
            and what it misses on average in those that have the column, with an error that holds whether the model is
            right or not. Classifiers need values of 0 and 1. With learned biases its mean is taken over the
            samples whose biases are known, and the estimate is right if the model or what was learned is (doubly
            robust). By default, "auto", a model is used only if a bias was learned: gradient boosting on the columns
            that biases were learned from or read. With None there is no model, and errors are then approximate.
            For a model the rows of lazy frames are read into memory, and the estimate is one of a fit there.
        columns : sequence of str, optional
            What the model sees: columns that all samples have. By default all numeric columns that they have.

        Returns
        -------
        Estimate, or Domains with ``by``
            Its error includes that of the normalisers. Differences and ratios of estimates carry theirs along. The mean
            in a domain is the ratio :math:`E_P[f\,1_g] / E_P[1_g]`, with the error of that ratio.

        Examples
        --------
        >>> import vardi
        >>> design = vardi.datasets.house_prices(seed=0)
        >>> fit = vardi.debias(design.samples, design.biases)
        >>> print(fit.expectation("MEDV"))
        23.22 ± 0.97 (95%: 21.27 to 25.17)
        >>> print(fit.expectation("MEDV * (RM > 6)") / fit.expectation("RM > 6"))  # of houses with many rooms
        25.8 ± 1.2 (95%: 23.4 to 28.2)
        """
        domains = None if by is None else By.of(by)
        fit, model = self._seen(values, domains, assisted_by)._assisted(values, among, domains, assisted_by, columns)
        if domains is not None:
            return fit._in_domains(values, domains, "mean", level, model=model)
        if model is None:
            return fit._means(fit.data.functions(values), [values], level)[0]
        found = model.mean(level)
        warn_of_doubt(self.names, [f"the mean of {called(values)!r}"], [found.law])
        return found

    def _seen(self, values: Function, by: By | None, assisted_by: Any) -> WeightedSample:
        """Return the same fit with its rows in memory, if a model is to see them."""
        if self.data.in_memory or assisted_by is None or _is_default(assisted_by):
            return self
        if not is_function(values) or (by is not None and by.labels is not None):
            raise refusal("means of arrays", "engine")
        return WeightedSample(self.solved.read)

    def _assisted(
        self,
        values: Function,
        among: Among = None,
        by: By | None = None,
        assisted_by: Any = AUTO,
        columns: Sequence[str] | None = None,
    ) -> tuple[WeightedSample, Assisted | None]:
        """Return the rows that a mean is made from, and the model that assists it, if any."""
        is_default = _is_default(assisted_by)
        if assisted_by is None or (is_default and self.data.reference is None):
            if columns is not None:
                raise MismatchError(
                    "columns= chooses what a model sees, but there is no model. Give assisted_by=, a regressor or "
                    "classifier."
                )
            return self._recorded(among, [values], by), None
        if not self.solved.pool.frames:
            raise refusal("assisted means", "blocks")
        from vardi._fit.assisted import Assisted

        fit = self._recorded(among, [values], by, alone=False)
        model = Assisted(self.solved, fit.solved, values, None if is_default else assisted_by, columns)
        if self.data.reference is None:
            return fit, model
        known = model.told_by_reference(by, chosen=among is not None)
        return (fit, model) if known is None else (WeightedSample(known), None if is_default else model)

    def expectations(self, matrix: Functions, level: float = 0.95, *, among: Among = None) -> Estimates:
        """Return the means of several functions over the population, with their covariance.

        Parameters
        ----------
        matrix : array of shape (n, m), column, expression (text, Polars or narwhals), or list of these two
            The functions.
        level : float
            Coverage of each interval.
        among : sequence of str, optional
            As for ``expectation``; by default the samples that have recorded all of the functions.
        """
        matrix = [matrix] if is_function(matrix) else matrix
        named = matrix if isinstance(matrix, list | tuple) and any(map(is_function, matrix)) else ()
        fit = self._recorded(among, named or [matrix])
        return fit._means(fit.data.matrix(matrix), named, level)

    def proportions(
        self, column: Domain, level: float = 0.95, *, by: Domain | None = None, among: Among = None
    ) -> Domains:
        r"""Return the share of each value of a column in the population, :math:`P(s) = E_P 1\{z = s\}`.

        Intervals are Wilson's. With ``by`` they are shares within each domain, :math:`E_P 1_{gs} / E_P 1_g`, for every
        pair of a domain and a value: where a domain has no row with some value, the share is 0 with an upper bound.

        Parameters
        ----------
        column : str, list of str, or array
            A column of text, or of few numbers; several columns, which are crossed; or a label for each row.
        level : float
            Coverage of each interval.
        by : str or list of str, optional
            Columns that define domains, which come first in the names of the pairs.
        among : sequence of str, optional
            As for ``expectation``.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import vardi
        >>> rng = np.random.default_rng(0)
        >>> trees = pd.DataFrame({"width": rng.gamma(4.0, size=300), "kind": rng.choice(["fir", "larch"], 300)})
        >>> fit = vardi.debias({"transect": trees}, {"transect": "width"})  # drawn by width
        >>> print(fit.proportions("kind"))
        share of kind
        kind   estimate  error    95% interval
        fir       0.514  0.035  0.446 to 0.582
        larch     0.486  0.035  0.418 to 0.554
        """
        within, of = By() if by is None else By.of(by), By.of(column)
        if within.labels is not None:
            raise MismatchError(
                "by= of proportions was given as labels. Name a column, or cross the two labels and ask for the "
                "proportions of the pairs."
            )
        if column is None:
            raise MismatchError(
                "No column was given, so there are no values to have shares. Name a column, or give a label for each "
                "row."
            )
        twice = [name for name in of.columns if name in within.columns]
        if twice:
            raise MismatchError(
                f"The proportions of {twice[0]!r} are asked for by {twice[0]!r} itself, so they would all be 0 or 1. "
                "Leave it out of one of the two."
            )
        both = within + of
        fit = self._recorded(among, [], both)
        return fit._in_domains(None, both, "share", level, base=len(within.columns))

    @overload
    def total(
        self, values: Function, level: float = ..., *, by: None = None, **options: Unpack[TotalOptions]
    ) -> Estimate: ...
    @overload
    def total(
        self, values: Function, level: float = ..., *, by: Domain, **options: Unpack[TotalOptions]
    ) -> Domains: ...
    def total(
        self,
        values: Function,
        level: float = 0.95,
        *,
        size: Size | None = None,
        relative_to: tuple[Function, Size] | None = None,
        by: Domain | None = None,
        among: Among = None,
        assisted_by: Any = AUTO,
        columns: Sequence[str] | None = None,
    ) -> Estimate | Domains:
        r"""Return the total of something over the population, from its size or from the total of something else.

        With N the size it is :math:`N\,E_P f`; with X the known total of a column x it is :math:`X\,E_P f / E_P x`.
        Of a single sample that was drawn by x, so that x is its bias, the latter is
        :math:`\frac{X}{n} \sum_i f_i / x_i`: the estimator of Hansen and Hurwitz with its usual variance, that of draws
        with replacement, and that of Horvitz and Thompson, :math:`\sum_i f_i / \pi_i` with
        :math:`\pi_i = n x_i / X` the chance of being drawn.

        Parameters
        ----------
        values : str, expression or array
            As for ``expectation``.
        level : float
            Coverage of the interval.
        size : float, (float, float) or Estimate
            How many units the population has: a number, with or without its standard error. A size measured
            independently of these rows adds its error; an estimate of the same fit keeps its covariance with what is
            asked.
        relative_to : (column, total)
            Something whose total over the population is known, and that total, given as ``size`` is.
        by : str, list of str, or array, optional
            As for ``expectation``: the total of each domain.
        among : sequence of str, optional
            As for ``expectation``; what the total is relative to is of all samples that have recorded it.
        assisted_by, columns
            As for ``expectation``.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import vardi
        >>> rng = np.random.default_rng(0)
        >>> acres = rng.gamma(4.0, 50.0, size=100)
        >>> farms = pd.DataFrame({"acres": acres, "cows": rng.poisson(acres / 4.0)})
        >>> fit = vardi.debias({"by acres": farms}, {"by acres": "acres"})
        >>> cows = fit.total("cows", relative_to=("acres", 50_000))
        >>> print(cows)
        12,779 ± 196 (95%: 12,379 to 13,179)
        >>> print(round((farms["cows"] / farms["acres"]).mean() * 50_000))  # Hansen and Hurwitz
        12779
        """
        if (size is None) == (relative_to is None):
            given = "neither was given" if size is None else "both were given"
            raise MismatchError(
                f"A total needs size=, the number of units in the population, or relative_to=, a column and its known "
                f"total, but {given}. Give one of them."
            )
        mean: Estimate | None = None
        domains = None if by is None else By.of(by)
        rows = self._seen(values, domains, assisted_by)
        if relative_to is not None:
            known, mean = rows._known_total(relative_to, level)
        elif size is not None:
            known = rows._known_number(size, "size", level)
        if rows is not self and self._has_made(size if relative_to is None else relative_to[1]):
            raise MismatchError(
                "The total is known from an estimate that an engine made, and a model that assists the mean sees rows "
                "in memory, so their correlation is unknown. Make that estimate with assisted_by=, too."
            )
        fit, model = rows._assisted(values, among, domains, assisted_by, columns)
        if domains is not None:
            factor = known if mean is None else known / mean
            return fit._in_domains(values, domains, "total", level, base=0, factor=factor, model=model)

        def total(of: Estimate) -> Estimate:
            return replace((of if mean is None else of.over_positive(mean)) * known, among=of.among)

        found = fit._mean(values, level, model)
        found = replace(total(found), plain=None if found.plain is None else total(found.plain))
        warn_of_doubt(self.names, [f"the total of {called(values)!r}"], [found.law])
        return found

    @overload
    def cdf(self, column: Function, *, by: None = None, among: Among = ...) -> DebiasedCdf: ...
    @overload
    def cdf(self, column: Function, *, by: Domain, among: Among = ...) -> ByDomain[DebiasedCdf]: ...
    def cdf(
        self, column: Function, *, by: Domain | None = None, among: Among = None
    ) -> DebiasedCdf | ByDomain[DebiasedCdf]:
        """Return the debiased distribution function of a column, an expression, or a value for each row.

        With ``by``, given as for ``expectation``, it is a mapping from each domain to the function there; ``among`` is
        as for ``expectation`` too.
        """
        domains = None if by is None else By.of(by)
        fit = self._recorded(among, [column], domains)
        tangent = fit.solved.tangent
        if domains is None:
            return DebiasedCdf(tangent, fit.data.steps(tangent.measure, column), self.names, repr(called(column)))
        keys, steps = fit.data.steps_by_domain(tangent.measure, column, domains)
        from vardi._estimate.domains import ByDomain

        what = [f"{called(column)!r} where {domains.said(key)}" for key in keys]
        return ByDomain(domains, keys, lambda j: DebiasedCdf(tangent, steps(j), self.names, what[j]))

    def _mean(self, values: Function, level: float, model: Assisted | None) -> Estimate:
        """Return a mean, assisted by a model if there is one, without warnings."""
        if model is not None:
            return model.mean(level)
        return self.solved.tangent.estimates(self.data.functions(values), level)[0]

    def _means(self, functions: Kept, named: Sequence[Function], level: float) -> Estimates:
        """Return means of functions, some of them named, with a warning if errors rest on few rows."""
        declared = [isinstance(one, str) and self.data.is_declared(one) for one in named]
        estimates = self.solved.tangent.estimates(functions, level, declared)
        what = [f"the mean of {name_of(one)!r}" if is_function(one) else "the mean" for one in named]
        what = what or [f"mean {j}" for j in range(len(estimates))]
        warn_of_doubt(self.names, what, estimates.laws)
        called_by = [name_of(one) if is_function(one) else str(j) for j, one in enumerate(named)]
        if len(called_by) == len(estimates):
            estimates = replace(estimates, names=tuple(called_by))
        return in_library(estimates, self.data.library)

    def _in_domains(
        self,
        values: Function | None,
        by: By,
        what: str,
        level: float,
        *,
        base: int | None = None,
        factor: float | Estimate | None = None,
        model: Assisted | None = None,
    ) -> Domains:
        """Return the numbers of all domains; the first ``base`` columns define the rows that each is relative to."""
        from vardi._estimate.domains import Domains

        base = len(by.columns) if base is None else base
        keys, found = self.solved.in_domains(values, by, base, level, factor)
        if model is not None:
            found = model.in_domains(by, keys, base, found, factor)
        warn_of_doubt(self.names, [f"the {what} where {by.said(key)}" for key in keys], found.laws)
        told = by.columns if values is not None else by.columns[:base]
        of = called(values) if values is not None else ", ".join(by.columns[base:])
        within = f" by {', '.join(told)}" if told else ""
        source = f", from {show(found.among)}" if found.among else ""
        source += "" if model is None else f", assisted by {model.name}"
        return in_library(Domains(f"{what} of {of}{within}{source}", by, keys, found), self.data.library)

    def _known_total(self, relative_to: tuple[Function, Size], level: float) -> tuple[float | Estimate, Estimate]:
        """Return the known total of a column, and its mean."""
        if not isinstance(relative_to, tuple | list) or len(relative_to) != 2:
            raise MismatchError(
                f"relative_to is {relative_to!r}. Give a column and its total over the population, as in "
                'relative_to=("votes", 116.2e6).'
            )
        column, total = relative_to
        fit, model = self._assisted(column)
        mean = fit._mean(column, level, model)
        if not mean.value:
            raise MismatchError(
                f"The mean of {called(column)!r} is 0, so nothing can be estimated relative to its total. Give a "
                "column that is positive."
            )
        return self._known_number(total, f"total of {called(column)}", level), mean

    def _has_made(self, given: Size | None) -> TypeGuard[Estimate]:
        """Return whether a number is an estimate from this fit."""
        influence = given.influence if isinstance(given, Estimate) else None
        return influence is not None and influence.measure is self.solved.tangent.measure.whole

    def _known_number(self, given: Size, what: str, level: float) -> float | Estimate:
        """Return a known size or total: a number, or an estimate from this fit or independent of it."""
        tangent = self.solved.tangent
        if self._has_made(given):
            return given.at(level)
        value, stderr = value_of(given, what)
        if value <= 0:
            raise MismatchError(f"The {what} is {value:g}. It must be more than 0: give the amount in the population.")
        if not stderr:
            return value
        return tangent.apart((what, value, stderr), value, stderr, level)


def _is_default(assisted_by: object) -> bool:
    """Return whether a model assists a mean only if a bias was learned."""
    return isinstance(assisted_by, str) and assisted_by == AUTO


def called(values: Function) -> str:
    """Return what messages and tables call a function."""
    return name_of(values) if is_function(values) else "values"

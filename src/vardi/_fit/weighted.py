"""The pool with its weights, the normalisers behind them, and draws by weight."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._inputs.given import Table
from vardi._inputs.pool import Name
from vardi._solve.newton import Solution
from vardi.errors import MismatchError

if TYPE_CHECKING:
    from vardi._estimate.draws import Method
    from vardi._facts.parts import Parts


class Weighted:
    """Rows with a weight for each; :class:`DebiasedSample` answers questions with them."""

    def __init__(self, held: Any) -> None:
        self.held = held  # rows with their weights, in memory or in an engine
        self.solution: Solution = held.solution
        self.names: tuple[Name, ...] = held.names

    def __len__(self) -> int:
        return len(self.held)

    @property
    def sizes(self) -> dict[Name, float]:
        """How many (counted) rows of each sample the fit rests on; 0 for a state that was not sampled."""
        sizes = self.held.rows.sizes.tolist()
        return dict(zip(self.names, (int(n) if n == int(n) else n for n in sizes), strict=True))

    @cached_property
    def weights(self) -> Any:
        r"""The weight of each row, :math:`1 / \sum_l \lambda_l \omega_l(z_i) / \Omega_l`, with mean 1 over the pool.

        In pool order and in the user's library; a pandas Series has the user's index. Pass them to a learner as
        ``sample_weight`` (times ``counts``, if rows have them). Rows that were left out have weight 0.
        """
        return self.held.column(self.held.weights, "weight")

    @cached_property
    def probabilities(self) -> Any:
        """The probability of each row in the debiased sample: weight times count, with sum 1."""
        return self.held.column(self.held.probabilities, "probability")

    @property
    def log_omegas(self) -> dict[Name, float]:
        r"""The log of each normaliser, :math:`\log\Omega_k = \log E_P\,\omega_k`."""
        return dict(zip(self.names, self.held.log_omegas.tolist(), strict=True))

    @property
    def omegas(self) -> dict[Name, float]:
        r"""Each normaliser, :math:`\Omega_k = E_P\,\omega_k`: the mean of the bias over the population."""
        with np.errstate(over="ignore"):  # beyond e^709 only the log is finite
            return {name: float(np.exp(value)) for name, value in self.log_omegas.items()}

    @property
    def w(self) -> dict[Name, float]:
        r"""The normalisers on the paper's scale, :math:`\max_k W_k / \lambda_k = 1`, of the sampled biases."""
        sizes, u = self.held.rows.sizes, self.solution.u
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
            New rows with the columns that the biases read; for a fit of a matrix, a matrix of (log) biases.

        Returns
        -------
        array or series
            :math:`1 / \sum_l \lambda_l \omega_l(z) / \Omega_l`, in the library of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> pool = {"plain": np.array([1.0, 2.0, 4.0]), "seen": np.array([2.0, 4.0, 4.0, 8.0])}
        >>> fit = vardi.debias(pool, {"plain": 1, "seen": "x"})
        >>> fit.weigh(np.array([0.0, 1.0, 100.0])).round(3)
        array([2.333, 1.599, 0.05 ])
        """
        return self.held.weigh(rows)

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
        return self.held.draw(n, seed, replace=replace, identity=id)

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
        """
        from vardi._estimate.torch_batches import torch_sampler

        return torch_sampler(self.held.drawing(), n, seed, method=method)

    def torch_weights(self, dtype: Any = None) -> Any:
        """Return the weights as a tensor with mean 1, in pool order."""
        from vardi._estimate.torch_batches import torch_weights

        return torch_weights(self.held.drawing(), dtype)

    @property
    def parts(self) -> Parts:
        """What accounts of the fit need of the holder of its rows; see :mod:`vardi._facts.parts`."""
        return self.held.parts(self)

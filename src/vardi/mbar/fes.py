"""Free energy surfaces along coordinates of the rows, under pymbar's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from vardi._fit.sample import DebiasedSample
from vardi._types import Floats
from vardi.mbar._arguments import ParameterError, as_bootstraps, as_seed, by_row, require_one_of, require_potentials
from vardi.mbar._states import covariance_over, errors_of_differences
from vardi.mbar._surfaces import Functions, Histogram, InPopulation, InState, Kernel, Parameters, Rows, as_points
from vardi.mbar.multistate import MBAR

Point: TypeAlias = float | Sequence[float] | Floats

REFERENCES = ("from-lowest", "from-specified", "from-normalization", "all-differences")
ERRORS = (None, "analytical", "bootstrap")


class FES:
    r"""The free energy surface of a state along one coordinate of the rows, or along several.

    .. math:: f(\xi) = -\log E\,g_\xi(x) + \log E\,g_{\mathrm{ref}}(x)

    with :math:`g_\xi` the indicator of the bin that holds :math:`\xi`, or a kernel around it. Its error is that of the
    difference to the reference, with that of the free energies of the states: for bins and for kernels alike.

    Methods, arguments and keys of results are those of ``pymbar.FES`` 4. Splines are not supported: a kernel gives a
    surface without bins, with its error.

    Parameters
    ----------
    u_kn, N_k
        As for :class:`MBAR`.
    verbose, timings
        Ignored; accepted for scripts that were written for pymbar.
    mbar_options : dict, optional
        More arguments of :class:`MBAR`, such as ``series=True`` for frames in time.

    Examples
    --------
    Umbrella windows over a flat landscape, whose unbiased state has potential 0:

    >>> import numpy as np
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([-1.0, 0.0, 1.0])
    >>> x_n = rng.normal(np.repeat(centres, 500), 1.0)
    >>> u_kn = 0.5 * (x_n - centres[:, None]) ** 2
    >>> fes = vardi.mbar.FES(u_kn, [500, 500, 500])
    >>> fes.generate_fes(0 * x_n, x_n, histogram_parameters={"bin_edges": np.linspace(-2, 2, 5)})
    >>> results = fes.get_fes([-1.5, -0.5, 0.5, 1.5], "from-specified", 0.5, uncertainty_method="analytical")
    >>> results["f_i"].round(2), results["df_i"].round(2)
    (array([-0.09, -0.04,  0.  , -0.01]), array([0.09, 0.07, 0.  , 0.09]))
    """

    def __init__(
        self,
        u_kn: ArrayLike,
        N_k: ArrayLike,
        verbose: bool = False,
        mbar_options: Parameters | None = None,
        timings: bool = True,
    ) -> None:
        self.mbar: MBAR | None = MBAR(u_kn, N_k, **({} if mbar_options is None else mbar_options))
        self.fit = self.mbar.fit
        self._surface: Histogram | Kernel | None = None

    @classmethod
    def of_fit(cls, fit: DebiasedSample) -> FES:
        """Return an object that makes surfaces of the population of a fit, whatever holds its rows.

        Parameters
        ----------
        fit : DebiasedSample
            The fit of arrays, frames, lazy frames or blocks. Its population is the state whose surface is made: declare
            biases relative to it.

        Examples
        --------
        >>> import numpy as np
        >>> import vardi
        >>> rng = np.random.default_rng(0)
        >>> windows = {"left": rng.normal(-0.5, 1.0, 500), "right": rng.normal(0.5, 1.0, 500)}
        >>> fit = vardi.debias(windows, {"left": "exp(-(x + 0.5)**2 / 2)", "right": "exp(-(x - 0.5)**2 / 2)"})
        >>> fes = vardi.mbar.FES.of_fit(fit)
        >>> fes.generate_fes(None, "x", fes_type="kde", kde_parameters={"bandwidth": 0.2})
        >>> fes.get_fes([-0.5, 0.0, 0.5], uncertainty_method="analytical")["df_i"].round(2)
        array([0.09, 0.08, 0.  ])
        """
        fes = cls.__new__(cls)
        fes.mbar, fes.fit, fes._surface = None, fit, None
        return fes

    def generate_fes(
        self,
        u_n: ArrayLike | None,
        x_n: ArrayLike,
        fes_type: str = "histogram",
        histogram_parameters: Parameters | None = None,
        kde_parameters: Parameters | None = None,
        spline_parameters: Parameters | None = None,
        n_bootstraps: int = 0,
        seed: int = -1,
    ) -> None:
        """Define the surface; :meth:`get_fes` gives its values.

        Parameters
        ----------
        u_n : array of shape (n,) or None
            Reduced potential of each row in the state whose surface is wanted; None for the population of a fit.
        x_n : array of shape (n,) or (n, D), str, or list of str
            The coordinate of each row, as numbers or as expressions in each dimension; of a named coordinate with a
            period all values lie within one.
        fes_type : {"histogram", "kde"}
            Bins, or kernels.
        histogram_parameters : dict
            ``bin_edges``: the edges of the bins, in each dimension; ``period`` of each dimension, which the bins then
            cover once, None for those without.
        kde_parameters : dict
            ``bandwidth``, ``kernel`` ("gaussian", "tophat" or "epanechnikov") and ``period``. scikit-learn's search
            options are accepted and ignored.
        spline_parameters
            Refused: use kernels.
        n_bootstraps : int
            Refits for ``uncertainty_method="bootstrap"``.
        seed : int
            Seed of the refits; below 0 for any.
        """
        if fes_type not in ("histogram", "kde"):
            kernels = " Splines are not supported: a kernel gives a surface without bins, with its error."
            raise ParameterError(
                f"fes_type is {fes_type!r}.{kernels if fes_type == 'spline' else ''} Give 'histogram' or 'kde'."
            )
        bins = Histogram.of(histogram_parameters) if fes_type == "histogram" else None
        self._rows = self._coordinate(x_n, None if bins is None else bins.dims)
        dims = len(self._rows) if isinstance(self._rows, tuple) else self._rows.shape[1]
        self._surface = Kernel.of(kde_parameters, dims) if bins is None else bins
        self._target = self._state(u_n)
        self._n_bootstraps = as_bootstraps(n_bootstraps)
        self._seed = as_seed(None if seed < 0 else seed)
        self.fes_type = fes_type

    def _coordinate(self, x_n: ArrayLike, dims: int | None) -> Rows:
        """Return the coordinate of the rows: numbers of shape (n, D), or expressions."""
        texts = [x_n] if isinstance(x_n, str) else x_n
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            x: Rows = tuple(map(str, texts))
            shape: tuple[int, ...] = (len(self.fit), len(x))
        else:
            x = np.asarray(x_n, np.float64)
            x = x.reshape(-1, 1) if x.ndim == 1 else x
            shape = x.shape
        if len(shape) != 2 or shape[0] != len(self.fit) or dims not in (None, shape[1]):
            bins = "" if dims is None else f" and bins in {dims} dimension{'' if dims == 1 else 's'}"
            raise ParameterError(
                f"x_n has shape {shape}, but there are {len(self.fit)} rows{bins}. Give the coordinate of each row, in "
                "each dimension."
            )
        if not isinstance(x, tuple) and not np.isfinite(x).all():
            row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise ParameterError(
                f"x_n is {x[row]} in row {row}, but every row needs a place on the surface. Give finite numbers."
            )
        return x

    def _state(self, u_n: ArrayLike | None) -> InState | InPopulation:
        """Return the distribution whose surface is asked for."""
        if self.mbar is None:
            if u_n is not None:
                raise ParameterError(
                    "u_n is the potential of a state, but a fit has only its population. Give None, and declare the "
                    "biases of the fit relative to the state of interest."
                )
            return InPopulation(self.fit)
        if u_n is None:
            raise ParameterError(
                "u_n is None, but a surface belongs to a state. Give the reduced potential of each row there."
            )
        potential = by_row(u_n, self.mbar.N_k, "u_n")
        require_potentials(potential[None, :])
        return InState(self.mbar, potential)

    def get_fes(
        self,
        x: ArrayLike,
        reference_point: str = "from-lowest",
        fes_reference: Point | None = None,
        uncertainty_method: str | None = None,
    ) -> dict[str, Floats]:
        """Return the surface at the given points.

        Parameters
        ----------
        x : array of shape (m,) or (m, D)
            The points.
        reference_point : {"from-lowest", "from-specified", "from-normalization", "all-differences"}
            What free energies are relative to: the lowest bin (of kernels, the lowest of the points); the point
            ``fes_reference``; 1, to which probabilities of bins sum and densities by kernels integrate; or the lowest,
            with errors of all differences.
        fes_reference : float or sequence of float, optional
            That point.
        uncertainty_method : {None, "analytical", "bootstrap"}
            How errors are computed.

        Returns
        -------
        dict
            ``f_i``, of shape (m,): NaN outside the grid, infinite in a bin without a row. ``df_i``, or for all
            differences ``df_ij``, their standard errors.
        """
        if self._surface is None:
            raise ParameterError("No surface has been generated. Call generate_fes first.")
        self._require(reference_point, fes_reference, uncertainty_method)
        points = as_points(x, self._surface.dims, "x")
        places, sites = self._surface.sites(points)
        dims = 2 if reference_point == "all-differences" else 1
        f, errors = np.empty(0), np.empty((0,) * dims)
        if len(sites):
            functions = self._surface.functions(self._rows, sites)
            means = self._means(functions)
            reference = self._reference(reference_point, fes_reference, sites, means)
            base = self._target.means(reference)[0]
            with np.errstate(divide="ignore"):
                f = np.log(base) - np.log(means)
            if reference_point == "from-normalization":
                f += self._surface.log_constant
            if uncertainty_method is not None:
                errors = self._errors(functions, reference if dims == 1 else None, means, uncertainty_method)
        results = {"f_i": np.append(f, np.nan)[places]}  # a place of -1, outside, is the last
        if uncertainty_method is not None:
            padded = np.pad(errors, (0, 1), constant_values=np.nan)
            results["df_i" if dims == 1 else "df_ij"] = padded[np.ix_(*[places] * dims)]
        return results

    def _require(self, reference_point: str, fes_reference: Point | None, uncertainty_method: str | None) -> None:
        require_one_of(reference_point, REFERENCES, "reference_point")
        if reference_point == "from-specified" and fes_reference is None:
            raise ParameterError(
                "reference_point is 'from-specified', but no point was given. Give it as fes_reference."
            )
        if uncertainty_method not in ERRORS:
            raise ParameterError(
                f"uncertainty_method is {uncertainty_method!r}. Give None, 'analytical' or 'bootstrap'."
            )
        if uncertainty_method == "bootstrap" and not self._n_bootstraps:
            raise ParameterError(
                "uncertainty_method is 'bootstrap', but no refits were asked for. Write generate_fes(..., "
                "n_bootstraps=200)."
            )

    def _means(self, functions: Functions) -> Floats:
        """Return means, as many at once as a query can answer."""
        return np.concatenate([self._target.means(functions[:, part]) for part in _parts(functions.shape[1])])

    def _reference(self, kind: str, point: Point | None, sites: np.ndarray, means: Floats) -> Functions:
        """Return the function that free energies are relative to."""
        surface = self._surface
        assert surface is not None
        if kind == "from-normalization":
            return surface.whole(self._rows)
        if kind == "from-specified":
            at = as_points(np.asarray(point if surface.dims == 1 else [point]), surface.dims, "fes_reference")
            reference = surface.functions(self._rows, surface.sites(at)[1])
            outside = reference.shape[1] == 0
            if outside or self._target.means(reference)[0] == 0.0:
                raise ParameterError(
                    f"The reference point {point} lies {'outside the bins' if outside else 'where there are no rows'}. "
                    "Give one that has rows."
                )
            return reference
        if isinstance(surface, Kernel):
            return surface.functions(self._rows, sites[[int(means.argmax())]])
        every = np.arange(prod(surface.shape))
        best = int(self._means(surface.functions(self._rows, every)).argmax())
        return surface.functions(self._rows, every[[best]])

    def _errors(self, functions: Functions, reference: Functions | None, means: Floats, method: str) -> Floats:
        """Return errors of differences to the reference, or of all differences; NaN where there are no rows."""
        there = np.flatnonzero(means > 0)
        if reference is None:
            pairs = np.full((len(means), len(means)), np.nan)
            pairs[np.ix_(there, there)] = self._errors_of_differences(functions[:, there], method)
            return pairs
        errors = np.full(len(means), np.nan)
        stack = sparse.hstack if sparse.issparse(functions) else np.hstack
        for part in _parts(len(there)) if method == "analytical" else [slice(None)]:
            functions_of_pairs = stack([reference, functions[:, there[part]]])
            errors[there[part]] = self._errors_of_differences(functions_of_pairs, method)[0, 1:]
        return errors

    def _errors_of_differences(self, functions: Functions, method: str) -> Floats:
        """Return the error of each difference of two logs of means."""
        if method == "analytical":
            return errors_of_differences(self._target.log_covariance(functions))
        with np.errstate(divide="ignore"):
            logs = np.log(self._target.refits(functions, self._n_bootstraps, self._seed))
        return errors_of_differences(covariance_over(logs))

    def get_mbar(self) -> MBAR | None:
        """Return the states that the surface is computed from; None for the population of a fit."""
        return self.mbar


def _parts(width: int, at_once: int = 64) -> list[slice]:
    return [slice(start, start + at_once) for start in range(0, width, at_once)]

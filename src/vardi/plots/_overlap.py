"""How much samples overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.plots._axes import AFTER, LINK, axes_of

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample

LABELLED = 12  # samples up to which a heat map has all its numbers written in
NUMBERED = 25  # samples up to which it has those that are not 0
TICKS = 30  # names along an axis
SHORT = 4  # letters of a name that need not be turned


@dataclass
class OverlapDisplay:
    """How much the samples overlap, as a graph or as a heat map.

    Parameters
    ----------
    names : tuple
        The samples.
    overlap : ndarray of shape (K, K)
        O_kl: the mean probability that a row which k explains came from l. Rows sum to 1.
    shared : ndarray of shape (K, K)
        Rows of sample l (columns) that bias k (rows) allows.
    sizes : ndarray of shape (K,)
        Rows of each sample.
    """

    names: tuple[Name, ...]
    overlap: Floats
    shared: Floats
    sizes: Floats

    @classmethod
    def from_fit(cls, fit: DebiasedSample, kind: str = "heatmap", *, ax: Any = None) -> Self:
        """Compute the overlap of a fit and draw it, ``kind`` being "heatmap" or "graph"."""
        diagnostics = fit.diagnostics(columns=())
        sizes = np.array([sample.rows for sample in diagnostics.samples if sample.rows])
        display = cls(diagnostics.verdict.names, diagnostics.overlap, diagnostics.verdict.reach.toarray(), sizes)
        return display.plot(kind, ax=ax)

    def plot(self, kind: str = "heatmap", *, ax: Any = None) -> Self:
        """Draw on the given axes, or on new ones."""
        if kind not in ("heatmap", "graph"):
            raise ValueError(f"kind is {kind!r}; it is 'heatmap' or 'graph'")
        self.ax_, self.figure_ = axes_of(ax)
        if kind == "heatmap":
            self._heatmap()
        else:
            self._graph()
        return self

    def _heatmap(self) -> None:
        K = len(self.names)
        image = self.ax_.imshow(self.overlap, cmap="Blues", vmin=0.0, vmax=1.0)
        shown = range(0, K, -(-K // TICKS))
        upright = K > LABELLED or max(len(str(name)) for name in self.names) <= SHORT
        turned = {} if upright else {"rotation": 45, "ha": "right"}
        self.ax_.set_xticks(shown, [str(self.names[k]) for k in shown], **turned)
        self.ax_.set_yticks(shown, [str(self.names[k]) for k in shown])
        if K > LABELLED:
            self.ax_.tick_params(labelsize=8 if K <= NUMBERED else 7, rotation=90, axis="x")
            self.ax_.tick_params(labelsize=8 if K <= NUMBERED else 7, axis="y")
        if K <= NUMBERED:
            self._numbers()
        self.ax_.set(title="Overlap of the samples", xlabel="could have come from", ylabel="rows of")
        self.figure_.colorbar(image, ax=self.ax_, label="mean probability")

    def _numbers(self) -> None:
        """Write the numbers in; where there are many, those that do not round to 0, and no digit before the point."""
        K = len(self.names)
        for (k, l), value in np.ndenumerate(self.overlap):
            text = f"{value:.2f}" if K <= LABELLED else f"{value:.2f}".lstrip("0").replace(".00", "")
            shade, size = "white" if value > 0.5 else "black", None if K <= LABELLED else 130 / K
            self.ax_.text(l, k, text, ha="center", va="center", color=shade, fontsize=size)

    def _graph(self) -> None:
        K = len(self.names)
        angles = (np.pi if K == 2 else np.pi / 2) - 2 * np.pi * np.arange(K) / K
        x, y = np.cos(angles), np.sin(angles)
        both = self.shared + self.shared.T
        for k in range(K):
            for l in range(k + 1, K):
                if both[k, l]:
                    one_way = not (self.shared[k, l] and self.shared[l, k])
                    width = 1.0 + 5.0 * both[k, l] / (self.sizes[k] + self.sizes[l])
                    self.ax_.plot([x[k], x[l]], [y[k], y[l]], "--" if one_way else "-", lw=width, color=LINK, zorder=1)
                    label = f"{both[k, l]:,.0f}"
                    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
                    place = (0.62 * x[k] + 0.38 * x[l], 0.62 * y[k] + 0.38 * y[l])  # off the middle, where lines cross
                    self.ax_.annotate(label, place, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
        self.ax_.scatter(x, y, s=200 + 1200 * self.sizes / self.sizes.max(), color=AFTER, zorder=3)
        for k, name in enumerate(self.names):
            self.ax_.annotate(
                f"{name}\n{self.sizes[k]:,.0f} rows",
                (x[k], y[k]),
                xytext=(1.62 * x[k], 1.42 * y[k]),
                ha="center",
                va="center",
            )
        self.ax_.set(xlim=(-2.1, 2.1), ylim=(-1.7, 1.7), title="Rows that two samples share (dashed: one way)")
        self.ax_.set_aspect("equal")
        self.ax_.axis("off")

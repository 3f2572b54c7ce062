"""How much samples overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.plots._axes import (
    LINE,
    Display,
    Palette,
    background_of,
    brightness,
    inches_of,
    is_dark,
    labels,
    shortened,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from vardi._fit.sample import DebiasedSample

FEW = 8  # samples up to which a heat map has all its numbers written in, and names around a graph are horizontal
NUMBERED = 25  # samples up to which it shows those that are not 0
COUNTED = 15  # links up to which their rows are written on them


@dataclass
class OverlapDisplay(Display):
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
    def from_fit(cls, fit: DebiasedSample, kind: str = "heatmap", *, ax: Axes | None = None) -> Self:
        """Compute the overlap of a fit and draw it, ``kind`` being "heatmap" or "graph"."""
        diagnostics = fit.diagnostics(columns=())
        sizes = np.array([sample.rows for sample in diagnostics.samples if sample.rows])
        display = cls(diagnostics.verdict.names, diagnostics.overlap, diagnostics.verdict.reach.toarray(), sizes)
        return display.plot(kind, ax=ax)

    def plot(self, kind: str = "heatmap", *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        if kind not in ("heatmap", "graph"):
            raise ValueError(f"kind is {kind!r}. Give 'heatmap' or 'graph'.")
        self._kind = kind
        return super().plot(ax=ax)

    @property
    def size(self) -> tuple[float, float] | None:
        """Width and height in inches of a figure in which the names fit, up to some width; None for the usual ones."""
        K = len(self.names)
        if K <= FEW:
            return None
        side = min(max(LINE * K + 2.5, 6.0), 10.0)
        return (1.15 * side, side) if self._kind == "heatmap" else (side, side)

    def _draw(self, ax: Axes, colours: Palette) -> None:
        if self._kind == "heatmap":
            self._heatmap(ax)
        else:
            self._graph(ax, colours)

    def _heatmap(self, ax: Axes) -> None:
        """Draw a square for each pair; colours go up to the largest number and, if many, separate small ones."""
        from matplotlib.colors import PowerNorm

        K = len(self.names)
        scale = PowerNorm(1.0 if K <= FEW else 0.5, vmin=0.0, vmax=float(self.overlap.max()))
        image = ax.imshow(self.overlap, cmap="Blues_r" if is_dark(ax) else "Blues", norm=scale)
        shown, texts = labels(self.names, min(inches_of(ax)))
        upright = K <= FEW and max(len(str(name)) for name in self.names) <= 4
        turned = {} if upright else {"rotation": 90} if K > FEW else {"rotation": 45, "ha": "right"}
        small: dict[str, Any] = {} if K <= FEW else {"fontsize": 8 if K <= NUMBERED else 7}
        ax.set_xticks(shown, texts, **turned, **small)
        ax.set_yticks(shown, texts, **small)
        if K <= NUMBERED:
            self._numbers(ax, image)
        ax.set(title="Overlap of the samples", xlabel="could have come from", ylabel="rows of")
        self.figure_.colorbar(image, ax=ax, label="mean probability", shrink=0.8)

    def _numbers(self, ax: Axes, image: AxesImage) -> None:
        """Write the numbers in; if there are many, those that do not round to 0, without the digit before the point."""
        K, shades = len(self.names), image.to_rgba(self.overlap)
        for (k, l), value in np.ndenumerate(self.overlap):
            text = f"{value:.2f}" if K <= FEW else f"{value:.2f}".lstrip("0").replace(".00", "")
            shade = "black" if brightness(shades[k, l]) > 0.5 else "white"
            size = None if K <= FEW else min(8.0, 130 / K)
            ax.text(l, k, text, ha="center", va="center", color=shade, fontsize=size)

    def _graph(self, ax: Axes, colours: Palette) -> None:
        """Draw the samples on a circle, their names outside it, and a line for each pair that shares rows."""
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Circle

        K = len(self.names)
        angles = (np.pi if K == 2 else np.pi / 2) - 2 * np.pi * np.arange(K) / K
        places = np.column_stack([np.cos(angles), np.sin(angles)])
        apart = 2 * np.sin(np.pi / max(K, 2))  # from a sample to the next
        radii = min(0.2, 0.32 * apart) * np.sqrt(0.15 + 0.85 * self.sizes / self.sizes.max())
        links = self._links(ax, colours.link, places)
        circles = [Circle(place, radius) for place, radius in zip(places, radii, strict=True)]
        ax.add_collection(PatchCollection(circles, color=colours.after, zorder=3))
        self._names(ax, angles, places, radii)
        many = "wider: more of their rows; " if links > COUNTED else ""
        title = f"Rows that two samples share\n({many}dashed: one way)"
        if self._is_crowded:
            more = "(wider: more of them could as well have come from the other)"
            title = f"Every sample could have drawn every row\n{more}"
        ax.set_title(title, fontsize="medium")
        ax.axis("off")

    def _links(self, ax: Axes, colour: str, places: Floats) -> int:
        """Draw the lines, the smallest share first, the larger the wider and darker; return how many there are."""
        from matplotlib.collections import LineCollection

        first, second = np.nonzero(np.triu(self.shared + self.shared.T, 1))
        both, few = self.shared[first, second] + self.shared[second, first], len(first) <= COUNTED
        if self._is_crowded:  # shared rows would say nothing, and their lines hide all
            mutual = (self.overlap + self.overlap.T)[first, second]
            seen = mutual > 0.02 * mutual.max()  # fainter ones are not drawn
            first, second, share = first[seen], second[seen], mutual[seen] / mutual.max()
        else:
            share = both / (self.sizes[first] + self.sizes[second])
        one_way = (self.shared[first, second] == 0) | (self.shared[second, first] == 0)
        widths = (1.0 + 5.0 * share) if few else (0.3 + 4.0 * share) * min(1.0, 15 / len(self.names))
        alphas = np.ones(len(share)) if few else 0.2 + 0.7 * share / max(share.max(), 1e-300)
        order = np.argsort(share)
        ends, styles = np.stack([places[first], places[second]], axis=1)[order], np.where(one_way, "--", "-")[order]
        if len(order):
            lines = {"linewidths": widths[order], "alpha": alphas[order], "linestyles": styles.tolist()}
            ax.add_collection(LineCollection(list(ends), colors=colour, **lines))
        if few:
            box = {"facecolor": background_of(ax), "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
            for k, l, rows in zip(first, second, both, strict=True):
                near = 0.5 if l - k in (1, len(places) - 1) else 0.73  # lines between neighbours cross no other
                place = near * places[k] + (1 - near) * places[l]
                ax.annotate(f"{rows:,.0f}", place, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
        return len(share)

    @property
    def _is_crowded(self) -> bool:
        """Whether every bias allows every row of many samples."""
        K = len(self.names)
        return K * (K - 1) / 2 > COUNTED and bool((self.shared + np.diag(self.sizes) >= self.sizes).all())

    def _names(self, ax: Axes, angles: Floats, places: Floats, radii: Floats) -> None:
        """Write the names outside the circle, rotated outwards if many, and leave them room."""
        K = len(self.names)
        is_few = K <= FEW
        size = 10 if is_few else 8 if K <= NUMBERED else 7
        form = "{}\n{:,.0f} rows" if is_few else "{} ({:,.0f})"
        texts = [form.format(shortened(name), rows) for name, rows in zip(self.names, self.sizes, strict=True)]
        letter = 0.6 / 72 * size  # inches of the widest
        long = max(len(line) for text in texts for line in text.split("\n")) * letter
        width, height = (side / 2 for side in inches_of(ax))
        outside = 1.05 + radii.max()  # then an inch is so much of the radius:
        inch = outside / max(min(width - long, height - (3 * LINE if is_few else long)), min(width, height) / 4)
        ax.set(xlim=(-width * inch, width * inch), ylim=(-height * inch, height * inch), aspect="equal")
        for k in spread(K, 2 * np.pi / inch):
            x, y = places[k] * (1.05 + radii[k])
            side = "left" if x > 0.1 else "right" if x < -0.1 else "center"
            above, degrees = "bottom" if y > 0.5 else "top" if y < -0.5 else "center", 0.0
            if not is_few:
                side, above = "left" if x >= 0 else "right", "center"
                degrees = np.degrees(angles[k]) + (0.0 if x >= 0 else 180.0)
            ax.text(x, y, texts[k], fontsize=size, ha=side, va=above, rotation=degrees, rotation_mode="anchor")

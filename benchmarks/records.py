"""What a benchmark takes and what it gives back: small frozen values, rendered elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """How large and how often.

    Attributes
    ----------
    shrink : int
        Divides every number of rows: 1 for numbers worth quoting, 20 for ``--quick``.
    repeats : int
        Timed calls of each contestant; the best one counts.
    full : bool
        Whether slow peers run at the largest size too, instead of at a tenth of it with the time scaled.
    patience : float
        Seconds of timed calls after which a contestant sits out the rounds that are left.
    """

    shrink: int = 1
    repeats: int = 3
    full: bool = False
    patience: float = 240.0

    def rows(self, n: int, *, least: int = 1) -> int:
        """Return how many rows a design of n rows has here."""
        return max(n // self.shrink, least)


@dataclass(frozen=True)
class Record:
    """One contestant at one work. None is what was not measured."""

    work: str
    who: str
    seconds: float | None = None
    accuracy: float | None = None  # max_k |Gamma_k - 1|, the residual of Vardi's system
    extra_memory: float | None = None  # as a multiple of the input matrix
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A number that the design names, beside what was measured."""

    what: str
    measured: float | None
    bar: float | None = None
    goal: float | None = None
    unit: str = "x"
    higher_is_better: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the bar and the goal are reached."""
        if self.measured is None:
            return "not measured"
        if self.bar is None and self.goal is None:
            return "no bar"
        if self._reaches(self.goal):
            return "goal reached"
        if self._reaches(self.bar):
            return "bar reached" if self.goal is not None else "reached"
        return "NOT reached"

    def _reaches(self, level: float | None) -> bool:
        if level is None or self.measured is None:
            return False
        measured = float(f"{self.measured:.3g}")  # as it is shown
        return measured >= level if self.higher_is_better else measured <= level


@dataclass(frozen=True)
class Report:
    """All that one benchmark found."""

    name: str
    about: str
    records: tuple[Record, ...] = ()
    targets: tuple[Target, ...] = ()
    remarks: tuple[str, ...] = field(default=())

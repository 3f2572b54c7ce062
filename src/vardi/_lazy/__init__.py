"""Lazy frames: the same fit, with the rows left where they are and only sums brought back."""

from vardi._lazy.sample import LazyDebiasedSample

__all__ = ["LazyDebiasedSample"]

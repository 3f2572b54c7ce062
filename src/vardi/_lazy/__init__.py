"""Lazy frames: the rows left where they are and only sums brought back."""

from vardi._lazy.pool import LazyPool, any_lazy, as_lazy_pool

__all__ = ["LazyPool", "any_lazy", "as_lazy_pool"]

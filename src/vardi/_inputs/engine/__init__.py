"""Lazy frames: checked and prepared where they are, by a query or two that return sums."""

from vardi._inputs.engine.pool import LazyPool, as_lazy_pool

__all__ = ["LazyPool", "as_lazy_pool"]

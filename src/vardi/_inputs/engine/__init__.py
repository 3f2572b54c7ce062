"""Lazy frames: checked and prepared where they are, by a query or two that return sums."""

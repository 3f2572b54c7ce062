"""Sums -> Solution: whether there is one, and Newton's method."""

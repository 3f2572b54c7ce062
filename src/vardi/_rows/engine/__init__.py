"""Rows that stay in their engine."""

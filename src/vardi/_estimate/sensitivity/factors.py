"""The factors by which biases may be wrong, if none are given."""

GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)

"""One fit: what users call, the rows they gave, and the sample that comes out of it."""

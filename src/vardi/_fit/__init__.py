"""One fit: what users call, the pipeline, and the sample that comes out of it."""

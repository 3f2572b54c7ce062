"""The pages are doctests; what builds them, and what a build leaves behind, is not."""

collect_ignore_glob = ["*.py", "_build/*", "_extensions/*", "_generated/*", "gallery/*", "reference/generated/*"]

"""One account of a fit, from which text, pages and pictures are made."""

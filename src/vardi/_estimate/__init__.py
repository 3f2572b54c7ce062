"""Solution -> numbers with their errors."""

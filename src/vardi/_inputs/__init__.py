"""What users bring -> Pool."""

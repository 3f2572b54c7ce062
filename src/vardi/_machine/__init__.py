"""The machine: threads, memory, and files that are written whole or not at all."""

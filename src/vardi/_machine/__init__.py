"""What the machine gives: threads, memory, files that are whole or not there."""

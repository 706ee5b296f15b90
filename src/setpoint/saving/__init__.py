"""Model files, from which nothing is executed."""

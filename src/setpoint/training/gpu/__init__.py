"""Training steps that stay on a GPU."""

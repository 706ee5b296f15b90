"""Model files: JSON, safetensors and skops. Loading one never executes code from it."""

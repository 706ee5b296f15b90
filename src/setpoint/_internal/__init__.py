"""What every folder needs: optional dependencies, validation, processes, devices."""

"""The command line, ``setpoint``."""

from setpoint.cli.app import main

__all__ = ["main"]

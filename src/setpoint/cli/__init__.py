"""The command line: from a table to a decision."""

from setpoint.cli.app import main

__all__ = ["main"]

"""The command line of the experiments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from setpoint.errors import SetpointError
from setpoint.experiments import figures
from setpoint.experiments.data import LOADERS
from setpoint.experiments.reproduce import reproduce
from setpoint.experiments.scale import SCALES
from setpoint.experiments.tables import TABLES


def main(
    arguments: Sequence[str] | None = None, prog: str = "python -m setpoint.experiments"
) -> int:
    """Run the command line; return its exit code."""
    given = vars(_parser(prog).parse_args(arguments))
    try:
        written = reproduce(given.pop("names"), given.pop("out"), **given)
    except SetpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, a folder that may not be written
        print(
            f"error: {error}. What is trained is kept. Put that right, or choose another folder "
            "with --out; the same command goes on from here.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here.", file=sys.stderr)
        return 130
    for path in written:
        print(path)
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser; its options are the parameters of ``reproduce``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="The paper's tables and figures. Data are read from SETPOINT_DATA.",
        epilog=f"Tables: {', '.join(TABLES)}. Figures: {', '.join(figures.NAMES)}.",
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="NAME", help="tables, figures, or 'all'")
    add("--scale", choices=tuple(SCALES), default="small")
    add("--split", choices=("honest", "paper"), default="honest")
    add("--out", default="results", type=Path, help="folder (default: results)")
    add("--datasets", nargs="+", default=(), metavar="D", help=", ".join(LOADERS))
    add("--methods", nargs="+", default=(), metavar="M")
    add("--trials", type=int)
    add("--workers", type=int, help="processes (default: one per core)")
    add("--devices", nargs="+", default=("cpu",), help="e.g. cuda:0 cuda:1")
    add("--only-train", action="store_true", help="no tables, no figures yet")
    add("--keep-old", action="store_true", help="train nothing again because the code changed")
    add("--quiet", action="store_true")
    return parser

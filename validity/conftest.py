"""The table of measured error rates."""

import os
from pathlib import Path

import pytest

TABLE = os.environ.get("SETPOINT_VALIDITY_TABLE")
HEADER = "| what | setting | draws | certified | false | allowed |\n|---|---|---|---|---|---|\n"


@pytest.fixture
def record():
    """Append one line to the file named by SETPOINT_VALIDITY_TABLE, if it is set."""

    def append(what, setting, draws, certified, false, allowed):
        if TABLE:
            issued = "" if certified is None else f"{certified:.1%}"
            with Path(TABLE).open("a", encoding="utf-8") as file:
                file.write(
                    f"| {what} | {setting} | {draws:,} | {issued} | {false:.1%} | {allowed:.0%} |\n"
                )

    return append


def pytest_sessionstart(session):
    """Start a new table; workers of xdist only append to it."""
    if TABLE and not hasattr(session.config, "workerinput"):
        Path(TABLE).write_text("", encoding="utf-8")


def pytest_sessionfinish(session):
    """Sort the lines and add a header."""
    if TABLE and not hasattr(session.config, "workerinput"):
        lines = sorted(Path(TABLE).read_text(encoding="utf-8").splitlines(keepends=True))
        Path(TABLE).write_text(HEADER + "".join(lines), encoding="utf-8")

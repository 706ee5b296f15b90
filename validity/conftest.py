"""Settings for the simulations, and the table of what they measure."""

import os
from pathlib import Path

import pytest

TABLE = os.environ.get("SETPOINT_VALIDITY_TABLE")
HEAD = "| what | setting | draws | certified | false | allowed |\n|---|---|---|---|---|---|\n"


@pytest.fixture
def record():
    """Append one line to the table that SETPOINT_VALIDITY_TABLE names, if it names one."""

    def append(what, setting, draws, certified, false, allowed):
        if TABLE:
            issued = "" if certified is None else f"{certified:.1%}"
            with Path(TABLE).open("a", encoding="utf-8") as file:
                file.write(
                    f"| {what} | {setting} | {draws:,} | {issued} | {false:.1%} | {allowed:.0%} |\n"
                )

    return append


def pytest_sessionstart(session):
    """Begin a new table; workers of xdist only append to it."""
    if TABLE and not hasattr(session.config, "workerinput"):
        Path(TABLE).write_text("", encoding="utf-8")


def pytest_sessionfinish(session):
    """Put the lines in order, below a head."""
    if TABLE and not hasattr(session.config, "workerinput"):
        lines = sorted(Path(TABLE).read_text(encoding="utf-8").splitlines(keepends=True))
        Path(TABLE).write_text(HEAD + "".join(lines), encoding="utf-8")

"""A temporary data folder."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that SETPOINT_DATA names."""
    monkeypatch.setenv("SETPOINT_DATA", str(tmp_path))
    return tmp_path

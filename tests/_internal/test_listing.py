"""Tables as aligned text."""

from setpoint._internal.listing import aligned


def test_aligned():
    assert aligned([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc   d"]

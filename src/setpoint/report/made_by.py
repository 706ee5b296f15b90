"""How pages and pictures say that they are ours, so that later ones may replace them."""

from __future__ import annotations


def made_by() -> str:
    """Return what a file names as its maker; it begins with "setpoint " in every version."""
    from setpoint import __version__

    return f"setpoint {__version__}"


def picture_metadata(kind: str) -> dict[str, str | None]:
    """Return the metadata of a PNG, SVG or PDF: its maker, and no date.

    The same content then gives the same file.
    """
    undated: dict[str, dict[str, str | None]] = {
        "png": {"Software": made_by()},
        "svg": {"Creator": made_by(), "Date": None},
        "pdf": {"Creator": made_by(), "CreationDate": None},
    }
    return undated[kind]

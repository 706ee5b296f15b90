"""Whether what is given are sources of rows, and rows that judge are like those that train."""

from __future__ import annotations

from typing import Any

from setpoint.streams.errors import SourceError


def check_sources(source: Any, validation: Any) -> None:
    """Refuse what is no source, and a validation source of other features or another class."""
    for given in (source,) if validation is None else (source, validation):
        if not hasattr(given, "blocks"):
            raise SourceError(
                f"rows come from a source, and a {type(given).__name__} is none: wrap arrays in "
                "setpoint.streams.ArrayRows, a data loader in LoaderRows, and name files or a "
                "folder to ParquetRows."
            )
    if validation is not None:
        _check_features(getattr(source, "features", None), getattr(validation, "features", None))
        _check_positive(getattr(source, "classes", None), getattr(validation, "classes", None))


def _check_features(mine: Any, theirs: Any) -> None:
    if mine is None or theirs is None or list(mine) == list(theirs):
        return
    differ = sorted(set(mine) ^ set(theirs), key=str)
    if differ:
        named = ", ".join(map(repr, differ[:5])) + (", ..." if len(differ) > 5 else "")
        found = f"have other features than the training rows: {named} is in one of them only"
    else:
        found = "have their features in another order than the training rows"
    raise SourceError(
        f"the validation rows {found}. Name the same for both, in one order: features=[...]."
    )


def _check_positive(mine: Any, theirs: Any) -> None:
    if mine is not None and theirs is not None and mine[1] != theirs[1]:
        raise SourceError(
            f"the positive label is {theirs[1]!r} in the validation rows and {mine[1]!r} in the "
            "training rows; name the same for both."
        )

"""Modules that only some of the package needs, and how to get them."""

from __future__ import annotations

import importlib
from typing import Any

from setpoint.errors import SetpointError


class MissingExtraError(SetpointError, ImportError):
    """A module that is not installed, or cannot be imported."""


def need(module: str, extra: str, what: str) -> Any:
    """Import a module of an extra, or say how to install it.

    Parameters
    ----------
    module : str
        Its full name, e.g. ``"PIL.Image"``.
    extra : str
        The extra of this package that brings it.
    what : str
        What needs it, at the beginning of a sentence.

    Examples
    --------
    >>> need("torch.nn", "features", "a network").Linear(1, 2).out_features
    2
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs {module.partition(".")[0]}: pip install "setpoint[{extra}]" ({error}).'
        ) from error

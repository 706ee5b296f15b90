"""Optional dependencies, and public names that are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from setpoint.errors import MissingExtraError


def need(module: str, extra: str, what: str) -> Any:
    """Import an optional dependency; MissingExtraError names the extra to install.

    Parameters
    ----------
    module : str
        Its full name, e.g. ``"PIL.Image"``.
    extra : str
        The extra of this package that installs it.
    what : str
        What needs it; error messages begin with this.

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


def lazy(
    package: dict[str, Any], homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names are imported on first use.

    Parameters
    ----------
    package : dict
        The package's ``globals()``.
    homes : mapping of str to sequence of str
        The names that each of its modules provides.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package['__name__']}.{home_of[name]}")
        found = package[name] = getattr(module, name)
        return found

    return get, lambda: sorted({*package, *home_of})


class OptionalModule:
    """A module of an optional dependency, which is imported on first use; see :func:`need`."""

    def __init__(self, module: str, extra: str, what: str) -> None:
        self._asked = (module, extra, what)

    def __getattr__(self, name: str) -> Any:
        return getattr(need(*self._asked), name)

"""Optional dependencies, and public names that are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from setpoint.errors import MissingExtraError

BOOSTERS = ("xgboost", "lightgbm", "catboost")  # in order of preference


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
    package: dict[str, Any], names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package that imports on first use.

    For type checkers the package also imports each name as itself, under ``TYPE_CHECKING``.

    Parameters
    ----------
    package : dict
        The package's ``globals()``.
    names : mapping of str to str
        The public names of each of its modules, separated by spaces.
    """
    module_of = {name: module for module, text in names.items() for name in text.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package['__name__']}.{module_of[name]}")
        found = package[name] = getattr(module, name)
        return found

    return sorted(module_of), get, lambda: sorted({*package, *module_of})


class OptionalModule:
    """A module of an optional dependency, which is imported on first use; see :func:`need`."""

    def __init__(self, module: str, extra: str, what: str) -> None:
        self._asked = (module, extra, what)

    def __getattr__(self, name: str) -> Any:
        return getattr(need(*self._asked), name)

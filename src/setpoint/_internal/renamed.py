"""Former names, which still work for one release, with a ``DeprecationWarning``."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Each public module of version 0.1 with the modules that now provide its names, searched in order.
RENAMED = {
    "setpoint.capped_loss": ("setpoint.method.capped_loss",),
    "setpoint.datasets": ("setpoint.paper.datasets",),
    "setpoint.demo": ("setpoint.cli.demo",),
    "setpoint.exact": ("setpoint.method.referee",),
    "setpoint.experiments": ("setpoint.paper",),
    "setpoint.features": ("setpoint.paper.features",),
    "setpoint.losses": ("setpoint.training", "setpoint.paper.competitors"),
    "setpoint.metrics": ("setpoint.goals.metrics",),
    "setpoint.models": ("setpoint.training.models",),
    "setpoint.onnx_export": ("setpoint.export", "setpoint.errors"),
    "setpoint.operating_point": ("setpoint.thresholds.operating_point",),
    "setpoint.own_metrics": ("setpoint.goals.custom_metrics",),
    "setpoint.penalty": ("setpoint.method.penalty",),
    "setpoint.plots": ("setpoint.report.plots",),
    "setpoint.reformulation": ("setpoint.method.reformulation",),
    "setpoint.several_goals": ("setpoint.estimators.several_goals",),
    "setpoint.solvers": ("setpoint.training", "setpoint.paper.competitors"),
    "setpoint.streams": (
        "setpoint.data",
        "setpoint.thresholds",
        "setpoint.training",
        "setpoint.errors",
    ),
    "setpoint.tabular": ("setpoint.tables", "setpoint.data", "setpoint.errors"),
    "setpoint.threshold": ("setpoint.estimators.threshold",),
}


class _RenamedModule(ModuleType):
    """A former module: it takes every name from the modules that provide it now."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for home in RENAMED[self.__name__]:
                found = getattr(importlib.import_module(home), name, None)
                if found is not None:
                    return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in RENAMED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _RenamedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        homes = " and ".join(RENAMED[module.__name__])
        warnings.warn(
            f"{module.__name__} is deprecated; its names are now in {homes}.",
            DeprecationWarning,
            stacklevel=2,
        )


def renamed_names(
    package: str, get: Callable[[str], Any], names: Mapping[str, str]
) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that also knows former names.

    Parameters
    ----------
    package : str
        Its name.
    get : callable
        Its ``__getattr__`` for all other names.
    names : mapping of str to str
        The package and name of today for each former name, e.g. ``"setpoint.data.Split"``.
    """

    def get_renamed(name: str) -> Any:
        if name not in names:
            return get(name)
        warnings.warn(
            f"{package}.{name} is deprecated; it is now {names[name]}.",
            DeprecationWarning,
            stacklevel=2,
        )
        home, _, new = names[name].rpartition(".")
        return getattr(importlib.import_module(home), new)

    return get_renamed


def install() -> None:
    """Make the former names importable; calling it again changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())

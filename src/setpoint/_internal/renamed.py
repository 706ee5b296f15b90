"""Former names of modules and parameters, which give a ``DeprecationWarning`` for one release."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, TypeVar

# Each public module of version 0.1 with the modules that now provide its names, searched in order.
RENAMED = {
    "setpoint.capped_loss": ("setpoint.method.capped_loss",),
    "setpoint.datasets": ("setpoint.paper.datasets",),
    "setpoint.demo": ("setpoint.cli.demo",),
    "setpoint.exact": ("setpoint.method.referee",),
    "setpoint.experiments": ("setpoint.paper",),
    "setpoint.experiments.command": ("setpoint.paper.reproduce",),
    "setpoint.experiments.figures": ("setpoint.paper.figures",),
    "setpoint.experiments.methods": ("setpoint.paper.methods",),
    "setpoint.experiments.paper_values": ("setpoint.paper.paper_values",),
    "setpoint.experiments.reproduce": ("setpoint.paper.reproduce",),
    "setpoint.experiments.scale": ("setpoint.paper.methods",),
    "setpoint.features": ("setpoint.paper.features",),
    "setpoint.losses": ("setpoint.training", "setpoint.paper.competitors"),
    "setpoint.metrics": ("setpoint.goals.metrics",),
    "setpoint.models": ("setpoint.training.models",),
    "setpoint.onnx_export": ("setpoint.export", "setpoint.errors"),
    "setpoint.operating_point": ("setpoint.thresholds.operating_point",),
    "setpoint.own_metrics": ("setpoint.goals.custom_metrics",),
    "setpoint.penalty": ("setpoint.method.penalty",),
    "setpoint.plots": ("setpoint.report",),
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
        if fullname.removesuffix(".__main__") not in RENAMED:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in RENAMED)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _RenamedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        homes = " and ".join(RENAMED[module.__name__])
        warnings.warn(
            f"{module.__name__} is deprecated; its names are now in {homes}.",
            DeprecationWarning,
            stacklevel=2,
        )

    def get_code(self, fullname: str) -> CodeType:
        """Return the program of ``python -m`` with a former name: it runs the present module.

        A worker process runs its parent's main module again, under another ``__name__``.
        """
        former = fullname.removesuffix(".__main__")
        home = RENAMED[former][0]
        message = f"python -m {former} is deprecated; use python -m {home}."
        source = (
            "import runpy, warnings\n"
            f"warnings.warn({message!r}, DeprecationWarning)\n"
            f"runpy.run_module({home!r}, run_name=__name__, alter_sys=True)\n"
        )
        return compile(source, f"<{fullname}>", "exec")


def install() -> None:
    """Make the former names importable; calling it again changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


T = TypeVar("T", bound=type)


def renamed_parameter(old: str, new: str) -> Callable[[T], T]:
    """Let a class accept a parameter, and have an attribute, under its former name too."""

    def decorated(cls: T) -> T:
        init = cls.__init__  # type: ignore[misc]

        def accepting_both(self: Any, *args: Any, **given: Any) -> None:
            if old in given:
                _warn(cls, old, new)
                given[new] = given.pop(old)
            init(self, *args, **given)

        def former(self: Any) -> Any:
            _warn(cls, old, new)
            return getattr(self, new)

        functools.update_wrapper(accepting_both, init)
        cls.__init__ = accepting_both  # type: ignore[misc]
        setattr(cls, old, property(former))
        return cls

    return decorated


def _warn(cls: type, old: str, new: str) -> None:
    warnings.warn(
        f"{cls.__name__}'s parameter {old!r} is now called {new!r}.",
        DeprecationWarning,
        stacklevel=3,
    )

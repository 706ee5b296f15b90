"""Former names, which still work for one release, with a ``DeprecationWarning``."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

T = TypeVar("T", bound=Callable[..., Any])

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
    "setpoint.features.extract": ("setpoint.paper.features.extract",),
    "setpoint.losses": ("setpoint.training", "setpoint.paper.competitors"),
    "setpoint.metrics": ("setpoint.goals.metrics",),
    "setpoint.models": ("setpoint.training.models",),
    "setpoint.onnx_export": ("setpoint.export", "setpoint.errors"),
    "setpoint.operating_point": (
        "setpoint.thresholds.operating_point",
        "setpoint.thresholds.choose",
    ),
    "setpoint.own_metrics": ("setpoint.goals.custom_metrics",),
    "setpoint.penalty": ("setpoint.method.penalty",),
    "setpoint.plots": ("setpoint.report",),
    "setpoint.reformulation": ("setpoint.method.reformulation",),
    "setpoint.several_goals": ("setpoint.estimators.several_goals",),
    "setpoint.solvers": ("setpoint.training", "setpoint.paper.competitors"),
    "setpoint.tabular": ("setpoint.tables", "setpoint.data", "setpoint.errors"),
    "setpoint.threshold": ("setpoint.estimators.threshold",),
    # Modules that pickles of version 0.1 name.
    "setpoint._labels": ("setpoint.data.labels",),
    "setpoint._standardize": ("setpoint.data.standardize",),
    "setpoint.certificates.bound": ("setpoint.certificates.bounds",),
    "setpoint.losses.cross_entropy": ("setpoint.training",),
    "setpoint.solvers.augmented": ("setpoint.paper.competitors",),
    "setpoint.solvers.candidates": ("setpoint.training",),
    "setpoint.solvers.history": ("setpoint.training",),
    "setpoint.solvers.lagrangian": ("setpoint.paper.competitors",),
    "setpoint.solvers.lifted": ("setpoint.training",),
    "setpoint.solvers.loss_training": ("setpoint.training",),
    "setpoint.solvers.ordinary": ("setpoint.training",),
    "setpoint.solvers.projected": ("setpoint.training",),
    "setpoint.solvers.stochastic": ("setpoint.training",),
}


# Former modules that could be run with ``python -m``, and the arguments of ``python -m setpoint``.
_COMMANDS = {"setpoint.demo": "demo", "setpoint.experiments.__main__": "reproduce"}


class _RenamedModule(ModuleType):
    """A former module: it takes each name from the first module that provides it now."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for home in RENAMED[self.__name__]:
                found = getattr(importlib.import_module(home), name, None)
                if found is not None:
                    return found
        if name == "__all__":
            return dir(self)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        modules = map(importlib.import_module, RENAMED[self.__name__])
        return sorted({name for module in modules for name in getattr(module, "__all__", ())})


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in RENAMED and fullname not in _COMMANDS:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in RENAMED)
        return ModuleSpec(fullname, self, is_package=is_package)

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
        """Return what ``python -m`` runs."""
        former, command = fullname.removesuffix(".__main__"), _COMMANDS[fullname]
        return compile(
            "import sys, warnings\n"
            "from setpoint.cli import main\n"
            f"message = 'python -m {former} is deprecated; use python -m setpoint {command}.'\n"
            "warnings.warn(message, DeprecationWarning)\n"
            f"sys.exit(main([{command!r}, *sys.argv[1:]]))\n",
            f"<{fullname}>",
            "exec",
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


def renamed_parameters(**names: str) -> Callable[[T], T]:
    """Return a decorator for a function or class that also accepts former names of its parameters.

    ``@renamed_parameters(share="fraction")`` makes ``share=0.5`` mean ``fraction=0.5``. Objects of
    a class also have an attribute under the former name, and pickles with it load.
    """

    def accepting(function: Callable[..., Any], replaced: bool) -> Callable[..., Any]:
        @functools.wraps(function)
        def accept(*args: Any, **kwargs: Any) -> Any:
            for former in names.keys() & kwargs.keys():
                _warn(former, names[former])
                # dataclasses.replace(object, former=...) passes the object's value of the new name.
                if names[former] in kwargs and not replaced:
                    raise TypeError(f"{names[former]} is given twice, also as {former}.")
                kwargs[names[former]] = kwargs.pop(former)
            return function(*args, **kwargs)

        return accept

    def decorate(target: T) -> T:
        if not isinstance(target, type):
            return cast(T, accepting(target, replaced=False))
        target.__init__ = accepting(target.__init__, replaced=dataclasses.is_dataclass(target))  # type: ignore[misc]
        for former, name in names.items():
            setattr(target, former, renamed_property(former, name))

        def set_state(holder: Any, state: dict[str, Any]) -> None:
            holder.__dict__.update({names.get(name, name): value for name, value in state.items()})

        target.__setstate__ = set_state  # type: ignore[attr-defined]
        return target

    return decorate


def renamed_property(former: str, name: str) -> Any:
    """Return a property that reads the attribute ``name`` under its former name."""

    def get(holder: Any) -> Any:
        _warn(former, name)
        return getattr(holder, name)

    return property(get)


def _warn(former: str, name: str) -> None:
    warnings.warn(f"{former} is deprecated; it is now {name}.", DeprecationWarning, stacklevel=3)


def install() -> None:
    """Make the former modules importable; calling it again changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())

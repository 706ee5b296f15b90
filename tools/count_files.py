"""Count the files of the package, and those that a default fit and `setpoint fit` run code in.

    python tools/count_files.py

The first table gives files and lines of Python by folder. Then three things are done for real on
small generated data, each in a fresh process whose calls are traced: a fit of
``SetpointClassifier("max recall s.t. precision >= 0.9")``, the command
``setpoint fit table.csv --target ... --goal ... --out ...``, and the same command with
``--confidence 0.9 --report report.html``.

A file counts as one that they *run code in* if a function of it is called, in any thread, from
code that is not being imported. What does not count: bodies of modules and classes, which every
import runs, functions that such a body calls, and what ``import setpoint`` does to find a name.
The counts that include functions called during imports, and the numbers of imported modules, are
printed too. For the fit it also prints the *way to the loss*: the files whose functions are being
executed when ``capped_slope`` is first called.

Whichever ``setpoint`` is importable is measured; set PYTHONPATH for another one.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
import tokenize
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

GOAL = "max recall s.t. precision >= 0.9"
SHORT = 50


def package_folder() -> Path:
    """Return the folder of the package, which is not imported for it."""
    spec = find_spec("setpoint")
    if spec is None or spec.origin is None:
        sys.exit("setpoint cannot be imported; install it or set PYTHONPATH.")
    return Path(spec.origin).parent


# --- files and lines -----------------------------------------------------------------------------


def code_lines(text: str) -> int:
    """Return the number of lines without docstrings, comments and blank lines."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            first = body[0]
            if isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                documented |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - documented)


def print_lines(package: Path) -> None:
    """Print files and lines by top-level folder of the package, and lines of code in all."""
    lengths: dict[str, list[int]] = {}
    code = 0
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        folder = f"{inside.parts[0]}/" if len(inside.parts) > 1 else "root modules"
        text = path.read_text("utf-8")
        code += code_lines(text)
        lengths.setdefault(folder, []).append(len(text.splitlines()))
    print(f"{'folder':<16}{'files':>7}{'lines':>8}{'mean':>7}{f'under {SHORT}':>10}")
    everything = [n for own in lengths.values() for n in own]
    for folder, own in [*lengths.items(), ("total", everything)]:
        short = sum(n < SHORT for n in own)
        print(f"{folder:<16}{len(own):>7}{sum(own):>8}{sum(own) / len(own):>7.0f}{short:>10}")
    print(f"without docstrings, comments and blank lines: {code}")


# --- what runs -----------------------------------------------------------------------------------


@dataclass
class Trace:
    """The files of the package, in the order in which a function of theirs was first called.

    ``used`` has those called from code that is not being imported, ``called`` all of them.
    ``modules`` is how many modules of the package were imported. ``way`` has the files of the stack
    at the first call of the function ``target``, the outermost first.
    """

    package: str
    target: str = ""
    way: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    modules: int = 0

    def of(self, work: Callable[[], Any]) -> Trace:
        """Trace a piece of work."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        self.modules = sum(name.split(".")[0] == "setpoint" for name in sys.modules)
        return self

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & CO_OPTIMIZED:  # the latter: modules, classes
            return
        if not code.co_filename.startswith(self.package):
            return
        file = code.co_filename[len(self.package) + 1 :]
        if code.co_name == self.target and not self.way:
            self.way = self._stack(frame)
        if file not in self.called:
            self.called.append(file)
        if file not in self.used and not self._importing(frame):
            self.used.append(file)

    def _stack(self, frame: FrameType | None) -> list[str]:
        """Return the files of the package on the stack that ends with this frame."""
        files: list[str] = []
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.package):
                files.append(name[len(self.package) + 1 :])
            frame = frame.f_back
        return list(dict.fromkeys(reversed(files)))

    def _importing(self, frame: FrameType | None) -> bool:
        """Whether a module of the package is being imported where this frame is."""
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>" and code.co_filename.startswith(self.package):
                return True
            frame = frame.f_back
        return False


def trace_fit(package: str) -> Trace:
    """Trace the default fit."""
    from sklearn.datasets import make_classification

    X, y = make_classification(600, 8, weights=[0.8], class_sep=1.5, random_state=0)

    from setpoint import SetpointClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Trace(package, "capped_slope").of(lambda: SetpointClassifier(GOAL).fit(X, y))


def trace_command(package: str, with_report: bool) -> Trace:
    """Trace ``setpoint fit table.csv``, with a certificate and a report if wanted."""
    import numpy as np
    import pandas as pd

    from setpoint.cli import main

    rng = np.random.default_rng(0)
    fraud = rng.random(3000) < 0.2
    table = pd.DataFrame(
        {
            "amount": np.round(np.exp(rng.normal(3 + 1.8 * fraud, 0.8)), 2),
            "hour": rng.integers(0, 24, 3000),
            "country": rng.choice(["DE", "FR", "NL"], 3000),
            "fraud": fraud.astype(int),
        }
    )

    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "table.csv", Path(folder) / "model"
        table.to_csv(data, index=False)
        given = ["fit", str(data), "--target", "fraud", "--goal", GOAL, "--out", str(out)]
        if with_report:
            given += ["--confidence", "0.9", "--report", str(Path(folder) / "report.html")]

        def work() -> None:
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = main(given)
            if code != 0:
                raise RuntimeError(f"setpoint fit ended with {code}:\n{said.getvalue()}")

        return Trace(package).of(work)


def print_trace(title: str, trace: Trace) -> None:
    """Print which files ran."""
    print(f"\n{title}")
    print(f"  runs code in {len(trace.used)} files", end="")
    print(f" ({len(trace.called)} with what runs during imports)", end="")
    print(f", imports {trace.modules} modules")
    if trace.way:
        print(f"  way to the loss, {len(trace.way)} files: {' > '.join(trace.way)}")
    for number, file in enumerate(trace.used, 1):
        print(f"  {number:>3}  {file}")


def main() -> None:
    """Print all counts."""
    package = package_folder()
    print_lines(package)
    fit = f'SetpointClassifier("{GOAL}").fit(X, y)'
    command = f'setpoint fit table.csv --target fraud --goal "{GOAL}" --out model'
    options = "--confidence 0.9 --report report.html"
    for title, work in (
        (fit, trace_fit),
        (command, partial(trace_command, with_report=False)),
        (f"{command} {options}", partial(trace_command, with_report=True)),
    ):
        # A fresh process for each, so that imports of the one are not those of the other.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            print_trace(title, fresh.submit(work, str(package)).result())


if __name__ == "__main__":
    main()

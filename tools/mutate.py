"""Change a module in small ways, one at a time, and see whether tests notice.

    python tools/mutate.py run --module setpoint.goals.metrics --tests tests/goals/test_metrics.py \
        --out before.jsonl
    python tools/mutate.py run --module setpoint.other --tests tests/test_other.py \
        --out after.jsonl --same-as before.jsonl
    python tools/mutate.py compare before.jsonl after.jsonl

A change, a *mutant*, is made in the syntax tree: another operator, another number, a condition
that always or never holds, arguments in the other order. It is *caught* if a test fails or takes
ten times as long as all of them do otherwise, else it *survives*. No file on disk is changed: each
mutant has a process of its own, which imports the module with the change.

A mutant is identified by the function it is in, the kind of change, the text of the expression and
which one of several alike it is. Neither the module's name nor a line is part of that, so a
function may move to another file between two runs, and several files may be compared as one.
Each result is written at once; an interrupted run continues from there.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

TIMES = 10  # a mutant may take this many times what the tests take otherwise
LEAST_SECONDS = 20.0
MEMORY = 16 << 30  # bytes of addresses: a loop that never ends may fill a list
CAUGHT, SURVIVED = "caught", "survived"

# --- mutants -------------------------------------------------------------------------------------

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_DROPPED: dict[type[ast.unaryop], str] = {ast.Not: "not", ast.USub: "minus", ast.Invert: "~"}
_EXTREMES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "amin": "amax",
    "fmin": "fmax",
    "nanmin": "nanmax",
    "clamp_min": "clamp_max",
}
_EXTREMES |= {there: here for here, there in _EXTREMES.items()}
# Calls whose arguments may change places, and those that fail at once if they do.
_NOT_SWAPPED = {*_EXTREMES, "not_equal", "array_equal", "isinstance", "issubclass", "getattr",
                "hasattr", "cast"}  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANNOTATIONS = {"annotation", "returns", "decorator_list", "type_params"}


class Key(NamedTuple):
    """What a mutant is known by, wherever its function is."""

    function: str
    kind: str
    text: str
    nth: int

    def __str__(self) -> str:
        text = self.text if len(self.text) <= 70 else f"{self.text[:67]}..."
        return f"{self.function}: {self.kind} in `{text}`" + (f" #{self.nth}" if self.nth else "")


class Mutant(NamedTuple):
    """A change of one node of a module's syntax tree."""

    key: Key
    line: int
    place: int  # of the node, as ``ast.walk`` goes through the tree
    change: Callable[[Any], ast.AST]  # from that node, which it may alter, to what replaces it

    def applied(self, tree: ast.Module) -> ast.Module:
        """Return the tree with the change made."""
        changed = copy.deepcopy(tree)
        node = next(node for i, node in enumerate(ast.walk(changed)) if i == self.place)
        new = self.change(node)
        if new is not node:
            _replace(changed, node, ast.copy_location(new, node))
        return ast.fix_missing_locations(changed)


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
            elif isinstance(value, list):
                setattr(parent, name, [new if item is old else item for item in value])


def mutants_of(tree: ast.Module) -> list[Mutant]:
    """Return all mutants of a module, in the order of the source."""
    places = {id(node): i for i, node in enumerate(ast.walk(tree))}
    whole, seen = ast.dump(tree), Counter[tuple[str, str, str]]()
    found = []
    for node, parent, function in _nodes(tree):
        for kind, text, change in _changes(node, parent):
            alike = (function, kind, text)
            key = Key(*alike, seen[alike])
            seen[alike] += 1
            mutant = Mutant(key, getattr(node, "lineno", 0), places[id(node)], change)
            if ast.dump(mutant.applied(tree)) != whole:
                found.append(mutant)
    return found


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """Yield nodes, their parents and the functions, methods or constants that they are part of."""
    for statement in tree.body:
        yield from _inside(statement, tree, "")


def _inside(node: ast.AST, parent: ast.AST, within: str) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    dot = "." if within else ""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        within = f"{within}{dot}{node.name}"
    elif isinstance(parent, (ast.Module, ast.ClassDef)):
        target = _target(node)
        if target is None:  # an import, a docstring, a condition about types
            return
        within = f"{within}{dot}{target}"
    yield node, parent, within
    for name, value in ast.iter_fields(node):
        if name in _ANNOTATIONS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _inside(child, node, within)


def _target(statement: ast.AST) -> str | None:
    """Return the name that a statement gives a value to."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        target = statement.target
    else:
        return None
    return None if ast.unparse(target) == "__all__" else ast.unparse(target)


_Change = tuple[str, str, Callable[[Any], ast.AST]]


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[_Change]:
    """Yield the kind of each change of a node, the text that stands for it, and the change."""
    if isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        if new := _ARITHMETIC.get(type(node.op)):
            yield f"{_sign(node.op)} to {_sign(new())}", ast.unparse(node), _with("op", new())
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        kind = "and to or" if isinstance(node.op, ast.And) else "or to and"
        yield kind, ast.unparse(node), _with("op", other)
    elif isinstance(node, ast.UnaryOp):
        if dropped := _DROPPED.get(type(node.op)):
            yield f"no {dropped}", ast.unparse(node), lambda n: n.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node, parent)
    elif isinstance(node, ast.Name) and node.id in _EXTREMES:
        yield f"{node.id} to {_EXTREMES[node.id]}", _around(parent), _with("id", _EXTREMES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _EXTREMES:
        new_name = _EXTREMES[node.attr]
        yield f"{node.attr} to {new_name}", _around(parent), _with("attr", new_name)
    elif isinstance(node, ast.Call) and _is_swappable(node):
        yield "swapped arguments", ast.unparse(node), _with("args", node.args[::-1])
    if isinstance(node, (ast.If, ast.IfExp)):
        yield "condition True", ast.unparse(node.test), _with("test", ast.Constant(True))
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield "condition False", ast.unparse(node.test), _with("test", ast.Constant(False))
    if isinstance(node, ast.comprehension):
        for i, condition in enumerate(node.ifs):
            others = [*node.ifs[:i], *node.ifs[i + 1 :]]
            yield "condition True", ast.unparse(condition), _with("ifs", others)


def _comparisons(node: ast.Compare) -> Iterator[_Change]:
    for i, op in enumerate(node.ops):
        for new in _COMPARISONS[type(op)]:
            ops = [*node.ops[:i], new(), *node.ops[i + 1 :]]
            yield f"{_sign(op)} to {_sign(new())}", ast.unparse(node), _with("ops", ops)


def _constants(node: ast.Constant, parent: ast.AST) -> Iterator[_Change]:
    value = node.value
    if isinstance(value, bool):
        new: list[Any] = [not value]
    elif isinstance(value, (int, float)):
        new = [value + 1, 0] if value == 1 else [value + 1]
    else:
        return
    for other in new:
        if other != value:  # 1e300 + 1 is 1e300
            yield f"{value!r} to {other!r}", _around(parent), _with("value", other)


def _with(name: str, value: Any) -> Callable[[Any], ast.AST]:
    """Return a change that sets a field of a node."""

    def change(node: ast.AST) -> ast.AST:
        setattr(node, name, copy.deepcopy(value))
        return node

    return change


def _around(parent: ast.AST) -> str:
    """Return the text around a number or a name, which alone would say too little."""
    if isinstance(parent, (*_FUNCTIONS, ast.arguments, ast.ClassDef)):
        return ""
    if isinstance(parent, (ast.If, ast.While)):
        return ast.unparse(parent.test)
    if isinstance(parent, (ast.For, ast.AsyncFor)):
        return ast.unparse(parent.iter)
    if isinstance(parent, (ast.With, ast.AsyncWith, ast.Try, ast.Match)):
        return ""
    return ast.unparse(parent)


def _sign(op: ast.AST) -> str:
    """Return an operator as it is written."""
    left, right = ast.Name("a"), ast.Name("b")
    node: ast.expr
    if isinstance(op, ast.cmpop):
        node = ast.Compare(left, [op], [right])
    else:
        assert isinstance(op, ast.operator)
        node = ast.BinOp(left, op, right)
    return ast.unparse(node)[2:-2]


def _is_swappable(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    return len(call.args) == 2 and not starred and name not in _NOT_SWAPPED


def drawn(mutants: Sequence[Mutant], limit: int | None, seed: int) -> list[Mutant]:
    """Return a sample of mutants, in their order; each one's luck is its key's and the seed's."""
    if limit is None or limit >= len(mutants):
        return list(mutants)

    def luck(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {tuple(mutant.key)}".encode()).digest()

    kept = {mutant.key for mutant in sorted(mutants, key=luck)[:limit]}
    return [mutant for mutant in mutants if mutant.key in kept]


# --- a process for each mutant -------------------------------------------------------------------


class _Loader(SourceFileLoader):
    """Loads a module from a syntax tree."""

    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class _Finder:
    """Finds one module, which is then loaded from a syntax tree; put it first in sys.meta_path."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module, self.tree = module, tree

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(name, spec.origin)
        loader.code = compile(self.tree, spec.origin, "exec", dont_inherit=True)
        spec.loader = loader
        return spec


class Tests:
    """Tests of a tree, run in processes that are forked from this one."""

    def __init__(self, tree: Path, paths: Sequence[str], deselect: Sequence[str]) -> None:
        self.arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                          "--assert=plain",  # hypothesis is imported before pytest could rewrite it
                          "-c", str(tree / "pyproject.toml"), "--rootdir", str(tree),
                          *(f"--deselect={test}" for test in deselect), *paths]  # fmt: skip

    def run(
        self, module: str, changed: ast.Module, limit: float | None, shown: bool = False
    ) -> tuple[int | None, float]:
        """Return pytest's exit code, or None where the time was up, and the seconds it took."""
        start = time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._in_child(module, changed, shown)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            seconds = time.monotonic() - start
            if ended:
                _kill_group(child)  # processes that tests have left
                return os.waitstatus_to_exitcode(status), seconds
            if limit is not None and seconds > limit:
                _kill_group(child)
                os.waitpid(child, 0)
                return None, seconds
            time.sleep(0.02)

    def _in_child(self, module: str, changed: ast.Module, shown: bool) -> None:
        code = 70
        try:
            os.setsid()
            _limit_memory()
            if not shown:
                nothing = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nothing, stream)
            sys.meta_path.insert(0, _Finder(module, changed))
            code = int(importlib.import_module("pytest").main(self.arguments))
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _limit_memory() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))


def prepare(tree: Path, hypothesis_folder: str) -> None:
    """Import what tests need, apart from the package, and make them give the same each time."""
    source = str(tree / "src")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = hypothesis_folder
    os.environ["PYTHONPATH"] = source  # for processes that tests start; they see no mutant
    os.chdir(tree)
    sys.path.insert(0, source)
    for name in (
        "numpy", "scipy.optimize", "scipy.special", "scipy.stats", "torch", "sklearn.base",
        "sklearn.datasets", "sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection",
        "pytest",
    ):  # fmt: skip
        importlib.import_module(name)
    hypothesis = importlib.import_module("hypothesis")
    importlib.import_module("hypothesis.strategies")
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # one failure is enough
    # Profiles that a conftest registers later take from this one what they do not set.
    hypothesis.settings.register_profile(
        "mutate", deadline=None, derandomize=True, phases=phases, report_multiple_bugs=False
    )
    hypothesis.settings.load_profile("mutate")


# --- results -------------------------------------------------------------------------------------


def results(paths: Sequence[Path]) -> dict[Key, str]:
    """Return what became of each mutant; of several results, that it survived."""
    found: dict[Key, str] = {}
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            key = Key(record["function"], record["kind"], record["text"], record["nth"])
            if found.get(key) != SURVIVED:
                found[key] = record["outcome"]
    return found


def run(options: argparse.Namespace) -> int:
    """Try the mutants of a module that have no result yet."""
    out, tree = options.out.resolve(), options.tree.resolve()
    wanted = None if options.same_as is None else set(results(options.same_as))
    with tempfile.TemporaryDirectory() as folder:
        prepare(tree, folder)
        syntax = _read_module(tree, options.module)
        mutants = mutants_of(syntax)
        if wanted is not None:
            mutants = [m for m in mutants if _renamed_back(m.key, options.renamed) in wanted]
        chosen = drawn(mutants, options.limit, options.seed)
        print(f"{options.module}: {len(chosen)} of {len(mutants)} mutants", flush=True)
        tests = Tests(tree, options.tests, options.deselect)
        code, usual = tests.run(options.module, syntax, None)
        if code != 0:
            print("the tests fail without a change:", flush=True)
            tests.run(options.module, syntax, None, shown=True)
            return 2
        limit = max(TIMES * usual, LEAST_SECONDS)
        print(f"without a change {usual:.1f} s", flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        known = set(results([out])) if out.exists() else set()
        left = [m for m in chosen if m.key not in known]
        start = time.monotonic()
        with out.open("a", encoding="utf-8") as file:
            for mutant in left:
                code, seconds = tests.run(options.module, mutant.applied(syntax), limit)
                record = {
                    **mutant.key._asdict(),
                    "outcome": SURVIVED if code == 0 else CAUGHT,
                    "how": "time" if code is None else f"exit {code}",
                    "seconds": round(seconds, 1),
                    "module": options.module,
                    "line": mutant.line,
                }
                file.write(json.dumps(record) + "\n")
                file.flush()
    found = results([out])
    survivors = [m for m in chosen if found[m.key] == SURVIVED]
    print(f"{len(left)} tried now in {time.monotonic() - start:.0f} s")
    print(f"{len(chosen) - len(survivors)} caught, {len(survivors)} survived")
    for mutant in survivors:
        print(f"  line {mutant.line}  {mutant.key}")
    return 0


def _read_module(tree: Path, module: str) -> ast.Module:
    """Return the syntax tree of a module, which is not imported."""
    place = (tree / "src").joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return ast.parse(path.read_text("utf-8"))
    sys.exit(f"there is no module {module} in {tree / 'src'}.")


def _renames(texts: Sequence[str]) -> dict[str, str]:
    return dict(text.split("=", 1) for text in texts)


def _renamed(key: Key, names: dict[str, str]) -> Key:
    """Return the key with other names for whole words of it."""
    if not names:
        return key
    words = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names))
    new = [words.sub(lambda found: names[found[0]], part) for part in (key.function, key.text)]
    return key._replace(function=new[0], text=new[1])


def _renamed_back(key: Key, renamed: Sequence[str]) -> Key:
    return _renamed(key, {new: old for old, new in _renames(renamed).items()})


def compare(options: argparse.Namespace) -> int:
    """Print which mutants were caught before and survive now, and which are not there any more."""
    names = _renames(options.renamed)
    before = {_renamed(key, names): to for key, to in results([options.before]).items()}
    after = results(options.after)
    lost = [k for k, to in before.items() if to == CAUGHT and after.get(k) == SURVIVED]
    won = [k for k, to in before.items() if to == SURVIVED and after.get(k) == CAUGHT]
    missing = [k for k in before if k not in after]
    for title, found in (("before", before), ("after", after)):
        caught = sum(to == CAUGHT for to in found.values())
        print(f"{title}: {len(found)} mutants, {caught} caught, {len(found) - caught} survived")
    for title, keys in (
        ("caught before, surviving after", lost),
        ("surviving before, caught after", won),
        ("missing after", missing),
    ):
        print(f"{title}: {len(keys)}")
        for key in keys:
            print(f"  {key}")
    return 1 if lost else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    new = commands.add_parser("run", help="try the mutants of a module")
    new.add_argument("--module", required=True, help="for example setpoint.metrics")
    new.add_argument("--tests", nargs="+", required=True, help="paths within the tree")
    new.add_argument("--deselect", nargs="+", default=[], help="tests that are left out")
    new.add_argument("--out", type=Path, required=True, help="results are added to this file")
    new.add_argument("--tree", type=Path, default=Path(), help="folder of pyproject.toml and src")
    new.add_argument("--limit", type=int, help="draw so many mutants")
    new.add_argument("--seed", type=int, default=0, help="of that draw")
    new.add_argument("--same-as", type=Path, nargs="+", help="only mutants with results in these")
    new.set_defaults(work=run)
    both = commands.add_parser("compare", help="compare the results of two runs")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path, nargs="+")
    both.set_defaults(work=compare)
    for command in (new, both):
        command.add_argument(
            "--renamed", nargs="+", default=[], metavar="OLD=NEW", help="names changed since"
        )
    options = parser.parse_args()
    return int(options.work(options))


if __name__ == "__main__":
    sys.exit(main())

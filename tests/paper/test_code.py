"""A change of the code that trains is noticed, a change of words is not."""

import ast
import shutil
from pathlib import Path

import pytest

import setpoint
from setpoint.paper import store as code
from setpoint.paper.store import DECIDING, digest, meaning

PACKAGE = Path(setpoint.__file__).parent
# Reached from a training, but without a say in what comes of it, or compared in other ways.
INDIFFERENT = {
    "__init__.py",
    "_extras.py",
    "_language.py",  # reads goals from text; targets make theirs without
    "errors.py",
    "datasets",
    "experiments/data.py",
    "experiments/jobs.py",
    "experiments/methods.py",
    "report/notebook.py",
    "streams",  # the experiments train on rows in memory
}

SOURCE = '''
"""What it is about."""

LIMIT = 3
"""How much."""


def doubled(x: int, by: float = 2.0) -> float:
    """Return it."""
    # why
    return x * by
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What it is about.", "Something else."),
        ("How much.", "How little."),
        ("    # why\n", ""),
        ('    """Return it."""\n', ""),
        ("x * by", "(x\n            * by)"),
        ("2.0", "2.00"),
    ],
)
def test_words_and_layout_are_indifferent(old, new):
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert meaning(changed) == meaning(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * by", "by * x"),
        ("x * by", "x + by"),
        ("2.0", "2"),
        ("3", "3.0"),
        ("LIMIT = 3", "LIMIT = '3'"),
        ("doubled(x", "doubled(*x"),
        ("    return x * by", "    x = LIMIT\n    return x * by"),
        ("    return x * by", "    return"),
        ("def doubled", "@staticmethod\ndef doubled"),
    ],
)
def test_every_change_of_meaning_counts(old, new):
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert meaning(changed) != meaning(SOURCE)


def test_strings_that_are_used_count():
    assert meaning('f("a")') != meaning('f("b")')
    assert meaning('x = "a"') != meaning('x = "b"')
    assert meaning('def f():\n    return "a"') != meaning('def f():\n    return "b"')


def test_fields_that_only_newer_versions_of_python_have_do_not_show():
    """Trainings of one machine are made into tables on another."""
    tree = ast.parse("def f():\n    pass\n")
    tree.body[0].type_params = []  # from 3.12 on
    tree.body[0]._fields = (*tree.body[0]._fields, "type_params")
    assert code._text(tree) == meaning("def f():\n    pass\n")
    assert "returns" not in meaning("def f():\n    pass\n")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The package's sources in another place, to be changed."""
    package = tmp_path / "setpoint"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(setpoint, "__file__", str(package / "__init__.py"))
    yield package
    digest.cache_clear()


def fresh():
    digest.cache_clear()
    return digest()


def test_the_digest_is_that_of_the_sources(copied):
    first = fresh()
    assert len(first) == 12
    assert fresh() == first
    assert digest() == first
    for name in ("estimators.py", "experiments/methods.py", "certificates/bound.py"):
        with (copied / name).open("a") as file:
            file.write("\nX = 1\n")
    with (copied / "solvers" / "projected.py").open("a") as file:
        file.write("\n# a remark\n")
    assert fresh() == first


@pytest.mark.parametrize("name", [*(n for n in DECIDING if "." in n), "losses/focal.py",
                                  "solvers/base.py"])  # fmt: skip
def test_each_of_the_modules_that_decide_counts(name, copied, monkeypatch):
    monkeypatch.setattr(code, "meaning", str)  # which takes its time
    first = fresh()
    with (copied / name).open("a") as file:
        file.write("\nX = 1\n")
    assert fresh() != first


def test_a_new_or_renamed_module_counts(copied):
    seen = {fresh()}
    (copied / "solvers" / "another.py").write_text("")
    seen.add(fresh())
    (copied / "solvers" / "another.py").rename(copied / "solvers" / "other.py")
    seen.add(fresh())
    assert len(seen) == 3


def test_within_a_run_the_digest_stays(copied):
    first = fresh()
    with (copied / "penalty.py").open("a") as file:
        file.write("\nX = 1\n")
    assert digest() == first


def imported(file):
    """Yield the package's modules that a file imports, as paths within the package."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("setpoint"):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("setpoint")]
        for name in names:
            path = PACKAGE.joinpath(*name.split(".")[1:])
            for found in (path.with_suffix(".py"), path / "__init__.py"):
                if found.is_file():
                    yield found.relative_to(PACKAGE).as_posix()


def among(name, listed):
    return any(name == each or name.startswith(f"{each}/") for each in listed)


def test_all_that_a_training_reaches_is_listed_or_known_to_be_indifferent():
    todo, reached = ["experiments/trial.py"], set()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            if among(name, DECIDING):
                todo += imported(PACKAGE / name)
    assert "solvers/projected.py" in reached  # the walk goes deep
    strangers = {n for n in reached if not among(n, (*DECIDING, *INDIFFERENT))}
    assert strangers == set()
    for name in DECIDING:
        assert (PACKAGE / name).exists()

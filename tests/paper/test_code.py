"""The digest of the training code: every change of meaning counts, a change of words does not."""

import ast
import json
import shutil
from pathlib import Path

import pytest

import setpoint
from setpoint.paper import code
from setpoint.paper.code import accepted, deciding_modules, digest, meaning, record

PACKAGE = Path(setpoint.__file__).parent

SOURCE = '''
"""What it is about."""

LIMIT = 3
"""How much."""


def doubled(x: int, by: float = 2.0) -> float:
    """Return it."""
    # why
    return x * by
'''


def test_words_and_layout_do_not_count():
    for old, new in (
        ("What it is about.", "Something else."),
        ("How much.", "How little."),
        ("    # why\n", ""),
        ('    """Return it."""\n', ""),
        ("x * by", "(x\n            * by)"),
        ("2.0", "2.00"),
    ):
        changed = SOURCE.replace(old, new)
        assert changed != SOURCE
        assert meaning(changed) == meaning(SOURCE)


def test_every_change_of_meaning_counts():
    for old, new in (
        ("x * by", "by * x"),
        ("x * by", "x + by"),
        ("2.0", "2"),
        ("3", "3.0"),
        ("LIMIT = 3", "LIMIT = '3'"),
        ("doubled(x", "doubled(*x"),
        ("    return x * by", "    x = LIMIT\n    return x * by"),
        ("    return x * by", "    return"),
        ("def doubled", "@staticmethod\ndef doubled"),
    ):
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


def test_error_messages_do_not_count_but_the_conditions_and_kinds_of_errors_do():
    first = meaning('if x < 0:\n    raise ValueError(f"{x} is no good")')
    assert meaning('if x < 0:\n    raise ValueError(f"{x} must be >= 0.") from None') == first
    assert meaning('if x < 1:\n    raise ValueError(f"{x} is no good")') != first
    assert meaning('if x < 0:\n    raise TypeError(f"{x} is no good")') != first


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package's sources, to be changed."""
    package = tmp_path / "setpoint"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(setpoint, "__file__", str(package / "__init__.py"))
    yield package
    digest.cache_clear()
    accepted.cache_clear()


def fresh():
    digest.cache_clear()
    accepted.cache_clear()
    return digest()


def add_line(file, line="X = 1"):
    with file.open("a") as stream:
        stream.write(f"\n{line}\n")


# --- which modules count --------------------------------------------------------------------------


def test_all_that_decides_a_training_counts():
    modules = set(deciding_modules())
    assert {
        "setpoint.paper.trial",
        "setpoint.paper.datasets.dataset",
        "setpoint.paper.competitors.losses",
        "setpoint.paper.competitors.lagrangian",
        "setpoint.training.projected",
        "setpoint.training.lifted",
        "setpoint.training.ordinary",
        "setpoint.training.loop",
        "setpoint.method.penalty",
        "setpoint.method.capped_loss",
        "setpoint.goals.metrics",
        "setpoint.thresholds.choose",
        "setpoint.thresholds.operating_point",
        "setpoint.thresholds.sweep",
        "setpoint.data.standardize",
        "setpoint.data.splits",
    } <= modules


def test_what_cannot_change_a_result_does_not_count():
    parts = {tuple(module.split(".")[1:3]) for module in deciding_modules()}
    assert not {folder for folder, *_ in parts} & {"report", "cli", "certificates", "tables"}
    assert not {
        ("paper", name) for name in ("jobs", "methods", "figures", "features", "results")
    } & (parts)
    assert code.COMPARED_BY_VALUE  # traversed: the competitors are reached only through these


def test_every_deciding_module_counts(monkeypatch):
    sources = deciding_modules()
    monkeypatch.setattr(code, "deciding_modules", lambda: sources)
    monkeypatch.setattr(code, "meaning", str)  # faster
    seen = {fresh()}
    for module in list(sources):
        sources[module] += "X = 1\n"
        seen.add(fresh())
    digest.cache_clear()
    assert len(seen) == 1 + len(sources)


def test_the_digest_is_that_of_the_sources(copied):
    first = fresh()
    assert len(first) == 12
    assert fresh() == first
    for name in ("estimators/classifier.py", "paper/methods.py", "certificates/certify.py"):
        add_line(copied / name)
    add_line(copied / "training" / "projected.py", "# a remark")
    assert fresh() == first


def test_a_new_module_counts_as_soon_as_it_is_imported(copied):
    importing, new = copied / "training" / "projected.py", copied / "method" / "another.py"
    source = importing.read_text()
    for imported in (
        "import setpoint.method.another",
        "from setpoint.method import another",
        "from setpoint.method.another import X",
        "def f():\n    from setpoint.method.another import X",
    ):
        importing.write_text(source)
        new.write_text("X = 1\n")
        before = fresh()
        add_line(importing, imported)
        imported_now = fresh()
        add_line(new, "Y = 2")
        assert len({before, imported_now, fresh()}) == 3, imported
        assert "setpoint.method.another" in deciding_modules()
    # An import for type checkers alone is not followed.
    importing.write_text(source)
    add_line(importing, "if TYPE_CHECKING:\n    from setpoint.method.another import X")
    assert "setpoint.method.another" not in deciding_modules()


def test_modules_behind_names_that_are_imported_on_first_use_count(copied):
    (copied / "method" / "another.py").write_text("X = 1\n")
    (copied / "method" / "__init__.py").write_text('get = lazy(globals(), {"another": ["X"]})\n')
    assert "setpoint.method.another" not in deciding_modules()
    add_line(copied / "training" / "loop.py", "from setpoint.method import X")
    assert {"setpoint.method", "setpoint.method.another"} <= set(deciding_modules())


def test_within_a_run_the_digest_stays(copied):
    first = fresh()
    add_line(copied / "method" / "penalty.py")
    assert digest() == first


# --- earlier code that gave the same numbers ------------------------------------------------------


def test_the_recorded_digest_is_that_of_the_present_sources():
    recorded = json.loads(code.table_path().read_text())["present"]
    assert recorded == digest(), (
        "code that decides a training has changed. Compare numbers with "
        "benchmarks/same_numbers.py. If they are equal, run\n"
        '    python -m setpoint.paper.code same "what changed"\n'
        "else run\n"
        "    python -m setpoint.paper.code changed"
    )


def table(package):
    return json.loads((package / "paper" / "code_digests.json").read_text())


def test_results_of_earlier_equal_code_count_until_the_sources_change(copied):
    first = fresh()
    record("a start")
    add_line(copied / "method" / "penalty.py", "def unused(): pass")
    second = fresh()
    assert accepted() == {second}  # nobody has compared the numbers yet
    record("a function that nothing uses")
    assert table(copied)["present"] == second
    assert table(copied)["equal"][first] == "a function that nothing uses"
    assert {first, second} <= accepted()
    add_line(copied / "method" / "penalty.py", "def another(): pass")
    third = fresh()
    assert accepted() == {third}
    record("another one")
    assert {first, second, third} <= accepted()


def test_after_a_change_of_numbers_no_earlier_results_count(copied):
    add_line(copied / "method" / "penalty.py")
    new = fresh()
    record(None)
    assert table(copied) == {"present": new, "equal": {}}
    assert accepted() == {new}


def test_recording_the_same_sources_again_changes_nothing(copied):
    fresh()
    record("first")
    before = table(copied)
    record("second")
    assert table(copied) == before


def test_the_command_records_and_explains_itself(copied, capsys):
    add_line(copied / "method" / "penalty.py")
    new = fresh()
    assert code.main([]) == code.main(["same"]) == code.main(["same", " "]) == 2
    assert "usage: python -m setpoint.paper.code" in capsys.readouterr().out
    assert table(copied)["present"] != new
    assert code.main(["same", "one more name"]) == 0
    assert new in capsys.readouterr().out
    assert table(copied)["present"] == new
    assert code.main(["changed"]) == 0
    assert table(copied)["equal"] == {}

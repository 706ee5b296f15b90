"""Tables in valid Markdown and LaTeX."""

import re

from setpoint.paper.jobs import OFOS_TARGET, Target
from setpoint.paper.methods import METHODS
from setpoint.paper.render import latex, markdown, note
from setpoint.paper.tables import TABLES, Line, Value


def line(table="fpor", method="wce", dataset="ade", label=None, alpha=0.9, trials=3, **cells):
    """Return a line whose cells are equal but for those given as ``test_f1={...}``."""
    own, kind = METHODS[method], TABLES[table].kind
    target = OFOS_TARGET if kind == "ofos" else Target(kind, alpha)
    plain = {"before": Value(0.5, 0.1), "after": Value(0.6, 0.2), "paper before": Value(0.3, 0.01),
             "paper after": Value(0.4, 0.02)}  # fmt: skip
    filled = {
        (part, metric): {**plain, **cells.get(f"{part}_{metric}", {})}
        for part, metric in TABLES[table].columns
    }
    return Line(dataset, target, own, label or own.label, trials, filled)


def rows(text):
    return [
        [c.strip() for c in row.strip().strip("|").split("|")] for row in text.strip().splitlines()
    ]


# --- Markdown -------------------------------------------------------------------------------------


def test_every_row_has_as_many_columns():
    for name in TABLES:
        nothing = {
            "before": Value(0.5, 0.1),
            "after": None,
            "paper before": None,
            "paper after": None,
        }
        part, metric = TABLES[name].columns[0]
        sparse = line(name, "default", **{f"{part}_{metric}": nothing})
        text = markdown(TABLES[name], [[line(name), sparse], [line(name, dataset="eyepacs")]])
        assert text.endswith("|\n")
        # Counted by bars, for cells may be empty.
        assert {row.count("|") for row in text.splitlines()} == {3 + 2 * len(TABLES[name].columns)}
        assert len(text.splitlines()) == 2 + 3


def test_the_head_names_splits_metrics_and_their_roles():
    head = rows(markdown(TABLES["frop"], [[line("frop")]]))[0]
    assert head == [
        "data", "method",
        "train recall (floor)", "paper", "train precision (objective)", "paper",
        "test recall (floor)", "paper", "test precision (objective)", "paper", "test f1", "paper",
    ]  # fmt: skip
    assert rows(markdown(TABLES["ofos"], []))[0][2:] == ["train f1", "paper", "test f1", "paper"]


def test_values_after_adjustment_are_in_parentheses_with_their_own_marks():
    cells = {"before": Value(0.9, 0.01, feasible=True), "after": Value(0.95, 0.02, True, True)}
    text = markdown(TABLES["fpor"], [[line(train_precision=cells)]])
    first = rows(text)[2]
    assert first[:2] == ["ade, 0.9", "WCE"]
    assert first[2] == "<u>0.900 ± 0.010</u> (**<u>0.950 ± 0.020</u>**)"
    assert first[3] == "0.300 ± 0.010 (0.400 ± 0.020)"
    assert first[4] == "0.500 ± 0.100 (0.600 ± 0.200)"


def test_values_without_adjustment_have_no_parentheses():
    first = rows(markdown(TABLES["fpor"], [[line(test_f1={"after": None, "paper after": None})]]))[
        2
    ]
    assert first[-2:] == ["0.500 ± 0.100", "0.300 ± 0.010"]
    assert first[3] == "0.300 ± 0.010 (0.400 ± 0.020)"


SILENT, SOME = Value(1.0, 0.0, trials=3, without_alarms=3), Value(0.9, 0.1, True, True, 3, 2)


def test_where_there_are_no_alarms_there_is_no_precision():
    cells = {"before": SILENT, "after": SOME}
    blocks = [[line(train_precision=cells)]]
    text = markdown(TABLES["fpor"], blocks)
    assert rows(text)[2][2] == "no alarms (**<u>0.900 ± 0.100</u>**°)"
    table, remark = text.split("\n\n")
    assert table.count("°") == 1
    assert remark == "° Some trials have no alarms; their precision counts as 1.\n"
    tex = latex(TABLES["fpor"], blocks)
    assert r"& no alarms (\textbf{\underline{0.900 $\pm$ {\tiny 0.100}}}$^\circ$) &" in tex
    assert r"\multicolumn{12}{l}{\footnotesize $^\circ$ Some trials" in tex
    assert tex.isascii()
    assert balanced(tex)


def test_the_remark_appears_only_where_it_is_needed():
    for value in (SILENT, Value(0.9, 0.1, trials=3)):
        blocks = [[line(test_precision={"before": value, "after": value})]]
        assert "°" not in markdown(TABLES["fpor"], blocks)
        assert "circ" not in latex(TABLES["fpor"], blocks)


def test_a_diverged_row_is_marked_beside_the_papers_values():
    none = {f"{p}_{m}": {"before": None, "after": None} for p, m in TABLES["fpor"].columns}
    blocks = [[line(trials=0, **none), line()]]
    first, second = rows(markdown(TABLES["fpor"], blocks))[2:]
    assert first[2::2] == ["diverged"] * 5
    assert first[3::2] == second[3::2] == ["0.300 ± 0.010 (0.400 ± 0.020)"] * 5
    assert latex(TABLES["fpor"], blocks).count("& diverged &") == 5


def test_the_caption_has_singular_and_plural():
    assert note(TABLES["fpor"], "smoke", "paper", 1).startswith(
        "FPOR: max recall s.t. precision >= 0.9. Scale smoke, 1 trial, paper split. "
    )
    assert "Scale full, 10 trials, honest split" in note(TABLES["frop"], "full", "honest", 10)
    assert "floor" in note(TABLES["three-split-fpor"], "small", "honest", 3)
    assert "floor" not in note(TABLES["ofos"], "small", "honest", 3)


def test_our_methods_are_emphasised_and_missing_values_are_blank():
    none = {f"{p}_{m}": {"paper before": None, "paper after": None}
            for p, m in TABLES["fpor"].columns}  # fmt: skip
    first = rows(markdown(TABLES["fpor"], [[line(method="default", **none)]]))[2]
    assert first[1] == "*setpoint, default*"
    assert first[3::2] == [""] * 5


# --- LaTeX ----------------------------------------------------------------------------------------


def balanced(text):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def test_latex_is_balanced_and_has_the_columns_it_announces():
    for name in TABLES:
        table = TABLES[name]
        marked = {"before": Value(0.9, 0.0, True, True), "after": Value(1.0, 0.5, False, True)}
        part, metric = table.columns[-1]
        blocks = [
            [line(name, **{f"{part}_{metric}": marked}), line(name, "default")],
            [line(name, "projected", dataset="eyepacs")],
        ]
        text = latex(table, blocks)
        assert balanced(text)
        assert text.startswith(r"\begin{tabular}{ll" + "cc" * len(table.columns) + "}\n")
        assert text.endswith("\\bottomrule\n\\end{tabular}\n")
        assert text.count(r"\midrule") == len(blocks)
        body = [row for row in text.splitlines() if row.endswith(r"\\")]
        assert len(body) == 1 + 3
        assert {len(re.findall(r"(?<!\\)&", row)) for row in body} == {1 + 2 * len(table.columns)}
        assert text.isascii()


def test_latex_marks_as_markdown_does_and_shades_our_rows():
    marks = {
        "before": Value(0.9, 0.01, feasible=True),
        "after": Value(0.95, 0.02, feasible=True, best=True),
    }
    text = latex(TABLES["fpor"], [[line(train_precision=marks), line(method="projected")]])
    assert r"& \underline{0.900 $\pm$ {\tiny 0.010}} (" in text
    assert r"(\textbf{\underline{0.950 $\pm$ {\tiny 0.020}}}) &" in text
    first, second = (row for row in text.splitlines() if "WCE" in row or "projected" in row)
    assert not first.startswith(r"\rowcolor")
    assert second.startswith(r"\rowcolor[gray]{0.85} ")
    assert first.startswith("ade, 0.9 & WCE & ")
    assert second.startswith(r"\rowcolor[gray]{0.85}  & DMO+ERO, projected & ")  # the data once


def test_latex_writes_f1_as_the_paper_does():
    head = latex(TABLES["fpor"], []).splitlines()[2]
    assert head.endswith(r"test $F_1$ & paper \\")
    assert "f1" not in head


def test_special_characters_are_escaped():
    text = latex(TABLES["fpor"], [[line(dataset="a_b&c", label="50 % #1 {x} $y$ \\z ~ ^")]])
    assert r"a\_b\&c, 0.9 & 50 \% \#1 \{x\} \$y\$ \textbackslash{}z" in text
    assert balanced(text)
    (row,) = (row for row in text.splitlines() if "50" in row and "tiny" in row)
    assert len(re.findall(r"(?<!\\)&", row)) == 1 + 2 * len(TABLES["fpor"].columns)

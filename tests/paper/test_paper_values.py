"""The values of the paper's tables are complete and in the right position."""

from collections import Counter

import pytest

from setpoint.errors import SetpointError
from setpoint.paper.paper_values import KNOWN, PaperValue, paper_value, paper_values

BASELINES = {"wce", "focal", "ldam", "term", "ros", "rus", "tfco"}


# Read off the printed tables, some in every table, the first and the last cell of each.
SPOTS = """
fpor              creditcard fpor 0.9  wce       train      precision 0  0.190 0.131
fpor              creditcard fpor 0.9  ero       train      recall    1  1.000 0.000
fpor              eyepacs    fpor 0.9  tfco      test       f1        0  0.126 0.189
fpor              ade        fpor 0.9  focal     test       recall    0  0.181 0.091
fpor              mura       fpor 0.9  ero       test       f1        1  0.403 0.024
frop              creditcard frop 0.9  wce       train      recall    0  0.980 0.035
frop              creditcard frop 0.9  tfco      test       precision 1  0.019 0.013
frop              mura       frop 0.9  ero       test       f1        1  0.691 0.028
ofos              creditcard ofos -    wce       train      f1        0  0.293 0.140
ofos              mura       ofos -    sigmoidf1 test       f1        0  0.701 0.001
ofos              mura       ofos -    ero       test       f1        1  0.570 0.017
fpor-alpha        ade        fpor 0.95 wce       train      precision 0  0.709 0.030
fpor-alpha        ade        fpor 0.99 ero       test       recall    1  0.047 0.013
fpor-alpha        mura       fpor 0.99 ero       test       f1        1  0.239 0.110
frop-alpha        ade        frop 0.95 tfco      train      recall    0  0.976 0.017
frop-alpha        mura       frop 0.99 ero       test       f1        1  0.673 0.016
ablation          mura       fpor 0.9  ssa       train      precision 0  0.911 0.004
ablation          ade        fpor 0.9  rcr       test       recall    0  0.868 0.013
ablation          mura       frop 0.9  eq        train      recall    0  0.836 0.052
ablation          mura       frop 0.9  eq        train      precision 0  0.174 0.075
ablation          ade        frop 0.9  ssa       test       recall    0  0.891 0.005
ablation          ade        frop 0.9  ero       test       f1        0  0.772 0.004
three-split-fpor  ade        fpor 0.9  wce       train      precision 0  0.712 0.033
three-split-fpor  mura       fpor 0.9  tfco      validation precision 1  0.311 0.359
three-split-fpor  ade        fpor 0.95 ros       test       recall    1  0.115 0.121
three-split-frop  ade        frop 0.99 ero       validation precision 0  0.621 0.007
three-split-frop  mura       frop 0.95 tfco      test       precision 0  0.732 0.178
three-split-frop  mura       frop 0.99 ero       test       f1        1  0.655 0.005
"""


def test_spot_values_are_as_printed():
    for line in SPOTS.strip().splitlines():
        table, dataset, kind, alpha, method, part, metric, adjusted, mean, deviation = line.split()
        level = None if alpha == "-" else float(alpha)
        got = paper_value(table, dataset, kind, level, method, part, metric, adjusted == "1")
        assert got == PaperValue(float(mean), float(deviation))


ALL, TWO = {"creditcard", "eyepacs", "ade", "mura"}, {"ade", "mura"}
P, R, F = "precision", "recall", "f1"
TWO_PARTS = {("train", P), ("train", R), ("test", P), ("test", R), ("test", F)}
THREE_PARTS = TWO_PARTS | {("validation", P), ("validation", R)}
COMPLETE = {  # kinds, data sets, levels, methods, (part, metric), before and after adjustment
    "fpor": ({"fpor"}, ALL, {0.9}, BASELINES | {"ero"}, TWO_PARTS, {False, True}),
    "frop": ({"frop"}, ALL, {0.9}, BASELINES | {"ero"}, TWO_PARTS, {False, True}),
    "ofos": ({"ofos"}, ALL, {None}, BASELINES | {"ero", "sigmoidf1"}, {("train", F), ("test", F)},
             {False, True}),
    "fpor-alpha": ({"fpor"}, TWO, {0.95, 0.99}, BASELINES | {"ero"}, TWO_PARTS, {False, True}),
    "frop-alpha": ({"frop"}, TWO, {0.95, 0.99}, BASELINES | {"ero"}, TWO_PARTS, {False, True}),
    "ablation": ({"fpor", "frop"}, TWO, {0.9}, {"ssa", "rcr", "eq", "ero"}, TWO_PARTS, {False}),
    "three-split-fpor": ({"fpor"}, TWO, {0.9, 0.95, 0.99}, BASELINES | {"ero"}, THREE_PARTS,
                         {False, True}),
    "three-split-frop": ({"frop"}, TWO, {0.9, 0.95, 0.99}, BASELINES | {"ero"}, THREE_PARTS,
                         {False, True}),
}  # fmt: skip


def test_every_table_is_complete_and_holds_nothing_else():
    for table in KNOWN["table"]:
        kinds, datasets, levels, methods, columns, adjusted = COMPLETE[table]
        expected = {
            (kind, dataset, level, method, *column, after)
            for kind in kinds
            for dataset in datasets
            for level in levels
            for method in methods
            for column in columns
            for after in adjusted
        }
        found = Counter(
            (e.kind, e.dataset, e.alpha, e.method, e.part, e.metric, e.adjusted)
            for e in paper_values()
            if e.table == table
        )
        assert set(found) == expected
        assert set(found.values()) == {1}


def test_the_number_of_values_is_the_number_of_plus_minus_signs_in_the_paper():
    counts = Counter(e.table for e in paper_values())
    assert [counts[t] for t in KNOWN["table"]] == [320, 320, 144, 320, 320, 80, 672, 672]


def test_values_and_deviations_are_possible_ones():
    for e in paper_values():
        mean, deviation = e.value.mean, e.value.deviation
        assert 0 <= mean <= 1
        # What lies in [0, 1] cannot deviate by more than this; both were rounded to 0.001.
        assert 0 <= deviation <= (mean * (1 - mean)) ** 0.5 + 0.02, e


def test_the_full_method_of_the_ablation_is_that_of_the_main_table():
    """Which also shows that recall and precision of the FROP half are not exchanged here."""
    for kind in ("fpor", "frop"):
        own = [
            e for e in paper_values() if (e.table, e.kind, e.method) == ("ablation", kind, "ero")
        ]
        assert len(own) == 10
        for e in own:
            assert e.value == paper_value(
                kind, e.dataset, kind, 0.9, "ero", e.part, e.metric, False
            )


def test_ordinary_training_does_not_depend_on_the_level():
    for e in paper_values():
        if e.table in ("fpor-alpha", "frop-alpha") and not e.adjusted:
            if e.method in ("tfco", "ero"):
                continue
            main = paper_value(e.kind, e.dataset, e.kind, 0.9, e.method, e.part, e.metric, False)
            assert e.value == main, e


def test_values_that_the_paper_does_not_have_are_none():
    def value(**changes):
        asked = {"table": "fpor", "dataset": "ade", "kind": "fpor", "alpha": 0.9, "method": "ero",
                 "part": "test", "metric": "recall", "adjusted": False}  # fmt: skip
        return paper_value(**{**asked, **changes})

    assert value() == PaperValue(0.769, 0.012)
    assert value(alpha=1 - 0.1) == value()
    for missing in ({"dataset": "mammography"}, {"method": "projected"}, {"alpha": 0.8},
                    {"alpha": None}, {"kind": "frop"}, {"part": "validation"}):  # fmt: skip
        assert value(**missing) is None


def test_an_unknown_name_raises_with_the_known_names():
    for wrong in ("table", "kind", "part", "metric"):
        asked = {"table": "fpor", "kind": "fpor", "part": "test", "metric": "recall", wrong: "val"}
        with pytest.raises(SetpointError, match=f"no {wrong} 'val'; known: .*{KNOWN[wrong][-1]}"):
            paper_value(**asked, dataset="ade", alpha=0.9, method="ero", adjusted=False)


def test_the_list_is_the_callers_own():
    paper_values().clear()
    assert len(paper_values()) == 2848

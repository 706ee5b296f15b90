"""Cells of the tables: means, deviations, marks, and the paper's values."""

import itertools
import math

import pandas as pd
import pytest

from setpoint.paper.jobs import OFOS_TARGET, Target
from setpoint.paper.paper_values import KNOWN
from setpoint.paper.tables import METRICS, TABLES, lines_of

ROWS = {  # method and variant, by the label of the row
    "WCE": ("wce", "paper"),
    "WCE, converged": ("wce", "converged"),
    "DMO+TFCO": ("tfco", "paper"),
    "DMO+ERO, projected": ("projected", "paper"),
    "setpoint, default": ("default", "paper"),
}
LOST = "diverged"


def frame(values, *, target=Target("fpor", 0.9), dataset="ade", three=False, split="honest"):  # noqa: B008
    """Return selected results: by label, {(rule, part): [(precision, recall, f1) per trial]}.

    In the place of a trial's figures None stands for no alarms, LOST for none at all.
    """
    rules = ["own", "train", *(["validation"] if three else [])]
    parts = ["train", *(["validation"] if three else []), "test"]
    rows = []
    for label, given in values.items():
        method, variant = ROWS[label]
        about = {"dataset": dataset, "split": split, "three": three, "method": method,
                 "variant": variant, "kind": target.kind,
                 "alpha": -1.0 if target.alpha is None else target.alpha}  # fmt: skip
        for rule, part in itertools.product(rules, parts):
            for trial, figures in enumerate(given.get((rule, part), [(0, 0, 0)])):
                if figures is LOST:
                    continue
                precision, recall, f1 = figures or (1.0, 0.0, 0.0)
                rows.append(
                    {**about, "trial": trial, "rule": rule, "part": part, "diverged": False,
                     "tp": 0, "fp": 0 if figures is None else 1,
                     "precision": precision, "recall": recall, "f1": f1}
                )  # fmt: skip
        for trial, figures in enumerate(given.get(("own", "train"), [])):
            if figures is LOST:
                rows.append({**about, "trial": trial, "diverged": True, "tp": 0, "fp": 0})
    named = ("rule", "part", "precision", "recall", "f1")
    return pd.DataFrame([{**dict.fromkeys(named), **row} for row in rows])


def everywhere(*trials, three=False):
    rules = ("own", "train", "validation") if three else ("own", "train")
    parts = ("train", "validation", "test") if three else ("train", "test")
    return {place: list(trials) for place in itertools.product(rules, parts)}


def lines(table, given, datasets=("ade",), split="honest"):
    """Return the lines of the only block, by label."""
    (block,) = lines_of(TABLES[table], given, datasets, split)
    return {line.label: line for line in block}


def cell(line, part, metric, when="before"):
    return line.cells[part, metric][when]


# --- numbers --------------------------------------------------------------------------------------


def test_population_mean_and_deviation_at_the_right_threshold_and_split():
    values = {
        ("own", "train"): [(0.9, 0.1, 0.2), (0.8, 0.3, 0.4)],
        ("own", "test"): [(0.7, 0.0, 0.5), (0.7, 1.0, 0.7)],
        ("train", "train"): [(0.95, 0.2, 0.3), (0.97, 0.2, 0.3)],
        ("train", "test"): [(0.6, 0.5, 0.1), (0.5, 0.5, 0.3)],
    }
    line = lines("fpor", frame({"WCE": values}))["WCE"]
    for part, metric, when, mean, deviation in (
        ("train", "precision", "before", 0.85, 0.05),
        ("train", "recall", "before", 0.2, 0.1),
        ("test", "precision", "before", 0.7, 0.0),
        ("test", "recall", "before", 0.5, 0.5),  # of the sample it would be 0.707
        ("test", "f1", "before", 0.6, 0.1),
        ("train", "precision", "after", 0.96, 0.01),
        ("test", "recall", "after", 0.5, 0.0),
        ("test", "f1", "after", 0.2, 0.1),
    ):
        value = cell(line, part, metric, when)
        assert value.mean == pytest.approx(mean), (part, metric, when)
        assert value.deviation == pytest.approx(deviation, abs=1e-12)


def test_one_trial_has_no_deviation():
    line = lines("fpor", frame({"WCE": everywhere((0.9, 0.5, 0.6))}))["WCE"]
    assert all(
        not math.isnan(v.deviation) and v.deviation == 0
        for cells in line.cells.values()
        for when, v in cells.items()
        if not when.startswith("paper")
    )


def test_with_three_splits_the_threshold_is_adjusted_on_validation_rows():
    values = everywhere((0.1, 0.1, 0.1), three=True)
    values["validation", "test"] = [(0.95, 0.4, 0.5)]
    line = lines("three-split-fpor", frame({"WCE": values}, three=True))["WCE"]
    assert cell(line, "test", "precision", "after").mean == 0.95
    assert cell(line, "test", "precision", "before").mean == 0.1
    assert ("validation", "recall") in line.cells


def test_methods_that_select_are_not_adjusted_on_training_rows():
    given = {"setpoint, default": everywhere((0.95, 0.5, 0.6)), "WCE": everywhere((0.95, 0.4, 0.5))}
    found = lines("fpor", frame(given))
    assert cell(found["setpoint, default"], "test", "recall", "after") is None
    assert cell(found["setpoint, default"], "test", "recall", "before").best
    assert not cell(found["WCE"], "test", "recall", "after").best
    alone = lines("fpor", frame({"setpoint, default": everywhere((0.95, 0.5, 0.6))}))
    assert cell(alone["setpoint, default"], "test", "recall", "before").best
    given = frame({"setpoint, default": everywhere((0.95, 0.5, 0.6), three=True)}, three=True)
    found = lines("three-split-fpor", given)
    assert cell(found["setpoint, default"], "test", "recall", "after").mean == 0.5
    for table, target in (("ofos", OFOS_TARGET), ("frop", Target("frop", 0.9))):
        given = frame({"setpoint, default": everywhere((0.5, 0.95, 0.6))}, target=target)
        assert cell(lines(table, given)["setpoint, default"], "test", "f1", "after") is None


def test_columns_are_the_papers():
    precision, recall = "precision", "recall"
    assert TABLES["fpor"].columns == [
        ("train", precision), ("train", recall), ("test", precision), ("test", recall),
        ("test", "f1"),
    ]  # fmt: skip
    assert TABLES["frop"].columns[:2] == [("train", recall), ("train", precision)]
    assert TABLES["ofos"].columns == [("train", "f1"), ("test", "f1")]
    assert [part for part, _ in TABLES["three-split-frop"].columns] == [
        "train", "train", "validation", "validation", "test", "test", "test",
    ]  # fmt: skip


# --- which rows -----------------------------------------------------------------------------------


def test_methods_that_are_not_in_the_results_are_left_out_and_order_is_the_tables():
    given = frame({"setpoint, default": everywhere((1, 1, 1)), "WCE": everywhere((1, 1, 1))})
    assert list(lines("fpor", given)) == ["WCE", "setpoint, default"]


def test_rows_of_other_splits_goals_and_data_are_left_out():
    good = frame({"WCE": everywhere((0.9, 0.5, 0.6))})
    others = [
        frame({"WCE": everywhere((0, 0, 0))}, split="paper"),
        frame({"WCE": everywhere((0, 0, 0), three=True)}, three=True),
        frame({"WCE": everywhere((0, 0, 0))}, target=Target("fpor", 0.95)),
        frame({"WCE": everywhere((0, 0, 0))}, target=Target("frop", 0.9)),
        frame({"WCE": everywhere((0, 0, 0))}, dataset="ade-bert"),
    ]
    line = lines("fpor", pd.concat([good, *others]))["WCE"]
    assert {v.mean for v in (cell(line, "test", m) for m in ("precision", "recall", "f1"))} == {
        0.9, 0.5, 0.6,
    }  # fmt: skip


def test_a_block_for_every_data_set_and_goal_that_has_results():
    some = [
        frame({"WCE": everywhere((1, 1, 1))}, dataset=d, target=Target("fpor", a))
        for d in ("eyepacs", "ade")
        for a in (0.95, 0.99)
    ]
    blocks = lines_of(TABLES["fpor-alpha"], pd.concat(some[:3]), (), "honest")
    assert [(b[0].dataset, b[0].target.alpha) for b in blocks] == [
        ("ade", 0.95), ("eyepacs", 0.95), ("eyepacs", 0.99),
    ]  # fmt: skip
    assert lines_of(TABLES["frop"], pd.concat(some), (), "honest") == []


# --- marks ----------------------------------------------------------------------------------------


def test_the_floor_is_held_from_a_thousandth_below_it():
    for alpha in (0.9, 0.95, 0.99):
        table = "fpor" if alpha == 0.9 else "fpor-alpha"
        at, below = alpha - 0.001, alpha - 0.0011
        given = {
            "WCE": everywhere(*[(at, 0.5, 0.5)] * 2),
            "DMO+TFCO": everywhere(*[(below, 0.9, 0.9)] * 2),
            "DMO+ERO, projected": everywhere((1.0, 0.1, 0.1), (2 * at - 1 + 1e-9, 0.1, 0.1)),
        }
        found = lines(table, frame(given, target=Target("fpor", alpha)))
        for part, when in itertools.product(("train", "test"), ("before", "after")):
            assert cell(found["WCE"], part, "precision", when).feasible
            assert cell(
                found["DMO+ERO, projected"], part, "precision", when
            ).feasible  # in the mean
            assert not cell(found["DMO+TFCO"], part, "precision", when).feasible
            assert not cell(found["WCE"], part, "recall", when).feasible  # that is no floor
            # Best of the feasible ones, however much the others catch.
            assert cell(found["WCE"], part, "recall", when).best == (when == "after")
            assert not cell(found["DMO+TFCO"], part, "recall", when).best
            assert not cell(found["WCE"], part, "precision", when).best


def test_floors_are_marked_before_and_after_and_the_best_is_after():
    able, unable = (0.95, 0.3, 0.4), (0.2, 0.8, 0.3)
    values = {("own", "train"): [unable], ("train", "train"): [able],
              ("own", "test"): [able], ("train", "test"): [unable]}  # fmt: skip
    line = lines("fpor", frame({"WCE": values}))["WCE"]
    found = {
        (part, when): (
            cell(line, part, "precision", when).feasible, cell(line, part, "recall", when).best,
        )
        for part, when in itertools.product(("train", "test"), ("before", "after"))
    }  # fmt: skip
    assert found == {
        ("train", "before"): (False, False), ("train", "after"): (True, True),
        ("test", "before"): (True, False), ("test", "after"): (False, False),
    }  # fmt: skip


def test_rows_without_adjustment_are_compared_with_adjusted_ones():
    """And a threshold of 0.5 does not compete with one that was found in training."""
    before, after = (0.95, 0.9, 0.9), (0.95, 0.5, 0.6)
    wce = {("own", p): [before] for p in ("train", "test")}
    wce |= {("train", p): [after] for p in ("train", "test")}
    for own, wins in (((0.95, 0.6, 0.7), True), ((0.95, 0.4, 0.5), False), ((0.5, 1, 0.5), False)):
        found = lines("fpor", frame({"WCE": wce, "setpoint, default": everywhere(own)}))
        for metric in ("recall", "f1"):
            assert not cell(found["WCE"], "test", metric, "before").best
            assert cell(found["WCE"], "test", metric, "after").best != wins
            assert cell(found["setpoint, default"], "test", metric, "before").best == wins


def test_ties_within_a_thousandth_are_all_best():
    given = {
        "WCE": everywhere((0.95, 0.7, 0.5)),
        "WCE, converged": everywhere((0.95, 0.699, 0.5)),
        "DMO+TFCO": everywhere((0.95, 0.6985, 0.5)),
    }
    found = lines("fpor", frame(given))
    best = {label: cell(line, "test", "recall", "after").best for label, line in found.items()}
    assert best == {"WCE": True, "WCE, converged": True, "DMO+TFCO": False}


def test_the_best_f1_on_test_rows_is_marked_whether_feasible_or_not():
    given = {"WCE": everywhere((0.2, 0.9, 0.8)), "DMO+TFCO": everywhere((0.95, 0.5, 0.6))}
    found = lines("fpor", frame(given))
    assert cell(found["WCE"], "test", "f1", "after").best
    assert not cell(found["DMO+TFCO"], "test", "f1", "after").best
    assert cell(found["DMO+TFCO"], "test", "recall", "after").best
    assert not cell(found["WCE"], "test", "recall", "after").best


def test_where_none_is_feasible_no_objective_is_best():
    given = {"WCE": everywhere((0.2, 0.9, 0.3)), "DMO+TFCO": everywhere((0.3, 0.8, 0.4))}
    for line in lines("fpor", frame(given)).values():
        for (_, metric), cells in line.cells.items():
            for when in ("before", "after"):
                assert not cells[when].feasible
                assert not cells[when].best or metric == "f1"


def test_frop_has_its_floor_on_recall():
    given = {"WCE": everywhere((0.2, 0.95, 0.3)), "DMO+TFCO": everywhere((0.9, 0.5, 0.4))}
    found = lines("frop", frame(given, target=Target("frop", 0.9)))
    assert cell(found["WCE"], "test", "recall").feasible
    assert cell(found["WCE"], "test", "precision", "after").best
    assert not cell(found["DMO+TFCO"], "test", "precision", "after").best
    assert METRICS["frop"] == ("recall", "precision")


def test_ofos_has_no_floor_and_the_best_f1_of_every_split():
    given = {"WCE": everywhere((0, 0, 0.5)), "DMO+TFCO": everywhere((0, 0, 0.6))}
    found = lines("ofos", frame(given, target=OFOS_TARGET))
    for part, when in itertools.product(("train", "test"), ("before", "after")):
        assert cell(found["DMO+TFCO"], part, "f1", when).best == (when == "after")
        assert not cell(found["WCE"], part, "f1", when).best
        assert not cell(found["WCE"], part, "f1", when).feasible


# --- no alarms, no model --------------------------------------------------------------------------


def test_a_model_without_alarms_meets_no_floor_and_is_never_best():
    """Its precision is 1 by convention; there is nothing to be proud of."""
    given = {"WCE": everywhere(None, None), "DMO+TFCO": everywhere((0.5, 0.9, 0.6), (0.5, 1, 0.6))}
    found = lines("fpor", frame(given))
    for part, when in itertools.product(("train", "test"), ("before", "after")):
        value = cell(found["WCE"], part, "precision", when)
        assert value.no_alarms
        assert not value.feasible
        assert not cell(found["WCE"], part, "recall", when).best
        assert not cell(found["WCE"], part, "recall", when).no_alarms  # that is 0, and says so
        assert not cell(found["DMO+TFCO"], part, "precision", when).no_alarms
    found = lines("frop", frame({"WCE": everywhere(None)}, target=Target("frop", 0.9)))
    assert not cell(found["WCE"], "test", "precision", "after").best


def test_trials_without_alarms_among_others_are_counted_where_they_are():
    values = everywhere((0.9, 0.5, 0.6), (0.8, 0.5, 0.6), (0.7, 0.5, 0.6))
    values["own", "test"] = [None, (0.8, 0.5, 0.6), None]
    line = lines("fpor", frame({"WCE": values}))["WCE"]
    value = cell(line, "test", "precision")
    assert (value.without_alarms, value.trials, value.no_alarms) == (2, 3, False)
    assert value.mean == pytest.approx(2.8 / 3)
    assert value.feasible
    assert cell(line, "test", "precision", "after").without_alarms == 0
    assert cell(line, "test", "recall").without_alarms == 0
    assert cell(line, "train", "precision").without_alarms == 0


def test_a_row_without_any_model_stays_and_blocks_nothing():
    given = {
        "WCE": everywhere(LOST, LOST),
        "DMO+TFCO": everywhere((0.95, 0.5, 0.6), LOST),
        "DMO+ERO, projected": everywhere((0.95, 0.4, 0.5), (0.95, 0.5, 0.5)),
    }
    found = lines("fpor", frame(given))
    assert list(found) == ["WCE", "DMO+TFCO (1 of 2 trials)", "DMO+ERO, projected"]
    assert [line.trials for line in found.values()] == [0, 1, 2]
    for column in TABLES["fpor"].columns:
        assert cell(found["WCE"], *column) is cell(found["WCE"], *column, "after") is None
    assert cell(found["WCE"], "test", "f1", "paper before") is not None
    tfco = found["DMO+TFCO (1 of 2 trials)"]
    assert cell(tfco, "test", "recall").mean == 0.5
    assert cell(tfco, "test", "recall", "after").best


def test_a_table_of_which_all_diverged_is_drawn():
    (line,) = lines("ofos", frame({"WCE": everywhere(LOST)}, target=OFOS_TARGET)).values()
    assert line.trials == 0
    assert line.label == "WCE"


def test_trials_that_are_not_there_yet_are_said_to_be_missing():
    given = {"WCE": everywhere(*[(1, 1, 1)] * 3), "DMO+TFCO": everywhere((1, 1, 1), (1, 1, 1))}
    assert list(lines("fpor", frame(given))) == ["WCE", "DMO+TFCO (2 of 3 trials)"]


# --- the paper's own ------------------------------------------------------------------------------


# Read off the printed tables.
SPOTS = """
fpor             creditcard     fpor 0.9  WCE                train      precision before 0.190 0.131
fpor             creditcard     fpor 0.9  DMO+ERO,_projected train      recall    after  1.000 0.000
fpor             eyepacs-dinov2 fpor 0.9  DMO+TFCO           test       f1        before 0.126 0.189
frop             mura-dinov2    frop 0.9  DMO+ERO,_projected test       f1        after  0.691 0.028
ofos             creditcard     ofos -    WCE                train      f1        before 0.293 0.140
fpor-alpha       ade-bert       fpor 0.95 WCE                train      precision before 0.709 0.030
ablation-frop    ade            frop 0.9  DMO+ERO,_projected test       f1        before 0.772 0.004
three-split-fpor ade            fpor 0.9  WCE                train      precision before 0.712 0.033
three-split-fpor mura-dinov2    fpor 0.9  DMO+TFCO           validation precision after  0.311 0.359
"""


def test_the_papers_values_are_beside_ours():
    for spot in SPOTS.strip().splitlines():
        table, dataset, kind, alpha, label, part, metric, when, mean, deviation = spot.split()
        target = Target(kind, None if alpha == "-" else float(alpha))
        three = TABLES[table].three
        label = label.replace("_", " ")
        given = frame({label: everywhere((0, 0, 0), three=three)}, target=target, dataset=dataset,
                      three=three)  # fmt: skip
        line = lines(table, given, (dataset,))[label]
        value = cell(line, part, metric, f"paper {when}")
        assert (value.mean, value.deviation) == (float(mean), float(deviation))


def test_where_the_paper_has_no_value_there_is_none():
    given = {label: everywhere((0, 0, 0)) for label in ROWS}
    found = lines("fpor", frame(given))
    for cells in found["setpoint, default"].cells.values():
        assert cells["paper before"] is cells["paper after"] is None
    (line,) = lines("ablation-fpor", frame({"DMO+ERO, projected": everywhere((0, 0, 0))})).values()
    assert cell(line, "test", "recall", "paper before") is not None
    assert cell(line, "test", "recall", "paper after") is None  # there is no TA in that table


def test_both_trainings_of_a_competitor_stand_beside_the_same_figure():
    found = lines("fpor", frame({k: everywhere((0, 0, 0)) for k in ("WCE", "WCE, converged")}))
    assert cell(found["WCE"], "test", "f1", "paper before") == cell(
        found["WCE, converged"], "test", "f1", "paper before"
    )


def test_every_table_is_one_of_the_papers_with_goals_of_one_kind():
    for table in TABLES.values():
        assert (table.printed_as or table.name) in KNOWN["table"]
        assert {t.kind for t in table.targets} == {table.kind}
        assert table.title
    printed = {table.printed_as or table.name for table in TABLES.values()}
    assert printed == set(KNOWN["table"])  # and none is missing

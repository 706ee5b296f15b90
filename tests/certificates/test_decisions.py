"""Certificates of goals that name segments, periods or amounts, through ``certify``."""

import numpy as np
import pytest

from setpoint import GoalError, SetpointError, certify, certify_by_segment, certify_labels
from setpoint.certificates import certify_best, certify_threshold
from setpoint.certificates.costs import CostRows, cost_bound
from setpoint.certificates.periods import day_thresholds, every_day_bound
from setpoint.certificates.sequence import Rows
from setpoint.goals.columns import check_caps
from setpoint.goals.goal import Goal

N = 4000
CAPS = {"amount": 400.0}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.random(N) < 0.2
    return {
        "y": y,
        "scores": rng.normal(size=N) + 2.5 * y,
        "amount": np.minimum(rng.lognormal(3, 1, N), 400),
        "region": rng.choice(["north", "south"], N),
        "day": rng.integers(0, 60, N),
    }


def certified(rows, goal, **options):
    options = {
        "amounts": {"amount": rows["amount"]},
        "segments": {"region": rows["region"]},
        "times": rows["day"],
        **options,
    }
    return certify(rows["y"], rows["scores"], goal, **options)


def test_a_floor_in_each_segment(rows):
    found = certified(rows, "max recall s.t. precision >= 0.8 for each region")
    assert found.certified
    assert found.claims == ("precision >= 0.8 for each region (north, south)",)
    assert [b.metric.name for b in found.bounds] == [
        "precision[region=north]", "precision[region=south]", "recall",
    ]  # fmt: skip
    assert found.threshold in found.certified_thresholds
    point = found.operating_point
    assert all(point.value(b.metric.name) >= 0.8 for b in found.bounds[:2])
    assert "precision >= 0.8 for each region" in found.message


def test_segments_that_are_left_out_are_named_in_the_certificate(rows):
    some = np.where(np.arange(N) % 50, rows["region"], "(none)")
    goal = "max recall s.t. precision >= 0.8 for each region"
    found = certified({**rows, "region": some}, goal)
    assert found.certified
    assert "precision >= 0.8 for each region (north, south)" in found.message
    assert "Nothing is guaranteed for other values of 'region', which 1.99 % of" in found.message
    text = "nothing is guaranteed for other values of 'region' than north, south"
    assert text in found.assumptions
    assert text in certified(rows, goal).assumptions  # new rows may have others
    assert "Nothing is guaranteed" not in certified(rows, goal).message
    point = found.operating_point
    assert point.uncovered == {"region": pytest.approx(0.02 * (point.tp + point.fp + point.fn
                                                               + point.tn), rel=0.1)}  # fmt: skip
    assert "The constraints 'for each region' do not apply to" in point.message
    many = certified({**rows, "region": rows["day"] % 7}, goal.replace("0.8", "0.5"))
    assert many.claims == ("precision >= 0.5 for each region (7 segments)",)


@pytest.mark.parametrize(
    ("goal", "caps"),
    [
        ("max recall s.t. precision >= 0.8 for each region", None),
        ("max recall s.t. alarms <= 20 per day on 80% of days", None),
        ("max recall s.t. cost(fp=5, fn=amount) <= 9", CAPS),
    ],
)
def test_there_is_no_certificate_at_another_prevalence(goal, caps, rows):
    found = certified(rows, goal, caps=caps)
    assert found.certified
    assert not any("at_prevalence" in text for text in found.assumptions)
    with pytest.raises(SetpointError, match="no bounds at another prevalence"):
        found.at_prevalence(0.2)


def test_a_floor_that_cannot_be_reached_names_the_smallest_segment(rows):
    few = dict(rows)
    few["region"] = np.where(np.arange(N) < 60, "tiny", rows["region"])
    found = certified(few, "max recall s.t. recall >= 0.95 for each region")
    assert not found.certified
    assert "needs at least 45 positives" in found.refusal
    assert "region=tiny" in found.refusal


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_a_segment_without_positives_is_not_left_out(rows, threshold):
    """Nothing is known of its recall, and the guarantee would speak of it, too."""
    few = dict(rows)
    few["region"] = np.where((np.arange(N) < 60) & ~rows["y"], "tiny", rows["region"])
    goal = "max precision s.t. recall >= 0.8 for each region"
    assert certified(rows, goal, threshold=threshold).certified
    found = certified(few, goal, threshold=threshold)
    assert not found.certified
    assert not found.certified_thresholds
    assert "cannot be tested in 'tiny'" in found.refusal


def test_no_segment_has_positives(rows):
    negative = {name: column[~rows["y"]] for name, column in rows.items()}
    found = certified(negative, "min fpr s.t. recall >= 0.8 for each region")
    assert not found.certified
    assert "cannot be tested in 'north', 'south'" in found.refusal


def test_a_budget_for_every_day_says_on_how_many_it_holds(rows):
    found = certified(rows, "max recall s.t. alarms <= 12 per day")
    highest = day_thresholds(rows["scores"], rows["day"], 12).max()
    assert found.certified
    assert found.threshold >= highest
    ((period, share),) = found.periods_within
    assert period == "day"
    assert share == pytest.approx(1 - every_day_bound(60, 0.9), abs=1e-4)
    assert share <= 1 - every_day_bound(60, 0.9)
    assert found.claims == (f"alarms <= 12 per day on {100 * share:g}% of days",)
    assert any("trend" in text for text in found.assumptions)
    # The counts are those of whole days.
    assert found.operating_point.value("alarms per day") <= 12
    assert found.operating_point.tp + found.operating_point.fn == rows["y"].sum()


def test_a_budget_on_a_share_of_days(rows):
    found = certified(rows, "max recall s.t. alarms <= 12 per day on 90% of days")
    every = certified(rows, "max recall s.t. alarms <= 12 per day")
    assert found.certified
    assert found.periods_within == ()
    assert found.threshold <= every.threshold
    few = {name: column[rows["day"] < 15] for name, column in rows.items()}
    found = certified(few, "max recall s.t. alarms <= 12 per day on 90% of days")
    assert not found.certified
    assert "needs at least 22 days" in found.refusal


def test_days_that_are_covered_in_part_do_not_count(rows):
    times = np.datetime64("2024-05-01T00:00") + (rows["day"] * 1440 + np.arange(N) % 1440)
    late = rows["day"] > 0
    late |= np.arange(N) % 1440 > 1200  # the first day begins at 20:00
    part = {name: column[late] for name, column in rows.items()}
    part["day"] = times[late]
    found = certified(part, "max recall s.t. alarms <= 12 per day")
    ((_, share),) = found.periods_within
    assert share == pytest.approx(1 - every_day_bound(59, 0.9), abs=1e-4)


def test_an_average_number_of_alarms_has_no_bound(rows):
    found = certified(rows, "max recall s.t. alarms <= 12 per day on average")
    assert not found.certified
    assert "no bound on an average" in found.refusal


def test_the_bound_on_a_cost(rows):
    found = certified(rows, "min cost(fp=5, fn=amount)", caps=CAPS)
    assert found.certified
    bound = found.bounds[-1]
    assert bound.kind == "exact"
    assert bound.bound > bound.value
    assert any("above 400 count as 400" in text for text in found.assumptions)
    fixed = certified(rows, "min cost(fp=5, fn=amount)", caps=CAPS, threshold=1.0)
    y, amount = rows["y"], rows["amount"]
    own = CostRows.of(rows["scores"], np.where(y, 0, 5), np.where(y, amount, 0), 0, 400)
    assert fixed.bounds[-1].bound == pytest.approx(cost_bound(own, 1.0, 0.9))
    assert fixed.bounds[-1].bound < bound.bound  # one threshold has a sharper bound


def test_a_profit_has_a_lower_bound(rows):
    found = certified(rows, "max profit(tp=amount, fp=-5)", caps=CAPS)
    assert found.certified
    assert found.bounds[-1].bound < found.bounds[-1].value
    assert ">=" in found.message


def test_a_cost_with_amounts_needs_a_cap(rows):
    found = certified(rows, "min cost(fp=5, fn=amount)")
    assert not found.certified
    assert "needs a cap on 'amount'" in found.refusal
    assert certified(rows, "min cost(fp=5, fn=20)").certified  # numbers need none


def test_a_ceiling_on_the_cost(rows):
    goal = "max recall s.t. cost(fp=5, fn=amount) <= 3"
    found = certified(rows, goal, caps=CAPS)
    assert found.certified
    assert found.operating_point.value("cost(fp=5, fn=amount)") < 3
    assert not certified(rows, goal.replace("3", "0.1"), caps=CAPS).certified


def test_several_kinds_share_the_error(rows):
    goal = (
        "max recall s.t. precision >= 0.7 for each region, alarms <= 12 per day on 90% of days, "
        "cost(fp=5, fn=amount) <= 9"
    )
    found = certified(rows, goal, caps=CAPS)
    assert found.certified
    each, budget, cost = map(str, Goal.parse(goal).constraints)
    assert found.claims == (
        f"{each} (north, south)", budget, f"{cost} (where amount above 400 counts as 400)",
    )  # fmt: skip
    for constraint in Goal.parse(goal).constraints:
        alone = certified(
            rows, f"max recall s.t. {constraint}", caps=CAPS if "cost" in str(constraint) else None
        )
        for low, high in found.certified_thresholds:
            assert any(a <= low and high <= b for a, b in alone.certified_thresholds)


@pytest.mark.parametrize("threshold", [-1.0, 1.5, 99.0])
def test_a_threshold_given_beforehand(rows, threshold):
    goal = "max recall s.t. precision >= 0.7 for each region, alarms <= 30 per day on 80% of days"
    found = certified(rows, goal, threshold=threshold)
    assert found.threshold == threshold
    assert found.choice == "beforehand"
    assert found.certified == (threshold == 1.5)


def test_amounts_in_rates_have_no_test(rows):
    found = certified(rows, "max recall s.t. recall[amount] >= 0.5")
    assert not found.certified
    assert "no exact bound for recall[amount]" in found.refusal
    # As an objective it is shown without a bound.
    found = certified(rows, "max recall[amount] s.t. precision >= 0.7")
    assert found.certified
    assert found.bounds[-1].bound is None


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        ({"amount": -5}, "number above 0"),
        ({"amount": 0}, "number above 0"),
        ({"amount": "x"}, "must be a number"),
        ({"amount": np.inf}, "number above 0"),
        ({"other": 5}, "there is a cap of 'other'"),
    ],
)
def test_bad_caps(caps, message):
    with pytest.raises(SetpointError, match=message):
        check_caps(caps, Goal.parse("min cost(fp=5, fn=amount)"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": np.arange(N)}, "leave groups and sample_weight out"),
        ({"sample_weight": np.ones(N)}, "leave groups and sample_weight out"),
        ({"planning_rows": ([1, 0], [1.0, 0.0])}, "planning_rows have no amounts"),
        ({"segments": None}, "pass segments="),
    ],
)
def test_bad_input(rows, options, message):
    with pytest.raises(SetpointError, match=message):
        certified(rows, "max recall s.t. precision >= 0.8 for each region", **options)


def test_the_result_does_not_depend_on_a_seed(rows):
    goal = "max recall s.t. precision >= 0.8 for each region"
    first, second = (certified(rows, goal, random_state=seed) for seed in (1, 2))
    assert first == second


def test_certificates_as_plain_values(rows):
    found = certified(rows, "max recall s.t. alarms <= 12 per day").to_dict()
    assert found["goal"] == "max recall s.t. alarms <= 12 per day"
    assert found["periods_within"] == dict(
        certified(rows, "max recall s.t. alarms <= 12 per day").periods_within
    )


def test_two_budgets_have_a_share_each(rows):
    goal = "max recall s.t. alarms <= 12 per day, alarms <= 75 per week"
    found = certified(rows, goal)
    assert found.certified
    highest = [day_thresholds(rows["scores"], rows["day"], 12).max(),
               day_thresholds(rows["scores"], rows["day"] // 7, 75).max()]  # fmt: skip
    assert found.threshold >= max(highest)
    # 60 days, and 8 whole weeks of 9; each budget has half of the error
    within = dict(found.periods_within)
    assert within["day"] == pytest.approx(1 - every_day_bound(60, 0.95), abs=1e-4)
    assert within["week"] == pytest.approx(1 - every_day_bound(8, 0.95), abs=1e-4)
    assert found.claims == (
        f"alarms <= 12 per day on {100 * within['day']:g}% of days",
        f"alarms <= 75 per week on {100 * within['week']:g}% of weeks",
    )
    assert found.to_dict()["periods_within"] == within


@pytest.mark.parametrize("threshold", [None, 1.0])
def test_a_refusal_names_the_segments_that_fail(rows, threshold):
    mixed = dict(rows)
    mixed["region"] = np.where(np.arange(N) < 400, "tough", rows["region"])
    mixed["scores"] = rows["scores"] - 1.8 * ((mixed["region"] == "tough") & rows["y"])
    goal = "max recall s.t. precision >= 0.6 for each region"
    found = certified(mixed, goal, threshold=threshold)
    assert not found.certified
    bound = next(b for b in found.bounds if b.metric.name == "precision[region=tough]")
    observed = f"{bound.value:.3f} ({bound.successes} of {bound.trials}; >= 0.6 is required)"
    assert f"precision[region=tough] is {observed}" in found.refusal
    failing = [b.metric.name for b in found.bounds[:-1] if b.p_value > 0.1]
    for bound in found.bounds[:-1]:
        assert (bound.metric.name in found.refusal) == (bound.metric.name in failing)


def test_a_refusal_names_three_segments_at_most(rows):
    many = {**rows, "region": (np.arange(N) % 12).astype(str)}
    found = certified(many, "max recall s.t. precision >= 0.8 for each region", threshold=0.5)
    assert found.refusal.count("precision[region=") == 3
    assert found.refusal.endswith("; and 9 more.")


@pytest.mark.parametrize(
    ("goal", "instead"),
    [
        ("max precision@200", "'precision@200 per day', or .* 'precision@1%'"),
        ("max recall@200", "'alarms <= 200 per day', or .* 'alarms <= 1%'"),
        ("max recall s.t. alarms <= 200", "'alarms <= 200 per day', or .* 'alarms <= 1%'"),
        ("max recall s.t. alarms <= 9 for each region", "'alarm_rate <= 0.01 for each region'"),
        ("max recall s.t. alarms[region=north] <= 9", r"alarm_rate\[region=north\] <= 0.01'"),
    ],
)
@pytest.mark.parametrize("threshold", [None, 1.0])
def test_a_number_of_alarms_in_all_rows_is_refused(rows, goal, instead, threshold):
    with pytest.raises(GoalError, match=f"does not say in what time.* Write .*{instead}"):
        certified(rows, goal, threshold=threshold)


def test_a_number_of_alarms_in_all_rows_is_refused_everywhere(rows):
    y, scores = rows["y"], rows["scores"]
    every, goal = Rows.of(y, scores), Goal.parse("max recall s.t. alarms <= 200")
    with pytest.raises(GoalError, match="does not say in what time"):
        certify_best(every, every, goal, 0.9, on="rows")
    with pytest.raises(GoalError, match="does not say in what time"):
        certify_threshold(every, goal, 0.0, 0.9, on="rows")
    with pytest.raises(GoalError, match="does not say in what time"):
        certify_labels(np.stack([y, ~y], axis=1), np.stack([scores, -scores], axis=1), str(goal))
    with pytest.raises(GoalError, match="does not say in what time"):
        certify_by_segment(
            y, scores, f"{goal} for each region", segments={"region": rows["region"]}
        )


def test_a_given_threshold_keeps_a_budget_only_if_no_day_is_over_it(rows):
    highest = day_thresholds(rows["scores"], rows["day"], 12).max()
    goal = "max recall s.t. alarms <= 12 per day"
    assert certified(rows, goal, threshold=float(highest)).certified
    found = certified(rows, goal, threshold=float(np.nextafter(highest, -np.inf)))
    assert not found.certified
    assert found.refusal.startswith("on 1 of 60 days there are more alarms than 12")
    assert not certified(rows, goal, threshold=-9.0).certified


@pytest.mark.parametrize(("days", "passes"), [(1, False), (3, False), (4, True)])
def test_a_few_days_say_nothing_about_a_budget(rows, days, passes):
    found = certified(rows, "max recall s.t. alarms <= 900 per day", times=rows["day"] % days)
    assert found.certified is passes
    if not passes:
        be = "is 1" if days == 1 else f"are {days}"
        assert f"at least 4 days of certification rows, and there {be}" in found.refusal


def test_a_claim_about_a_cost_names_the_cap(rows):
    goal = "max recall s.t. cost(fp=5, fn=amount) <= 4"
    for found in (
        certified(rows, goal, caps=CAPS),
        certified(rows, "min cost(fp=5, fn=amount)", caps=CAPS),
    ):
        assert found.certified
        assert "(where amount above 400 counts as 400)" in found.message


def test_a_cap_does_not_hide_that_the_rows_cost_more(rows):
    goal = "max recall s.t. cost(fp=5, fn=amount) <= 1"
    found = certified(rows, goal, caps={"amount": 2.0}, threshold=3.0)
    assert not found.certified
    assert "the cap is too low: in 3,9" in found.refusal
    assert found.bounds[0].value <= 2


def test_a_bound_that_needs_no_rows_is_refused(rows):
    few = {name: column[:80] for name, column in rows.items()}
    found = certified(few, "min cost(fp=5, fn=amount)", caps={"amount": 4000.0})
    assert not found.certified
    assert "says nothing: with alarms for all rows, or for none, it is at most 5" in found.refusal


def test_no_other_method(rows):
    with pytest.raises(SetpointError, match="leave method='split' out"):
        certified(rows, "max recall s.t. precision >= 0.8 for each region", method="split")


def test_the_bound_of_a_daily_budget_states_its_share(rows):
    found = certified(rows, "max recall s.t. alarms <= 40 per day")
    ((_, share),) = found.periods_within
    text = f"alarms per day on {100 * share:g}% of days <= 40 (observed "
    assert text in str(found)
    assert found.to_dict()["bounds"][0]["metric"] == f"alarms per day on {100 * share:g}% of days"
    assert f"on {100 * share:g}% of days" in found._repr_html_()

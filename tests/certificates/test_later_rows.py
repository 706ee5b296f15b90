"""Checks of guarantees about segments, periods and costs on later rows."""

import json
import pickle
import re

import numpy as np
import pytest

from setpoint import SetpointError, certify
from setpoint.certificates.joint_monitor import JointVerdict

N = 6000


def make_rows(seed, n=N, days=100, shift=0.0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return {
        "y": y,
        "scores": rng.normal(size=n) + 2.5 * y + shift,
        "amounts": {"amount": rng.lognormal(3, 1, n)},
        "segments": {"region": np.array(["north", "south", "west"])[rng.integers(0, 3, n)]},
        "times": np.datetime64("2024-01-01") + np.sort(rng.integers(0, days, n)),
    }


def certified(goal, threshold=1.5, **options):
    found = certify(**make_rows(0), goal=goal, threshold=threshold, **options)
    assert found.certified
    return found


def named(rows, *names):
    return {name: rows[name] for name in ("y", "scores", *names)}


def plain(rows, member, goal, threshold=1.5):
    """Return the evidence of a plain certificate on some rows, with the level of one part."""
    found = certify(rows["y"], rows["scores"], goal, threshold=threshold)
    return found.check(rows["y"][member], rows["scores"][member], level=0.05 / 3).evidence[0]


def test_each_segment_is_checked_on_its_own_rows():
    certificate = certified("max recall s.t. precision >= 0.7 for each region")
    later = make_rows(1)
    verdict = certificate.check(**named(later, "segments"))
    assert isinstance(verdict, JointVerdict)
    region = later["segments"]["region"]
    for name, evidence in zip(("north", "south", "west"), verdict.evidence, strict=True):
        expected = plain(later, region == name, "max recall s.t. precision >= 0.7")
        assert evidence == pytest.approx(expected)
    assert not verdict.broken
    assert verdict.message.startswith(
        "Consistent with the certificate so far: precision[region=north] is"
    )
    worse = later["y"] & ((region != "south") | (np.arange(N) % 2 == 0))
    broken = certificate.check(worse, later["scores"], segments=later["segments"])
    assert [str(c) for c in broken.contradicted] == ["precision[region=south] >= 0.7"]
    assert broken.is_missed(broken.contradicted[0])
    assert "BROKEN: " in str(broken)
    after = certificate.check(**named(later, "segments"), after=broken)
    assert after.contradicted == broken.contradicted


def test_segments_without_a_guarantee_are_ignored_and_absent_ones_wait():
    certificate = certified("max recall s.t. precision >= 0.7 for each region")
    later = make_rows(2)
    elsewhere = {"region": np.full(N, "moon")}
    verdict = certificate.check(later["y"], later["scores"], segments=elsewhere)
    assert "'precision[region=north] >= 0.7' has no observations yet" in str(verdict)
    assert not verdict.broken
    again = certificate.check(**named(later, "segments"), after=verdict)
    at_once = certificate.check(**named(later, "segments"))
    for guarantee in certificate.guarantees:
        assert again.draws(guarantee) == at_once.draws(guarantee)


def test_small_segments_are_pooled_as_in_the_certificate():
    rows = make_rows(0)
    region = np.where(rows["segments"]["region"] == "west", "(other)", rows["segments"]["region"])
    found = certify(
        rows["y"], rows["scores"], "max recall s.t. precision >= 0.7 for each region",
        threshold=1.5, segments={"region": region},
    )  # fmt: skip
    later = make_rows(3)
    verdict = found.check(**named(later, "segments"))
    other = next(c for c in found.guarantees if "(other)" in str(c))
    west = later["segments"]["region"] == "west"
    assert verdict.draws(other)[1] == (west & (later["scores"] > 1.5)).sum()


def test_days_over_budget_are_counted():
    rows, goal = make_rows(0), "max recall s.t. alarms <= 30 per day on 90% of days"
    certificate = certified(goal)
    later = make_rows(4)
    days, at = np.unique(later["times"], return_inverse=True)
    alarms = np.bincount(at, later["scores"] > 1.5)
    verdict = certificate.check(**named(later, "times"))
    (guarantee,) = certificate.guarantees
    assert verdict.draws(guarantee) == ((alarms > 30).sum(), len(days))
    assert "fraction of days with more than 30 alarms is" in str(verdict)
    busy = make_rows(5, days=40)
    broken = certificate.check(**named(busy, "times"))
    assert broken.broken
    assert rows["times"].max() > busy["times"].max()
    early, late = np.datetime64("2024-01-20"), np.datetime64("2024-02-08")
    for part in (busy["times"] < early, busy["times"] > late):
        again = {"times": busy["times"][part], "after": broken}
        with pytest.raises(SetpointError, match="an earlier check had rows up to 2024-02-09"):
            certificate.check(busy["y"][part], busy["scores"][part], **again)
    next_days = busy["times"] + np.timedelta64(40, "D")
    more = certificate.check(busy["y"], busy["scores"], times=next_days, after=broken)
    assert more.draws(guarantee)[1] == 80


def test_a_budget_for_every_day_is_checked_for_the_certified_share():
    certificate = certified("max recall s.t. alarms <= 60 per day")
    ((_, share),) = certificate.periods_within
    verdict = certificate.check(**named(make_rows(6), "times"))
    assert verdict.monitored[0].plain.level == pytest.approx(1 - share)
    assert not verdict.broken


def test_each_of_two_budgets_is_checked_for_its_own_share():
    certificate = certified("max recall s.t. alarms <= 60 per day, alarms <= 350 per week")
    within = dict(certificate.periods_within)
    assert within["week"] < within["day"]
    verdict = certificate.check(**named(make_rows(6), "times"))
    assert [each.name for each in verdict.monitored] == [
        "fraction of days with more than 60 alarms",
        "fraction of weeks with more than 350 alarms",
    ]
    for each, period in zip(verdict.monitored, ("day", "week"), strict=True):
        assert each.plain.level == pytest.approx(1 - within[period])


def test_costs_are_capped_and_checked():
    goal = "min cost(fp=5, fn=amount)"
    certificate = certified(goal, caps={"amount": 100})
    later = make_rows(7)
    verdict = certificate.check(**named(later, "amounts"))
    alarm = later["scores"] > 1.5
    paid = np.minimum(later["amounts"]["amount"], 100)
    cost = np.where(later["y"], np.where(alarm, 0, paid), np.where(alarm, 5, 0))
    (part,) = verdict.parts
    assert part.value == pytest.approx(cost.mean())
    assert part.capped == (later["amounts"]["amount"] > 100).sum()
    amount = later["amounts"]["amount"]
    raw = np.where(later["y"], np.where(alarm, 0, amount), np.where(alarm, 5, 0))
    assert part.uncapped == pytest.approx(raw.mean())
    assert not verdict.broken
    dear = {"amount": 10 * later["amounts"]["amount"]}
    broken = certificate.check(later["y"], later["scores"] - 2, amounts=dear)
    assert broken.broken
    assert "cost(fp=5, fn=amount) is" in str(broken)


def test_several_kinds_divide_the_level():
    certificate = certified(
        "max recall s.t. precision >= 0.7 for each region, alarms <= 60 per day on 80% of days, "
        "fpr <= 0.2, cost(fp=5, fn=amount) <= 20",
        caps={"amount": 100},
    )
    later = make_rows(8)
    verdict = certificate.check(**later, level=0.06)
    assert [part.alarm_at for part in verdict.parts] == pytest.approx([6 / 0.06] * 6)
    assert not verdict.broken
    assert str(verdict).count("guaranteed: ") == 6
    for given in ({"matured": np.arange(N) < 5000}, {"groups": np.arange(N) // 2}):
        with pytest.raises(SetpointError, match="a budget per day counts all rows of a day"):
            certificate.check(**later, **given)


def test_rows_that_are_not_final_wait():
    certificate = certified(
        "max recall s.t. precision >= 0.7 for each region, cost(fp=5, fn=amount) <= 20",
        caps={"amount": 100},
    )
    later = named(make_rows(8), "segments", "amounts")
    first = np.arange(N) < 5000
    pending = certificate.check(**later, matured=first)
    assert pending.pending == 1000
    assert pending.parts[-1].rows == 5000
    region, alarm = later["segments"]["region"], later["scores"] > 1.5
    assert pending.draws(certificate.guarantees[0])[1] == (alarm & (region == "north"))[first].sum()
    pairs = certificate.check(**later, groups=np.arange(N) // 2)
    assert pairs.parts[-1].rows == N // 2


def test_hours_and_numbered_days_are_in_order():
    goal = "max recall s.t. alarms <= 40 per {} on 50% of {}s"
    for period, times in (("hour", "2024-01-01T00:00"), ("day", 0.0)):
        n, rows = 1200, make_rows(0, 1200)
        step = np.timedelta64(30, "m") if period == "hour" else 0.25
        start = np.datetime64(times) if period == "hour" else times
        rows["times"] = start + np.arange(n) * step
        found = certify(**rows, goal=goal.format(period, period), threshold=1.5)
        assert found.certified
        first = found.check(**{**named(rows), "times": rows["times"]})
        later = {**named(rows), "times": rows["times"] + n * step}
        assert found.check(**later, after=first).checks == 2


def test_a_verdict_of_another_kind_is_refused():
    each = certified("max recall s.t. precision >= 0.7 for each region")
    plain = certified("max recall s.t. precision >= 0.7")
    later = make_rows(1)
    of_each, of_all = each.check(**named(later, "segments")), plain.check(**named(later))
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        each.check(**named(later, "segments"), after=of_all)
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        plain.check(**named(later), after=of_each)


def test_where_a_change_began_is_said_in_cases_of_the_segment():
    certificate = certified("max recall s.t. precision >= 0.7 for each region")
    verdict = certificate.check(**named(make_rows(1), "segments"))
    worse = make_rows(2)
    wrong = worse["y"] & (np.arange(N) % 3 == 0)
    verdict = certificate.check(wrong, worse["scores"], segments=worse["segments"], after=verdict)
    assert verdict.broken
    assert re.search(r"after the first [\d,]+ cases with region=north", str(verdict))


def test_plain_prices_need_no_columns():
    certificate = certified("max recall s.t. cost(fp=5, fn=100) <= 8")
    verdict = certificate.check(**named(make_rows(9)))
    assert not verdict.broken
    assert verdict.parts[0].rows == N


def test_no_new_rows():
    certificate = certified("max recall s.t. precision >= 0.7 for each region")
    first = certificate.check(**named(make_rows(1), "segments"))
    nothing = certificate.check([], [], segments={"region": []}, after=first)
    assert nothing.checks == 2
    assert nothing.evidence == first.evidence


def test_missing_columns_and_other_certificates():
    certificate = certified("max recall s.t. precision >= 0.7 for each region")
    later = make_rows(1)
    with pytest.raises(SetpointError, match=r"names 'region'; pass segments="):
        certificate.check(later["y"], later["scores"])
    verdict = certificate.check(**named(later, "segments"))
    other = certified("max recall s.t. precision >= 0.7 for each region", threshold=1.4)
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        other.check(**named(later, "segments"), after=verdict)
    with pytest.raises(SetpointError, match=r"earlier checks had the level 0\.05"):
        certificate.check(**named(later, "segments"), after=verdict, level=0.1)


def test_notebooks_json_and_pickles():
    certificate = certified(
        "max recall s.t. precision >= 0.7 for each region, cost(fp=5, fn=amount) <= 20",
        caps={"amount": 100},
    )
    verdict = certificate.check(**named(make_rows(1), "segments", "amounts"))
    html = verdict._repr_html_()
    assert "precision[region=north]" in html
    assert "cost(fp=5, fn=amount)" in html
    values = verdict.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_false_alarms_are_rare():
    """Days, segments and costs exactly at their limits, checked batch by batch."""
    rng = np.random.default_rng(10)
    n, broken, runs = 4000, 0, 150
    goal = (
        "max recall s.t. precision >= 0.5 for each region, cost(fp=1, fn=amount) <= 0.5, "
        "alarms <= 3 per day on 60% of days"
    )
    y, alarm = rng.random(n) < 0.7, rng.random(n) < 0.5
    certificate = certify(
        y, alarm, goal, threshold=0.5, caps={"amount": 1.0}, times=np.arange(n) // 4.0,
        amounts={"amount": np.full(n, 0.5)}, segments={"region": np.where(y, "n", "s")[::-1]},
    )  # fmt: skip
    assert certificate.certified, certificate
    for _ in range(runs):
        verdict = None
        for batch in range(5):
            m = 200
            y = rng.random(m) < 0.5  # half of the alarms are real, in both regions
            alarm = np.concatenate([np.arange(5) < (4 if rng.random() < 0.4 else 3)
                                    for _ in range(m // 5)])  # fmt: skip
            day = np.arange(m) // 5 + 1000.0 * batch
            verdict = certificate.check(
                y, alarm, after=verdict, level=0.2, times=day,
                amounts={"amount": np.ones(m)}, segments={"region": np.where(day % 2, "n", "s")},
            )  # fmt: skip
        broken += verdict.broken
    assert broken / runs <= 0.2

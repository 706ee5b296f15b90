"""Decide about payments with prices, a daily budget, and a floor in every region.

The payments are generated, so that the example needs no download; read your own instead.
"""

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from setpoint import SetpointThreshold, certify, choose_threshold, compare_decisions

FEATURES = ["speed", "distance", "new_device"]


def payments(n: int, days: int, seed: int) -> pd.DataFrame:
    """Return n payments of some days, of which about four in a hundred are fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.04
    return pd.DataFrame(
        {
            "date": np.datetime64("2024-03-01") + np.sort(rng.integers(0, days, n)),
            "region": rng.choice(["north", "south", "islands"], n, p=[0.5, 0.35, 0.15]),
            "amount": rng.lognormal(4, 1, n).round(2),
            "speed": rng.normal(size=n) + 1.6 * fraud,
            "distance": rng.normal(size=n) + 1.6 * fraud,
            "new_device": (rng.random(n) < 0.1 + 0.5 * fraud).astype(int),
            "fraud": fraud,
        }
    )


def draw(y: pd.Series, p: np.ndarray, new: pd.DataFrame, budget: int) -> None:
    """Draw the cost at every threshold, and the alarms of each day at the budget's threshold."""
    decisions = compare_decisions(y, p, "min cost(fp=5, fn=amount)", amounts=new)
    best, valued = decisions["single threshold"], decisions["expected value"]
    order = np.argsort(-p)
    caught = np.cumsum(np.where(y, new["amount"], -5.0)[order])  # saved by each further alarm
    cost = (new["amount"][y].sum() - caught) / len(y)
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    left.plot(p[order], cost)
    left.plot(best.threshold, best.objective, "o", label="single threshold")
    left.axhline(valued.objective, linestyle="--", color="black", label="expected value")
    left.set(
        xlabel="threshold", ylabel="cost per payment", xscale="log", xlim=(1e-3, 1), ylim=(0, None)
    )
    left.set_title("one threshold, and decisions row by row")
    left.legend()

    goal = f"max recall s.t. alarms <= {budget} per day on 95% of days"
    point = choose_threshold(y, p, goal, times=new["date"])
    per_day = pd.Series(p > point.threshold).groupby(new["date"].to_numpy()).sum()
    right.bar(per_day.index, per_day, width=0.9)
    right.axhline(budget, linestyle="--", color="black")
    right.set(
        ylabel="alarms per day", title=f"at most {budget} on 95% of days: recall {point.recall:.2f}"
    )
    right.xaxis.set_major_formatter(mdates.ConciseDateFormatter(right.xaxis.get_major_locator()))


def main() -> None:
    """Choose, compare and certify decisions for three goals."""
    old, new = payments(10_000, 60, seed=0), payments(10_000, 60, seed=1)
    model = LogisticRegression().fit(old[FEATURES], old["fraud"])
    y, p = new["fraud"], model.predict_proba(new[FEATURES])[:, 1]

    # Money: a false alarm costs 5, and a missed fraud its amount.
    money = "min cost(fp=5, fn=amount)"
    print(compare_decisions(y, p, money, amounts=new), end="\n\n")
    print(certify(y, p, money, amounts=new, caps={"amount": 1000}).message, end="\n\n")

    # A budget: the team can review 12 payments a day.
    for days in ("", " on 95% of days"):
        goal = f"max recall s.t. alarms <= 12 per day{days}"
        print(certify(y, p, goal, times=new["date"]).message)

    # Regions: seven of ten alarms are real in each of them, with a threshold of its own.
    goal = "max recall s.t. precision >= 0.7 for each region"
    clf = SetpointThreshold(LogisticRegression(), goal, thresholds="per group", random_state=0)
    clf.fit(old[FEATURES], old["fraud"], segments=old)
    print(f"\n{clf.segment_thresholds_}")
    print(clf.evaluate(new[FEATURES], y, segments=new).message)

    draw(y, p, new, budget=12)
    plt.savefig("decisions.png")


if __name__ == "__main__":
    main()

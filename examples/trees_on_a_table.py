"""Certify gradient-boosted trees on a table of transactions.

The table is generated, so that the example needs no download; read your own from a file instead.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from setpoint import SetpointThreshold
from setpoint.report import plot_certificate


def transactions(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return n transactions, of which about four in a hundred are fraud."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "amount": rng.lognormal(3.5, 1.2, n),
            "hour": rng.integers(0, 24, n),
            "days_since_first_use": rng.exponential(300, n),
            "country": rng.choice(["home", "near", "far"], n, p=[0.8, 0.15, 0.05]),
        }
    )
    risk = (
        0.9 * (np.log(table.amount) - 3.5)
        + 2.5 * (table.country == "far")
        + 2.0 * ((table.hour < 5) & (table.days_since_first_use < 30))
        - 0.004 * table.days_since_first_use
    )
    return table, (1.5 * risk + rng.logistic(-3.5, 0.3, n) > 0).to_numpy()


def main() -> None:
    """Catch as much fraud as possible while four alarms out of five are real."""
    X, y = transactions(15_000, seed=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    trees = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["country"]), remainder="passthrough"),
        HistGradientBoostingClassifier(max_iter=30, random_state=0),
    )
    goal = "max recall s.t. precision >= 0.8"
    clf = SetpointThreshold(trees, goal, confidence=0.9, random_state=0).fit(X_train, y_train)
    print(clf.certificate_)
    print(f"Threshold of each fold: {clf.thresholds_.round(2)}")
    print(clf.evaluate(X_test, y_test).message)

    # Check the certificate on later weeks, as often as you like.
    scores, verdict = clf.positive_scores(X_test), None
    for week in np.array_split(np.arange(len(y_test)), 4):
        verdict = clf.certificate_.check(y_test[week], scores[week], after=verdict)
        print(verdict)

    plot_certificate(clf.certificate_, y_test, scores)
    plt.savefig("trees_on_a_table.png")


if __name__ == "__main__":
    main()

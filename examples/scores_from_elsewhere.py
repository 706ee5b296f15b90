"""The exact threshold for the scores of any classifier, here gradient-boosted trees.

Nothing is retrained: choose_threshold needs labels and scores, from wherever they come.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from setpoint import choose_threshold, evaluate_threshold


def main() -> None:
    """Find the eights among handwritten digits, for three goals and one model."""
    X, digit = load_digits(return_X_y=True)
    y = digit == 8
    X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
    X_choose, X_test, y_choose, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, random_state=0
    )
    model = HistGradientBoostingClassifier(random_state=0).fit(X_fit, y_fit)
    # The rows that choose the threshold are not those that fitted the model, whose scores there
    # would be too good to be true.
    chosen_on = model.predict_proba(X_choose)[:, 1]
    tested_on = model.predict_proba(X_test)[:, 1]
    for goal in (
        "max recall s.t. precision >= 0.98",
        "max precision s.t. recall >= 0.95",
        "max f1",
        "max recall s.t. precision >= 0.999, recall >= 0.999",
    ):
        point = choose_threshold(y_choose, chosen_on, goal, on="the rows that chose it")
        print(point)
        print(
            evaluate_threshold(y_test, tested_on, point.threshold, goal, on="new rows").message,
            end="\n\n",
        )


if __name__ == "__main__":
    main()

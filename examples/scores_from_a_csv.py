"""Find and certify a threshold for scores in a file, from a vendor or another team.

Nothing is trained: labels and scores are enough.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from setpoint import certify, choose_threshold
from setpoint.report import plot_certificate


def write_scores(path: Path) -> None:
    """Write a file as a vendor would send it: one row per case, with the truth and a score."""
    X, y = load_breast_cancer(return_X_y=True)
    X_fit, X_rest, y_fit, y_rest = train_test_split(X[:, :4], y, test_size=0.7, random_state=0)
    p = GaussianNB().fit(X_fit, y_fit).predict_proba(X_rest)[:, 0]
    truth = ["malignant" if label == 0 else "benign" for label in y_rest]
    pd.DataFrame({"truth": truth, "score": p}).to_csv(path, index=False)


def main() -> None:
    """Find the malignant cases: miss at most one in ten, with as few false alarms as possible."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        write_scores(path)
        table = pd.read_csv(path)
    goal = "max precision s.t. recall >= 0.9"
    given = {"y": table.truth, "scores": table.score, "goal": goal, "pos_label": "malignant"}

    print(choose_threshold(**given), end="\n\n")  # just meets the floor on these rows
    certificate = certify(**given, confidence=0.9)  # meets it on new rows, with 90 % confidence
    print(certificate, end="\n\n")
    print(certify(**given, confidence=0.999).message)

    plot_certificate(certificate, table.truth, table.score, pos_label="malignant")
    plt.savefig("scores_from_a_csv.png")


if __name__ == "__main__":
    main()

"""Train your own torch module for a goal, in your own training loop.

ExactPenalty holds the lifted variables s; the loop does everything else. It is Algorithm 1 in its
simplest form: raise lambda, take Adam steps on the model and on s, and project s. The threshold is
exact.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn

from setpoint import ExactPenalty, certify, choose_threshold
from setpoint.report import plot_certificate

GOAL = "max precision s.t. recall >= 0.95"


class TwoTowers(nn.Module):
    """One tower for the mean values of the cell nuclei, one for their worst values."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(10, 8), nn.Tanh())
        self.worst = nn.Sequential(nn.Linear(10, 8), nn.Tanh())
        self.logit = nn.Linear(16, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return one logit per row."""
        towers = torch.cat([self.mean(X[:, :10]), self.worst(X[:, 20:])], dim=1)
        return self.logit(towers).squeeze(1)


def main() -> None:
    """Train, choose the threshold, and evaluate it on test rows."""
    torch.manual_seed(0)
    X, y = load_breast_cancer(return_X_y=True)
    malignant = y == 0
    X = (X - X.mean(0)) / X.std(0)
    X_train, X_test, y_train, y_test = (
        torch.as_tensor(array)
        for array in train_test_split(
            X.astype("float32"), malignant, stratify=malignant, random_state=0
        )
    )

    model = TwoTowers()
    penalty = ExactPenalty(GOAL, y_train, lam=1.0, gamma=0.5)
    with torch.no_grad():
        penalty.s.copy_(y_train)  # start from s equal to the labels
    optimizer = torch.optim.Adam(
        [{"params": model.parameters(), "lr": 3e-3}, {"params": [penalty.s], "lr": 0.01}]
    )
    for k in range(30):  # the outer loop of Algorithm 1
        for _ in range(20):  # the subproblem
            optimizer.zero_grad()
            loss = penalty(model(X_train))
            loss.backward()
            optimizer.step()
            penalty.project_()
        penalty.lam *= 1.3
        penalty.gamma = min(1.3 * penalty.gamma, 10.0)
        if k % 10 == 9:
            with torch.no_grad():
                point = choose_threshold(y_train, model(X_train), GOAL, on="the training rows")
            print(f"after {k + 1:2} subproblems: {point.message}")

    with torch.no_grad():
        scores = model(X_test)
    # The threshold was fixed on training rows, so the test rows can certify it.
    certificate = certify(y_test, scores, GOAL, threshold=point.threshold, on="the test rows")
    print(certificate)

    plot_certificate(certificate, y_test, scores)
    plt.savefig("own_training_loop.png")


if __name__ == "__main__":
    main()

"""Models of different kinds that were compared for one goal, and which of them was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from setpoint._internal.listing import Listing, aligned
from setpoint._internal.notebook import Summary
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import display_name
from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class ModelCandidate:
    """A model, and what it reached on rows that were new to it.

    Attributes
    ----------
    name : str
        The name of the model.
    point : OperatingPoint or None
        Its operating point at the best threshold on these rows; None if the model was not fitted.
    average : float
        What models are compared by: the mean of the gain on all rows and of the average gain on
        random halves of them. A gain is the objective, negated if it is minimised, and 1 plus the
        violation less where constraints are violated.
    behind : float
        How far the average is below the best one.
    error : float
        The standard error of that difference, from the halves.
    behind_on_all : float
        How far its gain on all rows is below that of the best one.
    log_loss : float
        The mean logistic loss of its calibrated logits on the same rows. It uses all rows, not
        only those near the threshold, and so tells good models from lucky ones.
    log_loss_behind, log_loss_error : float
        How far the loss is above the lowest one, and the standard error of that difference.
    seconds : float
        The time to fit and score the model on all folds.
    note : str
        Why the model was not fitted, or of which models a stack consists.
    """

    name: str
    point: OperatingPoint | None
    average: float = float("nan")
    behind: float = float("nan")
    error: float = float("nan")
    log_loss: float = float("nan")
    log_loss_behind: float = float("nan")
    log_loss_error: float = float("nan")
    seconds: float = 0.0
    note: str = ""
    behind_on_all: float = 0.0

    @property
    def is_close(self) -> bool:
        """Whether it is at most one standard error behind the best, for the goal and in loss.

        For the goal it must be so on average and on all rows: on few rows the average of a good
        model varies much, and one with hardly any alarms would be within its standard error.
        """
        behind = max(self.behind, self.behind_on_all)
        return behind <= self.error and self.log_loss_behind <= self.log_loss_error


class ModelCandidates(Listing[ModelCandidate]):
    """All models that were compared, the simplest first.

    ``winner`` is the simplest one that is at most one standard error behind the best for the goal,
    and also in logistic loss; if there is none, the best for the goal.
    ``print(candidates)`` shows a table.
    """

    def __init__(self, candidates: Sequence[ModelCandidate]) -> None:
        self._found = tuple(candidates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelCandidates) and self._found == other._found

    __hash__ = None  # type: ignore[assignment]

    @property
    def winner(self) -> ModelCandidate:
        """The simplest model that is close to the best, or the best for the goal."""
        fitted = [c for c in self._found if c.point is not None]
        return next((c for c in fitted if c.is_close), min(fitted, key=lambda c: c.behind))

    @property
    def meaning(self) -> str:
        """How the chosen model was chosen, and from what."""
        return (
            "Behind the best: the difference from the best model, averaged over all of these rows "
            "and random halves of them, and its standard error. The simplest model is chosen that "
            "is at most one standard error behind: on average, on all of these rows, and in log "
            "loss."
        )

    def table(self) -> list[list[str]]:
        """Return the candidates as rows of text, the header first."""
        won = self.winner
        assert won.point is not None
        listed = {m.name for m in won.point.listed_metrics()[0]}  # of many segments, the worst
        metrics = {m.name: m for m in won.point.goal.metrics if m.name in listed}
        required = {c.metric.name: c for c in won.point.goal.constraints}
        rows = [
            ["model", *map(display_name, metrics), "behind the best", "log loss", "seconds", ""]
        ]
        for one in self:
            if one.point is None:
                rows.append([one.name, *["–"] * (len(metrics) + 3), one.note])
                continue
            values = [
                format_metric(one.point.value(name), required.get(name), m)
                for name, m in metrics.items()
            ]
            behind = f"{one.behind:.3f} ± {one.error:.3f}" if one.behind > 0 else "–"
            marks = ["★ chosen"] * (one is won) + ["✗ goal not met"] * (not one.point.feasible)
            marks += [one.note] * bool(one.note)
            rows.append(
                [
                    one.name,
                    *values,
                    behind,
                    f"{one.log_loss:.4f}",
                    f"{one.seconds:.1f}",
                    ", ".join(marks) or "–",
                ]
            )
        return rows

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the candidates as plain values, for JSON."""
        won = self.winner
        return [
            {
                "model": c.name,
                "chosen": c is won,
                "operating_point": None if c.point is None else c.point.to_dict(),
                "behind": None if c.point is None else c.behind,
                "standard_error": None if c.point is None else c.error,
                "log_loss": None if c.point is None else c.log_loss,
                "seconds": round(c.seconds, 3),
                "note": c.note,
            }
            for c in self
        ]

    def __str__(self) -> str:
        rows, point = self.table(), self.winner.point
        assert point is not None
        lines = aligned(rows, left=range(len(rows[0])))
        return "\n".join([f"'{point.goal}' on {point.on}", *lines])

    def _summary(self) -> Summary:
        point = self.winner.point
        assert point is not None
        message = f"{self.winner.name} was chosen for '{point.goal}'"
        caption = f"{len(self)} models, on {point.on}"
        return Summary(message, point.feasible and not point.empty, caption, [self.table()])

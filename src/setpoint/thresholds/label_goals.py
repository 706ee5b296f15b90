"""Goals of several labels: one for all or one each, micro and macro averages.

Besides the goal language, a goal for all labels may name an average and say where a constraint
holds:

    max micro f1 s.t. recall >= 0.5 for each label
    max macro f1
    max recall s.t. micro alarm_rate <= 0.01

A constraint holds for each label unless it begins with ``micro``: then it holds for the summed
counts of all labels, and the objective is that of the summed counts, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from setpoint._internal.validation import did_you_mean, listed
from setpoint.errors import GoalError
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import Metric

Average = Literal["macro", "micro"] | None

_AVERAGED = re.compile(r"\b(micro|macro)[\s_]+", re.IGNORECASE)
_FOR_EACH = re.compile(r"\s*\bfor\s+(each|every)\s+label\b", re.IGNORECASE)
_SUCH_THAT = re.compile(
    r"\bs\.\s*t\.|\bs\.t\b|\bst\b|\bsubject\s+to\b|\bsuch\s+that\b", re.IGNORECASE
)
_SEPARATOR = re.compile(r",\s*and\b|,(?![^(]*\))|\band\b", re.IGNORECASE)


@dataclass(frozen=True)
class LabelGoals:
    """The goal of each label, the average to optimise, and constraints on the summed counts."""

    goals: tuple[Goal, ...]
    average: Average
    on_sums: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, goal: Any, names: Sequence[str], average: Average) -> LabelGoals:
        """Parse one goal for all labels, or a sequence or mapping with one for each."""
        if average not in ("macro", "micro", None):
            raise GoalError(f"average is 'macro', 'micro' or None, not {average!r}.")
        if isinstance(goal, str | Goal):
            one, average, on_sums = _parse(goal, average)
            found = cls((one,) * len(names), average, on_sums)
        else:
            texts = _one_each(goal, names)
            parsed = [_parse(text, average) for text in texts]
            averages = {each[1] for each in parsed}
            if len(averages) > 1:
                raise GoalError("the goals of the labels name different averages; name one.")
            if any(each[2] for each in parsed):
                raise GoalError(
                    "a constraint on the sum of all labels belongs to all of them: give one goal "
                    "for all labels, or constrain each label."
                )
            found = cls(tuple(each[0] for each in parsed), averages.pop())
        for each in dict.fromkeys([*found.goals, found.of_sums]):
            check_counts_rows(each, "labels")
        objectives = list(dict.fromkeys(str(each.objective) for each in found.goals))
        if found.average is not None and len(objectives) > 1:
            raise GoalError(
                f"the goals have different objectives ({', '.join(objectives)}), of which there is "
                f"no {found.average} average; use average=None."
            )
        return found

    @property
    def objective(self) -> Metric | None:
        """The objective, if it is the same for all labels."""
        found = {goal.objective for goal in self.goals}
        return found.pop() if len(found) == 1 else None

    @property
    def of_sums(self) -> Goal:
        """The goal for the summed counts."""
        return Goal(self.goals[0].objective, self.on_sums)

    def __str__(self) -> str:
        texts = list(dict.fromkeys(map(str, self.goals)))
        if len(texts) > 1:
            return f"a goal for each of {len(self.goals)} labels"
        direction, objective = self.goals[0].objective.direction, self.goals[0].objective
        head = f"{direction} {f'{self.average} ' if self.average else ''}{objective}"
        constraints = [f"{c} for each label" for c in self.goals[0].constraints]
        constraints += [f"micro {c}" for c in self.on_sums]
        return f"{head} s.t. {', '.join(constraints)}" if constraints else head


def _parse(goal: str | Goal, average: Average) -> tuple[Goal, Average, tuple[Constraint, ...]]:
    """Return the goal of each label, the average, and the constraints on the summed counts."""
    if isinstance(goal, Goal):
        return goal, average, ()
    if not isinstance(goal, str) or not _AVERAGED.search(goal):
        return Goal.parse(_FOR_EACH.sub("", goal) if isinstance(goal, str) else goal), average, ()
    head, *tail = _SUCH_THAT.split(goal)
    if named := _AVERAGED.search(head):
        average = "micro" if named[1].lower() == "micro" else "macro"
    parts = [_FOR_EACH.sub("", part).strip() for part in _SEPARATOR.split(tail[0])] if tail else []
    each = [part for part in parts if not _AVERAGED.match(part)]
    on_sums = []
    for part in parts:
        found = _AVERAGED.match(part)
        if found is None:
            continue
        if found[1].lower() == "macro":
            raise GoalError(
                f"{part!r}: a mean over the labels cannot be constrained, as it couples their "
                "thresholds like a knapsack of fractions; write the level without 'macro', for "
                "each label, or 'micro' for the summed counts."
            )
        on_sums.append(part[found.end() :])
    if on_sums:
        if average == "macro" and _AVERAGED.search(head):
            raise GoalError(
                f"{goal!r} has a macro average and a constraint on the summed counts, which "
                "couples the labels; write 'micro' for both, or constrain each label."
            )
        average = "micro"
    text = _AVERAGED.sub("", head)
    found_goal = Goal.parse(f"{text} s.t. {', '.join(each)}" if each else text)
    return found_goal, average, Goal(found_goal.objective, tuple(on_sums)).constraints  # type: ignore[arg-type]


def check_counts_rows(goal: Goal, several: Literal["labels", "classes"]) -> None:
    """Raise GoalError if a goal counts rows by amount, segment or period."""
    one = {"labels": "label", "classes": "class"}[several]
    kinds = {
        "amounts of the rows": goal.amounts,
        "segments": goal.segments,
        "periods": [f"per {period}" for period in goal.periods],
    }
    for kind, named in kinds.items():
        if named:
            raise GoalError(
                f"'{goal}' is about {kind} ({listed(named)}), which goals of several {several} "
                f"cannot name: every row counts once for each {one}. Use metrics of plain counts, "
                f"or fit a classifier for each {one}."
            )


def _one_each(goal: Any, names: Sequence[str]) -> list[Any]:
    """Return the goals of a mapping or sequence in the order of the labels."""
    if isinstance(goal, Mapping):
        keys = [str(key) for key in goal]
        unknown = [key for key in keys if key not in names]
        if unknown:
            raise GoalError(
                f"there is a goal for {listed(unknown)}, but no such label; the labels are "
                f"{listed(names)}.{did_you_mean(unknown[0], list(names))}"
            )
        missing = [name for name in names if name not in keys]
        if missing:
            raise GoalError(f"there is no goal for the labels {listed(missing)}.")
        by_name = dict(zip(keys, goal.values(), strict=True))
        return [by_name[name] for name in names]
    if not isinstance(goal, Sequence):
        raise GoalError(
            "a goal is a string or a Goal, and goals are a list or a mapping of them, not "
            f"{type(goal).__name__}."
        )
    if len(goal) != len(names):
        raise GoalError(f"there are {len(goal)} goals for {len(names)} labels.")
    return list(goal)

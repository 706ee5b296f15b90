"""One pass over all rows: what models do there, and a sample for their next steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setpoint._internal.processes import all_reduce_sum, round_to_16_bits
from setpoint.data.sampling import Nearness, PrioritySample, Sample
from setpoint.data.splits import JUDGING, TRAINING
from setpoint.errors import DivergedError
from setpoint.goals.goal import Goal
from setpoint.thresholds.histogram import EdgeCut, ScoreHistogram
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import Ranking
from setpoint.training.bundle import Bundle
from setpoint.training.stream_problem import Counter, StreamProblem, Totals


@dataclass(frozen=True)
class Seen:
    """What k models do on one part, by the histograms of their scores.

    ``shift`` holds the logits from which scores were measured: what was known of the thresholds
    before.
    """

    scores: ScoreHistogram
    shift: Tensor

    def cuts(self, goal: Ranking) -> list[EdgeCut]:
        """Return each model's best cut among the histogram's edges.

        Its counts are exact. A threshold between two edges may be better by what lies between
        them, which near the shift is next to nothing.
        """
        found = zip(self.shift.tolist(), self.scores.best(goal), strict=True)
        return [cut._replace(threshold=shift + cut.threshold) for shift, cut in found]

    def points(self, goal: Goal, on: str) -> list[OperatingPoint]:
        """Return what each model does at its best cut."""
        P, N = (float(w[0].sum()) for w in (self.scores.positive, self.scores.negative))
        return [
            OperatingPoint(threshold, tp, fp, P - tp, N - fp, goal, on)
            for threshold, tp, fp in self.cuts(goal)
        ]


@dataclass(frozen=True)
class Survey:
    """The outcome of a pass: both parts, which models are alive, and a sample, if asked for."""

    training: Seen
    judging: Seen
    alive: list[bool]
    sample: Sample | None


def survey(
    problem: StreamProblem,
    bundle: Bundle,
    drawing: tuple[PrioritySample, Nearness] | None = None,
) -> Survey:
    """Read all rows once; draw a sample of those that train where that is asked for."""
    shift = bundle.origins.detach().clone()
    k = len(shift)
    seen = {part: ScoreHistogram(k) for part in (TRAINING, JUDGING)}
    dead = torch.zeros(k, dtype=torch.float64)
    for block, part in problem.blocks():
        logits = logits_above(bundle, block.X, shift)
        broken = logits.isnan().any(dim=1)
        dead += broken.double().cpu()
        logits[broken] = 0.0  # a diverged model ends nobody's training but its own
        for which, histogram in seen.items():
            rows = part == which
            if rows.any():
                everything = bool(rows.all())
                own = logits if everything else logits[:, rows]
                histogram.add(own, block.positive[rows], block.weight[rows])
        rows = part == TRAINING
        if drawing is not None and rows.any():
            sample, nearness = drawing
            own, trained = logits[:, rows], block.rows(rows)
            importance = nearness.importance(own, trained.positive)
            sample.add(trained, own.T, importance * trained.weight)
    all_reduce_sum(dead)
    alive = [d == 0 for d in dead.tolist()]
    if not any(alive):
        raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
    for histogram in seen.values():
        histogram.all_reduce()
    drawn = None if drawing is None else drawing[0].finish()
    return Survey(Seen(seen[TRAINING], shift), Seen(seen[JUDGING], shift), alive, drawn)


def first_look(problem: StreamProblem, rows: int, key: tuple[int, ...]) -> tuple[Totals, Sample]:
    """Read all rows once, before there is a model: count them, and draw by class alone."""
    sample = PrioritySample(rows // 2, rows, key)  # nobody knows yet how few positives there are
    counter = Counter()
    for block, part in problem.blocks():
        counter.add(block, part)
        trained = block.rows(part == TRAINING)
        sample.add(
            trained, trained.X.new_empty(len(trained), 0, dtype=torch.float32), trained.weight
        )
    return counter.totals(problem.judged_apart), sample.finish()


def see(logits: Tensor, sample: Sample, bundle: Bundle) -> Seen:
    """Return what models with these logits (k, m) do on all rows, as far as a sample can tell."""
    logits = logits.clone()
    logits[logits.isnan().any(dim=1)] = 0.0
    histogram = ScoreHistogram(len(logits))
    # Weights of few bits add up exactly, in whatever order the processes add theirs.
    histogram.add(logits, sample.positive, round_to_16_bits(sample.weight))
    histogram.all_reduce()
    return Seen(histogram, bundle.origins.detach().clone())


def logits_above(bundle: Bundle, X: Tensor, shift: Tensor) -> Tensor:
    """Return scores (k, m) measured from the shift, in float32."""
    scores = bundle.scores(X)
    return (scores - shift.to(scores)[:, None]).float()

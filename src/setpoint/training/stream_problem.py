"""A training problem whose rows come in blocks, and passes over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setpoint._internal.devices import start_gradients
from setpoint._internal.processes import all_reduce_sum, rank_and_world_size, round_to_16_bits
from setpoint._internal.renamed import renamed_parameters, renamed_property
from setpoint.data.arrays import ArrayRows
from setpoint.data.rows import Block, RowSource
from setpoint.data.sampling import PrioritySample, Sample, SamplingWeights
from setpoint.data.splits import TRAINING, VALIDATION, SplitRule, has_validation, rule_key
from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal, check_plain
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.histogram import EdgeCut, ScoreHistogram
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.stream import stream_threshold
from setpoint.thresholds.sweep import Ranking
from setpoint.training.bundle import Bundle
from setpoint.training.models import scores_of
from setpoint.training.problem import Problem, fingerprint_of


@renamed_parameters(parting="split")
@dataclass(frozen=True)
class StreamProblem:
    """A problem for solvers that read rows in blocks.

    Attributes
    ----------
    source : RowSource
        The rows.
    goal : Goal
        What to train for.
    split : callable, optional
        Which of them are training and which validation rows; without it all are training rows.
    validation : RowSource, optional
        Further rows, for validation.
    transform : callable, optional
        Applied to features before a model gets them.
    device : torch.device
        Where the models are.
    shards : int
        The least number of parts in which sums are computed; each process has some of them. The
        result depends on their number and not on that of the processes.
    ranking : Cautious or None
        The ranking of thresholds on the validation rows; None: by the goal.
    in_memory : Problem or None
        The same problem, if its rows are in memory. It is required of a goal that names amounts,
        segments or periods: it finds the exact thresholds, and its goals are bound to the rows.
    """

    source: RowSource
    goal: Goal
    split: SplitRule | None = None
    validation: RowSource | None = None
    transform: Callable[[Tensor], Tensor] | None = None
    device: torch.device | str = "cpu"
    shards: int = 1
    ranking: Cautious | None = None
    in_memory: Problem | None = None

    def __post_init__(self) -> None:
        if self.in_memory is None:
            check_goal(self.goal)
        start_gradients(self.device)

    @property
    def evaluation_goal(self) -> Goal:
        """The goal on the rows on which models are compared."""
        return self.goal if self.in_memory is None else self.in_memory.evaluation_goal

    @property
    def has_validation(self) -> bool:
        """Whether models are compared on validation rows instead of the training rows."""
        return self.validation is not None or has_validation(self.split)

    judged_apart = renamed_property("judged_apart", "has_validation")

    def blocks(self) -> Iterator[tuple[Block, Tensor]]:
        """Yield this process's blocks, features ready for models, with the split of each row."""
        shape: torch.Size | None = None
        for block, validating in self._every_block():
            if len(block):
                shape = block.X.shape[1:] if shape is None else shape
                _check_shape(block, shape, validating)
            if validating:
                part = torch.full_like(block.number, VALIDATION)
            elif self.split is None:
                part = torch.zeros_like(block.number)
            else:
                part = self.split(block)
            yield self._ready(block), part.to(self.device)

    def _every_block(self) -> Iterator[tuple[Block, bool]]:
        """Yield the blocks, and whether they come from the validation source."""
        for block in self._shards_of(self.source):
            yield block, False
        if self.validation is not None:
            for block in self._shards_of(self.validation):
                yield block, True

    def _shards_of(self, source: RowSource) -> Iterator[Block]:
        rank, world = rank_and_world_size()
        shards = world if getattr(source, "by_process", False) else self.shard_count
        for shard in range(rank, shards, world):
            for block in source.blocks(shard, shards):
                yield replace(block, shard=shard)

    @property
    def shard_count(self) -> int:
        """The number of shards, a multiple of the number of processes."""
        _, world = rank_and_world_size()
        if getattr(self.source, "by_process", False):
            return world
        return -(-self.shards // world) * world

    def row_shape(self) -> torch.Size:
        """Return the shape of one row's features."""
        return self.first_rows().shape[1:]

    def first_rows(self) -> Tensor:
        """Return the features of this process's first block."""
        for block, _ in self.blocks():
            if len(block):
                return block.X
        raise SetpointError("this process has no rows; use fewer processes.")

    def part(self, *wanted: int) -> Iterator[Block]:
        """Yield the rows of some splits, e.g. ``TRAINING``."""
        for block, part in self.blocks():
            rows = torch.isin(part, torch.tensor(wanted, device=part.device))
            yield block if rows.all() else block.rows(rows)

    def operating_point(self, module: nn.Module) -> OperatingPoint:
        """Return the module's operating point at its exact threshold.

        It is that on the validation rows or, without any, on the training rows.
        """
        if not self.goal.is_plain:
            assert self.in_memory is not None
            return self.in_memory.evaluation.operating_point(module)
        split, on = self.evaluation

        def scan() -> Iterator[tuple[Any, Any, Any]]:
            for block in self.part(split):
                scores = scores_of(module, block.X).float().cpu().numpy()
                yield block.positive.cpu().numpy(), scores, block.weight.cpu().numpy()

        return stream_threshold(scan, self.goal, on=on, ranking=self.ranking)

    @property
    def evaluation(self) -> tuple[int, str]:
        """The split on which models are compared, and what to call its rows."""
        if self.has_validation:
            return VALIDATION, "the validation rows"
        return TRAINING, "the training rows"

    def _ready(self, block: Block) -> Block:
        here = block.to(self.device)
        return here if self.transform is None else replace(here, X=self.transform(here.X))

    def fingerprint(self) -> str:
        """Return a digest of data and goal, which identifies the problem in a checkpoint."""
        known = [self.source.fingerprint(), rule_key(self.split)]
        if self.validation is not None:
            known.append(self.validation.fingerprint())
        if self.ranking is not None:
            known.append(f"caution {self.ranking.caution} {self.ranking.row_weights}")
        return fingerprint_of(self.goal, [text.encode() for text in known])


def check_goal(goal: Goal) -> None:
    """Raise GoalError for a goal that training on a stream does not support."""
    check_plain(
        goal,
        "training on a stream",
        "use SetpointClassifier.fit on rows in memory, or train on the stream for another goal and "
        "choose the threshold for this one with SetpointThreshold",
    )


def _check_shape(block: Block, shape: torch.Size, validating: bool) -> None:
    if block.X.shape[1:] != shape:
        of = "validation row" if validating else "row"
        raise SetpointError(
            f"{of} {int(block.number[0]):,} has features of the shape {tuple(block.X.shape[1:])}, "
            f"and the first row of {tuple(shape)}; all rows must have the same."
        )


@dataclass(frozen=True)
class Totals:
    """Numbers of training and validation rows with weight, and the weight of the former.

    Each is (positives, negatives). With several tallies, a weight is a list, one number for each.
    """

    training: tuple[int, int]
    training_weight: tuple[Any, Any]
    judging: tuple[int, int]  # validation rows; the name is that of checkpoints

    @property
    def counts(self) -> tuple[Any, Any]:
        """P and N of the training rows: numbers, or arrays over the tallies."""
        P, N = self.training_weight
        return (np.array(P), np.array(N)) if isinstance(P, list) else (P, N)


class Counter:
    """Counts the rows of blocks, in several tallies if there are more than one.

    Sums in several tallies are those of ``shards``, added in their order.
    """

    def __init__(self, tallies: int = 1, shards: int = 1) -> None:
        self._rows = torch.zeros(2, 2, dtype=torch.int64)
        self._weights = torch.zeros(2, dtype=torch.float64)
        self._tallied = torch.zeros(shards, 2, tallies, dtype=torch.float64)

    def add(self, block: Block, part: Tensor) -> None:
        """Count the rows of a block."""
        weighty = block.weight > 0
        for label, own in enumerate((block.positive & weighty, ~block.positive & weighty)):
            for i, which in enumerate((TRAINING, VALIDATION)):
                self._rows[i, label] += int((own & (part == which)).sum())
            trained = own & (part == TRAINING)
            self._weights[label] += float(block.weight[trained].sum())
            if block.factors is not None and bool(trained.any()):
                counted = block.weight[trained].double() @ block.factors[trained].double()
                self._tallied[block.shard, label] += counted.cpu()

    def totals(self, has_validation: bool) -> Totals:
        """Return the totals of all processes; raise SetpointError if a class has no rows."""
        all_reduce_sum(self._rows, self._weights, self._tallied)
        (P, N), (validation_P, validation_N) = self._rows.tolist()
        needed = [(P, "positive training"), (N, "negative training")]
        if has_validation:
            needed += [(validation_P, "positive validation")]
            needed += [(validation_N, "negative validation")]
        for found, what in needed:
            if found == 0:
                raise SetpointError(f"there are no {what} rows; both classes are needed.")
        several = self._tallied.shape[2] > 1
        tallied = sum(self._tallied, torch.zeros(()))
        weight_P, weight_N = (tallied if several else self._weights).tolist()
        return Totals((P, N), (weight_P, weight_N), (validation_P, validation_N))


def stream_of(problem: Problem) -> StreamProblem:
    """Return a problem in memory as a stream, for solvers that read streams."""
    ranking = problem.evaluation.ranking
    return StreamProblem(
        _rows(problem),
        problem.goal,
        validation=None if problem.validation is None else _rows(problem.validation),
        device=problem.X.device,
        ranking=ranking if isinstance(ranking, Cautious) else None,
        in_memory=problem,
    )


def _rows(problem: Problem) -> RowSource:
    rows = ArrayRows(problem.X, problem.positive, sample_weight=problem.sample_weight)
    return rows if problem.factors is None else _TalliedRows(rows, problem.factors.double())


@dataclass(frozen=True)
class _TalliedRows:
    """Rows in memory with their factors in each tally of a goal."""

    rows: ArrayRows
    factors: Tensor

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        for block in self.rows.blocks(shard, shards):
            yield replace(block, factors=self.factors[block.number.to(self.factors.device)])

    def fingerprint(self) -> str:
        """Return a digest of all values."""
        digest = hashlib.sha256(self.rows.fingerprint().encode())
        digest.update(self.factors.cpu().contiguous().numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True)
class SplitScores:
    """Histograms of the scores of k models on the rows of one split.

    Scores are measured from ``shift``, the thresholds as far as they were known before.
    """

    scores: ScoreHistogram
    shift: Tensor

    def cuts(self, goal: Ranking) -> list[EdgeCut]:
        """Return each model's best cut among the histogram's edges.

        Its counts are exact. A threshold between two edges may be better by the rows between them,
        which are very few near the shift.
        """
        found = zip(self.shift.tolist(), self.scores.best(goal), strict=True)
        return [cut._replace(threshold=shift + cut.threshold) for shift, cut in found]

    def points(self, goal: Goal, on: str, ranking: Cautious | None = None) -> list[OperatingPoint]:
        """Return each model's operating point at its best cut."""
        P, N = self.scores.totals()
        points = [
            OperatingPoint.of_counts(threshold, tp, fp, P, N, goal, on)
            for threshold, tp, fp in self.cuts(ranking or goal)
        ]
        return [replace(point, ranking=ranking) for point in points]


@dataclass(frozen=True)
class Survey:
    """The outcome of a pass: both splits, which models have not diverged, and a sample if drawn."""

    training: SplitScores
    validation: SplitScores
    alive: list[bool]
    sample: Sample | None

    def points(self, problem: StreamProblem) -> list[OperatingPoint]:
        """Return the models' operating points on the rows on which they are compared."""
        split, on = problem.evaluation
        seen = self.validation if split == VALIDATION else self.training
        return seen.points(problem.evaluation_goal, on, problem.ranking)


def survey(
    problem: StreamProblem,
    bundle: Bundle,
    drawing: tuple[PrioritySample, SamplingWeights] | None = None,
) -> Survey:
    """Evaluate models on all rows in one pass, and draw a sample of the training rows if asked."""
    shift = bundle.origins.detach().clone()
    k = len(shift)
    goals = {TRAINING: problem.goal, VALIDATION: problem.evaluation_goal}
    seen = {part: ScoreHistogram(k, len(goal.tallies)) for part, goal in goals.items()}
    dead = torch.zeros(k, dtype=torch.float64)
    for block, part in problem.blocks():
        logits = logits_above(bundle, block.X, shift)
        broken = logits.isnan().any(dim=1)
        dead += broken.double().cpu()
        logits[broken] = 0.0  # a diverged model must not end the training of the others
        for which, histogram in seen.items():
            rows = part == which
            if rows.any():
                everything = bool(rows.all())
                own = logits if everything else logits[:, rows]
                weight = block.weight[rows]
                counts = None if block.factors is None else block.factors[rows] * weight[:, None]
                histogram.add(own, block.positive[rows], weight, counts, block.shard)
        rows = part == TRAINING
        if drawing is not None and rows.any():
            sample, weights = drawing
            own, trained = logits[:, rows], block.rows(rows)
            importance = weights.of_rows(own, trained.positive, trained.factors)
            sample.add(trained, own.T, importance * trained.weight)
    all_reduce_sum(dead)
    alive = [d == 0 for d in dead.tolist()]
    if not any(alive):
        raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
    for histogram in seen.values():
        histogram.all_reduce()
    drawn = None if drawing is None else drawing[0].finish()
    return Survey(
        SplitScores(seen[TRAINING], shift), SplitScores(seen[VALIDATION], shift), alive, drawn
    )


def first_pass(problem: StreamProblem, rows: int, key: tuple[int, ...]) -> tuple[Totals, Sample]:
    """Count all rows in one pass, before there is a model, and draw a sample by class."""
    sample = PrioritySample(rows // 2, rows, key)  # the number of positives is not known yet
    counter = Counter(len(problem.goal.tallies), problem.shard_count)
    for block, part in problem.blocks():
        counter.add(block, part)
        trained = block.rows(part == TRAINING)
        sample.add(
            trained, trained.X.new_empty(len(trained), 0, dtype=torch.float32), trained.weight
        )
    return counter.totals(problem.has_validation), sample.finish()


def scores_on(logits: Tensor, sample: Sample, bundle: Bundle) -> SplitScores:
    """Return the histograms of models with these logits (k, m) on a sample."""
    logits = logits.clone()
    logits[logits.isnan().any(dim=1)] = 0.0
    counts, tallies = None, 1
    if sample.factors is not None:
        tallies = sample.factors.shape[1]
        counts = round_to_16_bits(sample.factors * sample.weight[:, None])
    rank, _ = rank_and_world_size()
    histogram = ScoreHistogram(len(logits), tallies)
    # Weights of few bits add up exactly, in whatever order the processes are added.
    histogram.add(logits, sample.positive, round_to_16_bits(sample.weight), counts, rank)
    histogram.all_reduce()
    return SplitScores(histogram, bundle.origins.detach().clone())


def logits_above(bundle: Bundle, X: Tensor, shift: Tensor) -> Tensor:
    """Return scores (k, m) measured from the shift, in float32."""
    scores = bundle.scores(X)
    return (scores - shift.to(scores)[:, None]).float()

"""The stochastic solver at work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.models import is_linear, scores_of
from setpoint.operating_point import OperatingPoint
from setpoint.solvers.base import Progress
from setpoint.solvers.bundle import make_bundle
from setpoint.solvers.candidates import Contender, standing
from setpoint.solvers.columns import columns_from, start_of
from setpoint.solvers.descent import Counts, Descent
from setpoint.solvers.ordinary import best_of, ordinary_models
from setpoint.solvers.patience import Patience
from setpoint.solvers.penalised import Penalised
from setpoint.solvers.problem import make_problem
from setpoint.solvers.sharded import ShardedWork
from setpoint.streams.batches import paced_batches
from setpoint.streams.nearness import Nearness
from setpoint.streams.parts import JUDGING, TRAINING
from setpoint.streams.problem import StreamProblem, Totals
from setpoint.streams.sample import PrioritySample, Sample, whole
from setpoint.streams.survey import Seen, Survey, first_look, logits_above, see, survey
from setpoint.streams.threshold import stream_threshold
from setpoint.streams.together import from_first, is_first, take_means

if TYPE_CHECKING:
    from setpoint.solvers.stochastic import Stochastic

_MEMORY_OF_COUNTS = 4.0  # the running counts forget a sample in a quarter of the steps to see it
_SAMPLED_NUMBERS, _MOST_SAMPLED = 2**25, 2**18  # 128 MiB in float32, but not for few features
_LEAST_SAMPLED, _LARGEST_SAMPLE = 20_000, 2**28  # rows, unless these make more than 1 GiB
_MOST_JUDGED = {True: 16, False: 4}  # ordinary models, linear or not, that all rows judge


class StochasticRun:
    """Mini-batches at work on a bundle of models."""

    together = True  # with the other processes of torch's group, where there are some

    def __init__(self, solver: Stochastic, problem: StreamProblem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        assert solver.inner_iterations is not None  # it is settled
        assert solver.batch_size is not None
        self._steps, self._batch_size = solver.inner_iterations, solver.batch_size
        self._ordinary: list[Contender] = []
        self._names: list[str] = []
        self._starts: list[str] = []
        self._relaxed: list[bool] = []
        self._descent: Descent
        self._counts: Counts  # of the last look; during steps they follow these
        self._seed, self._features = 0, 0
        self._drawn: dict[str, Any] | None = None  # of what the sample was drawn; None: by class
        self._patience = Patience(solver.patience)

    # --- the start --------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily on a sample and start the bundle from there."""
        self._seed = from_first(int(torch.randint(2**31, (1,))))
        self._features = self.problem.row_shape().numel()
        self._totals, sample = first_look(self.problem, self._rows, (self._seed, 0))
        kinds = self._ordinary_models(whole(sample))
        self._ordinary = list(chain.from_iterable(kinds))
        bundle = make_bundle(self.module, [c.weights for c in self._ordinary])
        points = self._judged(survey(self.problem, bundle))
        self._ordinary = [c._replace(point=p) for c, p in zip(self._ordinary, points, strict=True)]
        goal = self.problem.goal
        by_name = {c.name: c for c in self._ordinary}
        best = [best_of(by_name[c.name] for c in kind) for kind in kinds]
        columns = columns_from(self.solver, self.module, goal, best, [best_of(self._ordinary)])
        if take is not None:  # from whichever start it took
            every = columns_from(self.solver, self.module, goal, self._ordinary, self._ordinary)
            columns = [c for c in every if c.name == take] or columns
        self._names = [c.name for c in columns]
        self._relaxed = [c.relaxed for c in columns]
        self._starts = [c.start.name for c in columns]
        starts = [start_of(c, self.solver, self._seed) for c in columns]
        self._make_descent(starts, [c.nearness for c in columns])
        self._locate(sample)
        return self._progress()

    def _ordinary_models(self, rows: Sample) -> list[list[Contender]]:
        """Return ordinary models by kind, trained on a sample; the best of them, if many.

        One process trains them for all: several might round differently.
        """
        if not is_first():
            return list(from_first(None))
        problem = make_problem(
            rows.X,
            rows.positive.to(rows.X.device),
            self.problem.goal,
            rows.weight.to(rows.X.device),
            on="a sample of the training data",
        )
        if self.solver.start == "given":
            weights = {k: v.clone() for k, v in self.module.state_dict().items()}
            point = problem.operating_point(self.module)
            return list(from_first([[Contender("the start", point, weights)]]))
        kinds = ordinary_models(problem, self.module)
        most = _MOST_JUDGED[is_linear(self.module)] // len(kinds)
        return list(from_first([_best(kind, most) for kind in kinds]))

    @property
    def _rows(self) -> int:
        usual = min(_SAMPLED_NUMBERS // self._features, _MOST_SAMPLED)
        least = min(_LEAST_SAMPLED, max(1, _LARGEST_SAMPLE // self._features))
        return self.solver.rows or max(usual, least)

    def _make_descent(self, starts: list[dict[str, Any]], nearness: list[float]) -> None:
        solver = self.solver
        self._descent = Descent(
            solver,
            [self.problem.goal] * len(starts),
            self._totals.training_weight,
            self.module,
            starts,
            nearness,
            solver.lr or usual_rate(self.module, self._features),
            solver.outer_iterations * self._steps,
        )

    # --- an outer iteration -----------------------------------------------------------------

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps on batches of the sample, then look at all rows."""
        self._ordinary = []
        self._take_steps(iteration)
        take_means(self._descent.bundle.buffers)  # what BatchNorm has seen, e.g.
        self._locate(self._sample)
        shift = self._descent.bundle.origins.detach().clone()
        self._drawn = {"iteration": iteration, "shift": shift, "nearness": self._nearness}
        del self._sample, self._sign  # two samples need not be in memory
        seen = self._survey(self._drawn)
        self._alive = seen.alive
        self._set_origins(seen.training)
        self._use_shifted(seen, self._descent.bundle.origins)
        self._points = self._judged(seen)
        best = max(self.contenders(), key=lambda c: standing(c.point)).point
        return self._progress()._replace(done=self._patience.ends_at(best))

    def _take_steps(self, iteration: int) -> None:
        solver, sample, descent = self.solver, self._sample, self._descent
        size = min(self._batch_size, sum(self._totals.training))
        work = ShardedWork(descent.bundle, self.problem.shard_count)
        importance = torch.empty_like(sample.weight)
        for own in work.split(sample.shard).values():  # by shards, as in _logits
            logits, positive = sample.logits[own].T, sample.positive[own]
            importance[own] = self._nearness.importance(logits, positive)
        key = (self._seed, iteration, 1)
        batches = paced_batches(sample, importance, size, solver.positives, key)
        was_right = (sample.logits.T * self._sign > 0).to(descent.bundle.origins)
        begun = self._counts
        keep = max(0.0, 1 - _MEMORY_OF_COUNTS * size / min(self._rows, sum(self._totals.training)))
        for rows, weight in islice(batches, self._steps):
            shards = work.split(sample.shard[rows])
            batch_of, change = {}, {}
            for shard, own in shards.items():
                here, w = rows[own], weight[own]
                batch = descent.batch(sample.X[here], self._sign[here], w)
                margins = descent.margins(batch)
                # What has changed since the look, by this batch: most rows have not, so that its
                # estimate has less chance in it than that of the counts.
                turned = (margins > 0).to(was_right) - was_right[:, here]
                change[shard] = ((turned * w.to(turned)) @ batch.classes.T).double()
                batch_of[shard] = batch, margins, descent.bundle.last
            right = work.total(change).cpu().numpy()
            tp, fp = self._counts
            self._counts = Counts(
                np.clip(keep * tp + (1 - keep) * (begun.tp + right[:, 0]), 0, descent.P),
                np.clip(keep * fp + (1 - keep) * (begun.fp - right[:, 1]), 0, descent.N),
            )
            descent.follow(self._counts)
            for shard, (batch, margins, last) in batch_of.items():
                descent.bundle.last = last
                descent.push(batch, margins, self._counts)
                work.keep_gradients(shard)
            work.set_gradients()
            descent.step()

    def _survey(self, drawn: dict[str, Any]) -> Survey:
        """Read all rows, and draw a sample near the thresholds."""
        positives = min(self._totals.training[0], self._rows // 2)
        key = (self._seed, drawn["iteration"])
        sample = PrioritySample(positives, self._rows - positives, key)
        return survey(self.problem, self._descent.bundle, (sample, drawn["nearness"]))

    def _use_shifted(self, seen: Survey, origins: Tensor) -> None:
        """Train on a survey's sample, with its logits measured from these origins."""
        assert seen.sample is not None
        logits = seen.sample.logits
        moved = (origins - seen.training.shift).to(logits)
        self._use(replace(seen.sample, logits=logits - moved))

    def _locate(self, sample: Sample) -> None:
        """Find the models' thresholds as far as a sample can tell, and train on it from there."""
        bundle = self._descent.bundle
        self._set_origins(see(self._logits(sample), sample, bundle))
        self._use(replace(sample, logits=self._logits(sample).T))

    def _logits(self, sample: Sample) -> Tensor:
        """Return logits (k, m) above the origins, by shards: other sizes would round otherwise."""
        bundle = self._descent.bundle
        like = bundle.origins.float()
        found = like.new_empty(len(like), len(sample))
        for own in ShardedWork(bundle, self.problem.shard_count).split(sample.shard).values():
            found[:, own] = logits_above(bundle, sample.X[own], bundle.origins)
        return found

    def _use(self, sample: Sample) -> None:
        broken = sample.logits.isnan().any(dim=0)  # a diverged model is near to no row
        self._sample = sample = replace(sample, logits=sample.logits.masked_fill(broken, 0.0))
        self._sign = torch.where(sample.positive, 1.0, -1.0).to(sample.logits)
        assert self.solver.near is not None
        seen = see(sample.logits.T, sample, self._descent.bundle)
        self._nearness = Nearness.of(seen.scores, self.solver.near)

    def _set_origins(self, seen: Seen) -> None:
        """Make each model's threshold on the training rows the origin of its logits.

        A relaxed model may break the goal on its way; lambda weighs what it breaks.
        """
        goal = self.problem.goal
        strict, loose = seen.cuts(goal), seen.cuts(Penalised(goal, self._descent.lam))
        cuts = [b if r else a for a, b, r in zip(strict, loose, self._relaxed, strict=True)]
        origins = torch.tensor([c.threshold for c in cuts], dtype=torch.float64)
        self._descent.bundle.origins.copy_(origins)
        self._counts = Counts(np.array([c.tp for c in cuts]), np.array([c.fp for c in cuts]))

    def _judged(self, seen: Survey) -> list[OperatingPoint]:
        if self._totals.judging == (0, 0):
            return seen.training.points(self.problem.goal, "the training data")
        return seen.judging.points(self.problem.goal, "the validation data")

    def _progress(self) -> Progress:
        """Return lambda and the least loss of all models, as the sample has it."""
        sample, descent = self._sample, self._descent
        like = descent.bundle.origins
        classes = torch.stack([sample.positive, ~sample.positive]).to(like)
        margins = sample.logits.T.to(like) * self._sign.to(like)
        share = sample.weight / descent.P
        work = ShardedWork(descent.bundle, self.problem.shard_count)
        losses = {
            shard: descent.losses(margins[:, own], classes[:, own], share[own], self._counts)
            for shard, own in work.split(sample.shard).items()
        }
        total = work.total({shard: found[:, None] for shard, found in losses.items()}, 1)
        return Progress(descent.lam, float(total.min()))

    def contenders(self) -> list[Contender]:
        """Return the ordinary models at the start, and the goal-trained ones after it."""
        if self._ordinary:
            return self._ordinary
        bundle = self._descent.bundle
        return [
            Contender(name, self._points[k], bundle.weights(k), self._starts[k])
            for k, name in enumerate(self._names)
            if self._alive[k]
        ]

    def exact_point(self) -> OperatingPoint:
        """Return what the module does at its exact threshold on the rows that judge."""
        judging = self._totals.judging != (0, 0)
        part, on = (JUDGING, "the validation data") if judging else (TRAINING, "the training data")

        def scan() -> Iterator[tuple[Any, Any, Any]]:
            for block in self.problem.part(part):
                scores = scores_of(self.module, block.X).float().cpu().numpy()
                yield block.positive.cpu().numpy(), scores, block.weight.cpu().numpy()

        return stream_threshold(scan, self.problem.goal, on=on)

    # --- interruption -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the models, how far they are, and from what the sample was drawn."""
        return {
            "names": self._names,
            "starts": self._starts,
            "relaxed": self._relaxed,
            "seed": self._seed,
            "features": self._features,
            "totals": asdict(self._totals),
            "counts": torch.from_numpy(np.array(self._counts)),
            "drawn": self._drawn and {**self._drawn, "nearness": asdict(self._drawn["nearness"])},
            "patience": self._patience.state_dict(),
            **self._descent.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again; the sample is drawn as it was."""
        self._names, self._starts, self._seed = state["names"], state["starts"], state["seed"]
        self._relaxed = state["relaxed"]
        self._features, self._totals = state["features"], Totals(**state["totals"])
        self._patience.load_state_dict(state["patience"])
        k = len(self._names)
        self._make_descent([self.module.state_dict()] * k, [0.0] * k)
        self._descent.load_state_dict(state)
        bundle, drawn = self._descent.bundle, state["drawn"]
        origins = bundle.origins.clone()
        if drawn is None:
            _, sample = first_look(self.problem, self._rows, (self._seed, 0))
            self._use(replace(sample, logits=self._logits(sample).T))
        else:
            bundle.origins.copy_(drawn["shift"])
            drawn = {**drawn, "nearness": Nearness(**drawn["nearness"])}
            self._use_shifted(self._survey(drawn), origins)
            bundle.origins.copy_(origins)
        self._drawn = drawn
        self._counts = Counts(*state["counts"].numpy())


def _best(models: list[Contender], most: int) -> list[Contender]:
    """Return the best of them, in their order."""
    ranks = sorted((standing(c.point) for c in models), reverse=True)
    return [c for c in models if standing(c.point) >= ranks[min(most, len(ranks)) - 1]]


def usual_rate(module: nn.Module, n_features: int) -> float:
    """Return a learning rate: steps on batches are noisy, and a fifth of that on all rows."""
    return 0.02 * min(1.0, 100 / n_features) if is_linear(module) else 2e-3

"""The projected solver on mini-batches, for rows that need not fit in memory or on one machine.

Each outer iteration is one pass over all rows (:mod:`setpoint.training.stream_problem`). It finds
the models' thresholds and counts and draws a sample for the steps until the next pass.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint._internal.processes import all_reduce_mean, broadcast, is_main_process
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import check_fraction
from setpoint.data.sampling import PrioritySample, Sample, SamplingWeights, batches, gather_sample
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.bundle import FEW, ShardedSums, make_bundle
from setpoint.training.candidates import TrainedModel, best_of
from setpoint.training.descent import Counts, Descent, by_class, classes_of, usual_rate
from setpoint.training.gpu import sizes_for
from setpoint.training.history import Patience
from setpoint.training.loop import Progress, check_parameters
from setpoint.training.models import is_linear
from setpoint.training.ordinary import start_of, starting_models, variants_of
from setpoint.training.problem import Penalised, Problem, make_problem
from setpoint.training.stream_problem import (
    SplitScores,
    StreamProblem,
    Survey,
    Totals,
    first_pass,
    logits_above,
    scores_on,
    stream_of,
    survey,
)


@renamed_parameters(nearness="proximity")
@dataclass(frozen=True)
class Stochastic:
    """Minimise what :class:`setpoint.training.Projected` does, in steps on mini-batches.

    Every pass reads all rows once. It finds the models' thresholds and counts, and draws a sample:
    of each class more rows near the thresholds, with inverse weights, so that it represents all
    rows without bias. Steps between two passes take batches from that sample. Prices follow running
    estimates of the counts, corrected at every pass; the multipliers follow these.

    Parameters
    ----------
    lam0, lam_max : float
        First and last lambda.
    gamma : float or tuple of float
        Strengths of the regulariser psi. The first is that of all models but one for each start,
        without proximity, for every further one.
    outer_iterations : int
        Passes over all rows, at most.
    inner_iterations : int or None
        Steps of Adam between two passes. None: 120 for a linear model, 240 for any other.
    batch_size : int or None
        Rows in a step, about. None: 16,384 for a linear model, 8,192 for any other.
    lr : float or None
        Adam's learning rate, which falls to zero on a cosine over the run. None: for a linear model
        0.02, and less with more than 100 features; 2e-3 for any other.
    dual_rate : float or None
        Step size of the multipliers: one step changes them by a factor of at most exp(dual_rate).
        None: 0.1
        for a linear model, 0.015 for any other.
    near : float or None
        The distance from a threshold within which rows are drawn more often, as a fraction of the
        class's median distance. None: 0.02 for a linear model, 0.1 for any other.
    positives : float
        The fraction of positives in a batch, if there are that many.
    proximity : tuple of float
        Strengths of the regularisation towards the start, 0 for none; a model is trained for each.
    restarts : int
        Further models from perturbed starts, for linear models only.
    spread : float
        Size of the largest perturbation, relative to the start.
    relaxed : bool
        Whether, where the goal has constraints, a further model for each start may violate them
        while it trains.
    start : {"logistic", "given"}
        Where models start: after ordinary training on a sample, or at the module's own weights.
    rows : int or None
        Size of the sample, which is held in memory. None: 2^18 or, if that is less, 128 MiB of
        features; but at least 20,000 or, if that is less, 1 GiB of features.
    shards : int or None
        In how many parts a step is computed, rounded up to a multiple of the number of processes.
        The result depends on this number and not on that of the processes, except for modules with
        BatchNorm or dropout. None: 4 on CPUs, so that 1, 2 and 4 processes have 4, and 3 have 6; on
        GPUs one for each process, so that results differ. Set the number to compare runs.
    patience : int or None
        Training ends after so many passes without a gain of more than a tenth of the objective's
        standard error. None: after the last pass.
    """

    lam0: float = 1.0
    lam_max: float = 1000.0
    gamma: float | tuple[float, ...] = 0.1
    outer_iterations: int = 15
    inner_iterations: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    dual_rate: float | None = None
    near: float | None = None
    positives: float = 0.25
    proximity: tuple[float, ...] = (0.0, 1.0)
    restarts: int = 2
    spread: float = 1.0
    relaxed: bool = True
    start: Literal["logistic", "given"] = "logistic"
    rows: int | None = None
    shards: int | None = None
    patience: int | None = None

    reads_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_parameters(
            self,
            choices={"start": ("logistic", "given")},
            positive=("lam0", "lam_max", "lr", "dual_rate", "near"),
            not_negative=("outer_iterations", "gamma", "spread", "restarts", "proximity"),
            least={"inner_iterations": 1, "batch_size": 2, "rows": 2, "patience": 1, "shards": 1},
        )
        check_fraction(self.positives, "positives")

    @property
    def gammas(self) -> tuple[float, ...]:
        """``gamma`` as a tuple."""
        return self.gamma if isinstance(self.gamma, tuple) else (self.gamma,)

    def prepare(self, problem: Problem | StreamProblem, module: nn.Module) -> StochasticRun:
        """Return a run. Supports every goal."""
        stream = stream_of(problem) if isinstance(problem, Problem) else problem
        stream = replace(stream, shards=self.shards or sizes_for(stream.device).shards)
        return StochasticRun(self.settle_for(module), stream, module)

    def settle_for(self, module: nn.Module) -> Stochastic:
        """Return the solver with numbers in place of None, as they suit the model."""
        linear = is_linear(module)
        return replace(
            self,
            inner_iterations=self.inner_iterations or (120 if linear else 240),
            batch_size=self.batch_size or (16_384 if linear else 8_192),
            near=self.near or (0.02 if linear else 0.1),
            dual_rate=self.dual_rate or (0.1 if linear else 0.015),
        )


_MEMORY_OF_COUNTS = 4.0  # running counts forget a sample in a quarter of the steps that read it
_SAMPLED_NUMBERS, _MOST_SAMPLED = 2**25, 2**18  # 128 MiB in float32, but not for few features
_LEAST_SAMPLED, _LARGEST_SAMPLE = 20_000, 2**28  # rows, unless these make more than 1 GiB
_MOST_EVALUATED = {
    True: 16,
    False: 4,
}  # ordinary models, linear or not, evaluated on all rows


class StochasticRun:
    """The stochastic solver at work on a bundle of models."""

    distributed = True  # over the processes of torch's default group, if there is one

    def __init__(self, solver: Stochastic, problem: StreamProblem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        assert solver.inner_iterations is not None  # it is settled
        assert solver.batch_size is not None
        self._steps, self._batch_size = solver.inner_iterations, solver.batch_size
        self._ordinary: list[TrainedModel] = []
        self._names: list[str] = []
        self._starts: list[str] = []
        self._relaxed: list[bool] = []
        self._descent: Descent
        self._counts: Counts  # at the last pass, and running estimates during steps
        self._seed, self._features = 0, 0
        self._drawn: dict[str, Any] | None = None  # how the sample was drawn; None: by class
        self._patience = Patience(solver.patience)

    # --- the start --------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily on a sample and start the variants from there."""
        self._seed = broadcast(int(torch.randint(2**31, (1,))))
        self._features = self.problem.row_shape().numel()
        self._totals, sample = first_pass(self.problem, self._rows, (self._seed, 0))
        kinds = self._ordinary_models(gather_sample(sample), take)
        self._ordinary = list(chain.from_iterable(kinds))
        bundle = make_bundle(self.module, [model.weights for model in self._ordinary])
        points = iter(survey(self.problem, bundle).points(self.problem))  # on all rows
        kinds = [[model._replace(point=next(points)) for model in kind] for kind in kinds]
        self._ordinary = list(chain.from_iterable(kinds))
        variants = variants_of(self.solver, self.module, self.problem.goal, kinds, take)
        self._names = [v.name for v in variants]
        self._relaxed = [v.relaxed for v in variants]
        self._starts = [v.start.name for v in variants]
        starts = [start_of(v, self.solver, self._seed) for v in variants]
        self._begin(starts, [v.proximity for v in variants], [v.gamma for v in variants])
        self._locate(sample)
        return self._progress()

    def _ordinary_models(self, rows: Sample, take: str | None) -> list[list[TrainedModel]]:
        """Return the best ordinary models by kind, trained on a sample.

        The first process trains them for all: others might round differently.
        """
        if not is_main_process():
            return list(broadcast(None))
        problem = make_problem(
            rows.X,
            rows.positive.to(rows.X.device),
            self.problem.goal,
            rows.weight.to(rows.X.device),
            on="a sample of the training rows",
            factors=rows.factors,
        )
        (kinds,) = starting_models(self.solver.start, [problem], self.module, take, thorough=False)
        most = _MOST_EVALUATED[is_linear(self.module)] // len(kinds)
        return list(broadcast([_best(kind, most) for kind in kinds]))

    @property
    def _rows(self) -> int:
        usual = min(_SAMPLED_NUMBERS // self._features, _MOST_SAMPLED)
        least = min(_LEAST_SAMPLED, max(1, _LARGEST_SAMPLE // self._features))
        return self.solver.rows or max(usual, least)

    def _begin(
        self, starts: list[dict[str, Any]], proximity: list[float], gamma: list[float]
    ) -> None:
        solver, totals = self.solver, self._totals.counts
        # Steps on batches are noisy: a fifth of the projected solver's rate for a linear model.
        lr = solver.lr or usual_rate(self.module, self._features, linear=0.02)
        steps = solver.outer_iterations * self._steps
        # The same rows in all processes, so that all have the same kind of bundle.
        rows = broadcast(self.problem.first_rows()[:FEW].clone())
        self._descent = Descent(
            self.problem.goal,
            solver,
            totals,
            self.module,
            starts,
            proximity,
            gamma,
            lr,
            steps,
            rows,
        )

    # --- an outer iteration -----------------------------------------------------------------

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps on batches of the sample, then pass over all rows."""
        self._ordinary = []
        self._take_steps(iteration)
        all_reduce_mean(self._descent.bundle.buffers)  # e.g. BatchNorm's running means
        self._locate(self._sample)
        shift = self._descent.bundle.origins.detach().clone()
        self._drawn = {"iteration": iteration, "shift": shift, "nearness": self._sampling_weights}
        del self._sample, self._sign  # two samples are never in memory
        seen = self._survey(self._drawn)
        self._alive = seen.alive
        self._set_origins(seen.training)
        self._use_shifted(seen, self._descent.bundle.origins)
        self._points = seen.points(self.problem)
        done = self._patience.ends_at(best_of(self.models()).point)
        return self._progress()._replace(done=done)

    def _take_steps(self, iteration: int) -> None:
        solver, sample, descent = self.solver, self._sample, self._descent
        size = min(self._batch_size, sum(self._totals.training))
        work = ShardedSums(descent.bundle, self.problem.shard_count)
        importance = torch.empty_like(sample.weight)
        for own in work.split(sample.shard).values():  # by shards, as in _logits
            logits, positive = sample.logits[own].T, sample.positive[own]
            factors = None if sample.factors is None else sample.factors[own]
            importance[own] = self._sampling_weights.of_rows(logits, positive, factors)
        key = (self._seed, iteration, 1)
        drawn = batches(sample, importance, size, solver.positives, key)
        was_right = (sample.logits.T * self._sign > 0).to(descent.bundle.origins)
        begun = self._counts
        keep = max(0.0, 1 - _MEMORY_OF_COUNTS * size / min(self._rows, sum(self._totals.training)))
        for rows, weight in islice(drawn, self._steps):
            shards = work.split(sample.shard[rows])
            batch_of, change = {}, {}
            for shard, own in shards.items():
                here, w = rows[own], weight[own]
                factors = None if sample.factors is None else sample.factors[here]
                batch = descent.batch(sample.X[here], self._sign[here], w, factors)
                margins = descent.margins(batch)
                # The batch estimates what has changed since the pass. Most decisions have not, so
                # that this varies less than an estimate of the counts themselves.
                turned = (margins > 0).to(was_right) - was_right[:, here]
                change[shard] = ((turned * w.to(turned)) @ batch.classes.T).double()
                batch_of[shard] = batch, margins, descent.bundle.last
            tallies = len(descent.goal.tallies)
            more_tp, fewer_fp = by_class(work.total(change, 2 * tallies).cpu().numpy())
            tp, fp = self._counts
            P, N = (total[:, None] if np.ndim(total) else total for total in (descent.P, descent.N))
            self._counts = Counts(
                np.clip(keep * tp + (1 - keep) * (begun.tp + more_tp), 0, P),
                np.clip(keep * fp + (1 - keep) * (begun.fp - fewer_fp), 0, N),
            )
            descent.update_multipliers(self._counts)
            for shard, (batch, margins, last) in batch_of.items():
                descent.bundle.last = last
                descent.push(batch, margins, self._counts)
                work.keep_gradients(shard)
            work.set_gradients()
            descent.step()

    def _survey(self, drawn: dict[str, Any]) -> Survey:
        """Pass over all rows, and draw a sample near the thresholds."""
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
        """Estimate the models' thresholds from a sample, and train on it from there."""
        bundle = self._descent.bundle
        self._set_origins(scores_on(self._logits(sample), sample, bundle))
        self._use(replace(sample, logits=self._logits(sample).T))

    def _logits(self, sample: Sample) -> Tensor:
        """Return logits (k, m) above the origins, by shards: other sizes may round differently."""
        bundle = self._descent.bundle
        like = bundle.origins.float()
        found = like.new_empty(len(like), len(sample))
        for own in ShardedSums(bundle, self.problem.shard_count).split(sample.shard).values():
            found[:, own] = logits_above(bundle, sample.X[own], bundle.origins)
        return found

    def _use(self, sample: Sample) -> None:
        broken = sample.logits.isnan().any(dim=0)  # a diverged model has no near rows
        self._sample = sample = replace(sample, logits=sample.logits.masked_fill(broken, 0.0))
        self._sign = torch.where(sample.positive, 1.0, -1.0).to(sample.logits)
        assert self.solver.near is not None
        seen = scores_on(sample.logits.T, sample, self._descent.bundle)
        self._sampling_weights = SamplingWeights.of(seen.scores, self.solver.near)

    def _set_origins(self, seen: SplitScores) -> None:
        """Make each model's threshold on the training rows the origin of its logits.

        For a relaxed model lambda is the price of a violation.
        """
        goal = self.problem.goal
        strict, loose = seen.cuts(goal), seen.cuts(Penalised(goal, self._descent.lam))
        cuts = [b if r else a for a, b, r in zip(strict, loose, self._relaxed, strict=True)]
        origins = torch.tensor([c.threshold for c in cuts], dtype=torch.float64)
        self._descent.bundle.origins.copy_(origins)
        self._counts = Counts(np.array([c.tp for c in cuts]).T, np.array([c.fp for c in cuts]).T)

    def _progress(self) -> Progress:
        """Return lambda and the least loss of all models on the sample."""
        sample, descent = self._sample, self._descent
        like = descent.bundle.origins
        classes = classes_of(sample.positive, like, sample.factors)
        margins = sample.logits.T.to(like) * self._sign.to(like)
        weight = sample.weight / float(descent.goal.plain(descent.P))
        work = ShardedSums(descent.bundle, self.problem.shard_count)
        losses = {
            shard: descent.losses(margins[:, own], classes[:, own], weight[own], self._counts)
            for shard, own in work.split(sample.shard).items()
        }
        total = work.total({shard: found[:, None] for shard, found in losses.items()}, 1)
        return Progress(descent.lam, float(total.min()))

    def models(self) -> list[TrainedModel]:
        """Return the ordinary models at the start, and the goal-trained ones after it."""
        if self._ordinary:
            return self._ordinary
        bundle = self._descent.bundle
        return [
            TrainedModel(name, self._points[k], bundle.weights(k), self._starts[k])
            for k, name in enumerate(self._names)
            if self._alive[k]
        ]

    def exact_point(self) -> OperatingPoint:
        """Return the module's operating point at its exact threshold."""
        return self.problem.operating_point(self.module)

    # --- interruption -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the models, how far they are, and how the sample was drawn."""
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
        """Restore a state; the sample is drawn again as it was."""
        self._names, self._starts, self._seed = state["names"], state["starts"], state["seed"]
        self._relaxed = state["relaxed"]
        self._features, self._totals = state["features"], Totals(**state["totals"])
        self._patience.load_state_dict(state["patience"])
        k = len(self._names)
        self._begin([self.module.state_dict()] * k, [0.0] * k, [0.0] * k)
        self._descent.load_state_dict(state)
        bundle, drawn = self._descent.bundle, state["drawn"]
        origins = bundle.origins.clone()
        if drawn is None:
            _, sample = first_pass(self.problem, self._rows, (self._seed, 0))
            self._use(replace(sample, logits=self._logits(sample).T))
        else:
            bundle.origins.copy_(drawn["shift"])
            drawn = {**drawn, "nearness": SamplingWeights(**drawn["nearness"])}
            self._use_shifted(self._survey(drawn), origins)
            bundle.origins.copy_(origins)
        self._drawn = drawn
        self._counts = Counts(*state["counts"].numpy())


def _best(models: list[TrainedModel], most: int) -> list[TrainedModel]:
    """Return the best of the models, in their order."""
    keys = sorted((model.point.sort_key for model in models), reverse=True)
    return [model for model in models if model.point.sort_key >= keys[min(most, len(keys)) - 1]]

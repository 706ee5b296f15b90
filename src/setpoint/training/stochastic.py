"""The eliminated form on mini-batches: for rows that need not be in memory, nor on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint._internal.processes import all_reduce_mean, broadcast, is_main_process
from setpoint.data.sampling import Nearness, PrioritySample, Sample, paced_batches, whole
from setpoint.data.splits import JUDGING, TRAINING
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.stream import stream_threshold
from setpoint.training.bundle import make_bundle
from setpoint.training.candidates import Contender, standing
from setpoint.training.descent import Counts, Descent
from setpoint.training.loop import Progress
from setpoint.training.models import is_linear, scores_of
from setpoint.training.ordinary import best_of, ordinary_models
from setpoint.training.problem import Penalised, Problem, make_problem
from setpoint.training.sharded import ShardedWork
from setpoint.training.starts import columns_from, start_of
from setpoint.training.stream_problem import StreamProblem, Totals, stream_of
from setpoint.training.survey import Seen, Survey, first_look, logits_above, see, survey


@dataclass(frozen=True)
class Stochastic:
    """Minimise what :class:`setpoint.training.Projected` does, in steps on a few rows each.

    Every look reads all rows once. It finds the models' thresholds and counts, and draws a sample:
    of each class more rows near the thresholds, with inverse weights, so that it stands for all
    rows without bias. Between two looks, steps take batches from that sample. Prices follow running
    estimates of the counts, corrected at every look; the multipliers follow these.

    Parameters
    ----------
    lam0, lam_max : float
        First and last lambda.
    gamma : float
        Strength of the regulariser psi.
    outer_iterations : int
        Looks, at most.
    inner_iterations : int or None
        Steps of Adam between two looks. None: 120 for a linear model, 240 for any other.
    batch_size : int or None
        Rows in a step, about. None: 16,384 for a linear model, 8,192 for any other.
    lr : float or None
        Adam's learning rate, which falls to zero on a cosine over the run. None: for a linear model
        0.02, and less with more than 100 features; 2e-3 for any other.
    dual_rate : float or None
        Step size of the multipliers: in one step they change by at most this factor of e. None: 0.1
        for a linear model, 0.015 for any other.
    near : float or None
        How near to a threshold rows are drawn more often, as a share of the class's median
        distance. None: 0.02 for a linear model, 0.1 for any other.
    positives : float
        The share of positives in a batch, if there are that many.
    nearness : tuple of float
        Strengths of staying near the start, 0 for none; a model is trained for each.
    restarts : int
        Further models from disturbed starts, for linear models only.
    spread : float
        Size of the largest disturbance, relative to the start.
    relaxed : bool
        Whether, where the goal has constraints, a further model for each start may break them on
        its way.
    start : {"logistic", "given"}
        Where models start: after ordinary training on a sample, or at the weights that the module
        brings.
    rows : int or None
        Size of the sample, which is held in memory. None: 2^18, or as many as make 128 MiB of
        features where that is less; but 20,000, or as many as make 1 GiB, where that is more.
    shards : int or None
        In how many parts a step is computed, rounded up to a multiple of the number of processes.
        The result hangs on this number, and not on that of the processes, but for modules with
        BatchNorm or dropout. None: 4 on CPUs, so that 1, 2 and 4 processes have 4, and 3 have 6; on
        GPUs one for each process, so that 1 and 2 differ. Give the number to compare runs.
    patience : int or None
        Training ends when so many looks in a row brought no gain that the rows which judge can
        tell from chance: a tenth of the objective's standard error. None: never before the last.
    """

    lam0: float = 1.0
    lam_max: float = 1000.0
    gamma: float = 0.1
    outer_iterations: int = 15
    inner_iterations: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    dual_rate: float | None = None
    near: float | None = None
    positives: float = 0.25
    nearness: tuple[float, ...] = (0.0, 0.1, 1.0)
    restarts: int = 2
    spread: float = 1.0
    relaxed: bool = True
    start: Literal["logistic", "given"] = "logistic"
    rows: int | None = None
    shards: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.start not in ("logistic", "given"):
            raise ValueError(f"start is one of ('logistic', 'given'), not {self.start!r}.")
        for name in ("lam0", "lam_max", "lr", "dual_rate", "near"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}.")
        if self.outer_iterations < 0:
            raise ValueError("outer_iterations must be >= 0.")
        if not 0 < self.positives < 1:
            raise ValueError("positives must lie between 0 and 1.")
        least = {"inner_iterations": 1, "batch_size": 2, "rows": 2, "patience": 1, "shards": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise ValueError(f"{name} must be None or >= {smallest}, not {value}.")
        if min(self.gamma, self.spread, self.restarts, *self.nearness) < 0 or not self.nearness:
            raise ValueError("gamma, spread, restarts and every nearness must be >= 0.")

    def prepare(self, problem: Problem | StreamProblem, module: nn.Module) -> StochasticRun:
        """Return a run; any goal will do."""
        stream = stream_of(problem) if isinstance(problem, Problem) else problem
        on_gpu = torch.device(stream.device).type == "cuda"
        stream = replace(stream, shards=self.shards or (1 if on_gpu else 4))
        return StochasticRun(self.settle_for(module), stream, module)

    def settle_for(self, module: nn.Module) -> Stochastic:
        """Return the same with numbers in place of None, where these follow from the model."""
        linear = is_linear(module)
        return replace(
            self,
            inner_iterations=self.inner_iterations or (120 if linear else 240),
            batch_size=self.batch_size or (16_384 if linear else 8_192),
            near=self.near or (0.02 if linear else 0.1),
            dual_rate=self.dual_rate or (0.1 if linear else 0.015),
        )


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
        self._seed = broadcast(int(torch.randint(2**31, (1,))))
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
        if not is_main_process():
            return list(broadcast(None))
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
            return list(broadcast([[Contender("the start", point, weights)]]))
        kinds = ordinary_models(problem, self.module)
        most = _MOST_JUDGED[is_linear(self.module)] // len(kinds)
        return list(broadcast([_best(kind, most) for kind in kinds]))

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
        all_reduce_mean(self._descent.bundle.buffers)  # what BatchNorm has seen, e.g.
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


_WORTH_TELLING = 0.1  # standard errors of the objective


class Patience:
    """Counts the looks since the last gain.

    A gain is less violation, or an objective that is better by more than a tenth of its standard
    error on the rows that judge.

    Parameters
    ----------
    looks : int or None
        How many without a gain end a training. None: no number does.

    Examples
    --------
    >>> from setpoint import OFOS
    >>> patience = Patience(2)
    >>> point = OperatingPoint(0.0, 60.0, 40.0, 40.0, 860.0, OFOS())
    >>> [patience.ends_at(point) for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, looks: int | None) -> None:
        self._looks = looks
        self._best: tuple[float, ...] = ()
        self._since = 0

    def ends_at(self, point: OperatingPoint) -> bool:
        """Whether training ends at a look whose best point is this."""
        if not self._best or self._gains(point):
            self._best, self._since = point.rank, 0
        else:
            self._since += 1
        return self._looks is not None and self._since >= self._looks

    def _gains(self, point: OperatingPoint) -> bool:
        rank, best = point.rank, self._best
        if rank[0] != best[0]:
            return rank[0] > best[0]
        return rank[1] > best[1] + _WORTH_TELLING * point.standard_error

    def state_dict(self) -> dict[str, Any]:
        """Return the best rank, and the looks since then."""
        return {"best": self._best, "since": self._since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._best, self._since = state["best"], state["since"]


# DOC of solvers.stochastic_run: The stochastic solver at work.

# DOC of solvers.patience: When a training has nothing more to gain that its rows could tell from chance.

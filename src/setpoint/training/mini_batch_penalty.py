"""The exact penalty as a loss on mini-batches, for any training loop.

With its lifted variables eliminated, the exact penalty is a sum over samples
(:mod:`setpoint.method.capped_loss`): for fixed prices, threshold z_t and lambda

    F = sum_i w_i l_i,        l_i = min( lambda * (1/2 - a_i)_+ + gamma * softplus(-v_i),
                                         price_i + gamma * softplus(v_i) )

with the margin v_i = +-(z_i - z_t), positive where the decision is right, and a_i its sigmoid. A
batch B of m rows, drawn at random, therefore has the loss

    F_B = n/W * 1/m sum_{i in B} w_i l_i,    W = sum_i w_i,

whose mean over all batches is F/W: it is F/W exactly for a batch of all rows. As a mean over rows
its gradients are as large as those of cross-entropy. (In units of the positives, F/P, they would
be W/P times as large. Adam remembers the size of gradients for long, so when the loss changes it
would take steps that destroy a network.) What connects the rows, and so cannot be read from one
batch, is *estimated* from a window of the latest rows, each with the logit that it had when it was
in a batch:

- n/W, and the counts TP, FP, P, N at z_t. They lag behind the model by at most the window.
- The multipliers of the constraints, one step of the projected solver's rule at these counts
  (:func:`setpoint.training.descent.multiplier_step`), and from both the prices of a true positive
  and of a false positive (:func:`setpoint.method.capped_loss.prices`). For given counts and
  multipliers the prices are exact.
- z_t, the exact threshold for the goal on the window, which is set again only from time to time:
  between, the rows that cross it move the counts, and these the multipliers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from setpoint._internal.processes import all_gather
from setpoint._internal.validation import check_whole
from setpoint.data.labels import Labels
from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal, check_plain
from setpoint.method.capped_loss import capped_loss, prices
from setpoint.thresholds.choose import best_point
from setpoint.training.descent import Counts, multiplier_step
from setpoint.training.models import logits_in

_LARGEST_WINDOW = 2**20  # rows


class _Rows(NamedTuple):
    """Rows with the logits that they had in a batch."""

    logits: NDArray[np.float64]
    positive: NDArray[np.bool_]
    weight: NDArray[np.float64]


class MiniBatchPenalty(nn.Module):
    """The exact penalty of a goal as a loss: ``penalty(model(X), y)``, for batches of any rows.

    It is called like a cross-entropy loss and has no parameters to optimise. In training it keeps a
    window of the latest rows, from which it estimates what the goal needs to know about all rows.
    Under ``torch.no_grad()``, or in evaluation mode, it returns the loss and remembers nothing.

    Start from a model that ranks at all, e.g. after some epochs of cross-entropy during which
    ``observe`` shows it the logits; at the end, find the exact threshold with
    :func:`setpoint.choose_threshold` on validation rows. :func:`setpoint.streams.train` does both.

    Batches are random samples of the rows. If some rows are drawn more often, pass weights that
    make up for it. In a process group every process calls it in every training step, with rows of
    its own: the window holds the rows of all.

    Parameters
    ----------
    goal : str or Goal
        What to train for; it must count all rows alike.
    steps : int, optional
        Training steps for which lambda rises to ``lam_max``, usually all of them. By default it
        stays as it is, an attribute ``lam`` that may be changed during training.
    lam, lam_max : float
        First and last lambda, the price of a score on the wrong side of the threshold.
    gamma : float
        Strength of the regulariser psi, which resembles cross-entropy.
    dual_rate : float
        Step size of the multipliers: one step changes them by a factor of at most exp(dual_rate).
    positives : int
        The window holds the latest rows with at least so many positives. More estimate better,
        fewer are more recent.
    refresh : float or None
        The threshold is set again after so many windows of new rows. None: only at the start.
    rows : int, optional
        Rows of a pass. Required for constraints on numbers of rows, such as ``alarms <= 200``.

    Attributes
    ----------
    threshold : float or None
        The current threshold of the logits, an estimate for training; None at the start.
    multipliers : ndarray of shape (number of constraints,)
        What the constraints weigh in the prices.

    Examples
    --------
    >>> import torch
    >>> from setpoint import MiniBatchPenalty
    >>> penalty = MiniBatchPenalty("max recall s.t. precision >= 0.9", steps=100)
    >>> model = torch.nn.Linear(3, 1)
    >>> X, y = torch.randn(64, 3), torch.rand(64) < 0.2
    >>> loss = penalty(model(X), y)
    >>> loss.backward()
    """

    def __init__(
        self,
        goal: str | Goal,
        *,
        steps: int | None = None,
        lam: float = 3.0,
        lam_max: float = 10.0,
        gamma: float = 0.25,
        dual_rate: float = 0.015,
        positives: int = 300,
        refresh: float | None = 5.0,
        rows: int | None = None,
    ) -> None:
        super().__init__()
        self.goal = Goal.parse(goal)
        check_plain(
            self.goal,
            "a loss on mini-batches",
            "use ExactPenalty on all rows at once, with factors=, or SetpointClassifier",
        )
        numbers = {"lam": lam, "lam_max": lam_max, "gamma": gamma, "dual_rate": dual_rate}
        for name, value in {**numbers, "refresh": 1.0 if refresh is None else refresh}.items():
            if not 0 < value < np.inf:
                raise SetpointError(f"{name} must be positive and finite, not {value}.")
        if steps is not None and lam_max < lam:
            raise SetpointError(f"lam_max must be at least lam, {lam}, not {lam_max}.")
        self.steps = None if steps is None else check_whole(steps, "steps")
        self.rows = None if rows is None else check_whole(rows, "rows")
        self.positives = check_whole(positives, "positives")
        if self.rows is None and depends_on_rows(self.goal):
            raise SetpointError(
                f"the goal '{self.goal}' has a constraint on a number of rows; name how many rows "
                "a pass has: MiniBatchPenalty(goal, rows=len(dataset))."
            )
        self.lam, self.lam_max, self.gamma = lam, lam_max, gamma
        self.dual_rate, self.refresh = dual_rate, refresh
        self._growth = 1.0 if steps is None else (lam_max / lam) ** (1 / steps)
        self.threshold: float | None = None
        self.multipliers = np.ones(len(self.goal.constraints))
        self._window = _Rows(np.empty(0), np.empty(0, dtype=bool), np.empty(0))
        self._full = False  # whether the window had to drop rows
        self._new = 0  # rows since the threshold was set

    def forward(self, logits: Any, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch and, in training, learn from it.

        Parameters
        ----------
        logits : Tensor of shape (m,), (m, 1) or (m, 2)
            The model's output; of two logits their difference counts. Also an object that holds
            them as ``logits``, such as the output of a Hugging Face model.
        y : Tensor of shape (m,) or (m, 1)
            Labels: booleans, or 0 and 1.
        weight : Tensor of shape (m,), optional
            Weights >= 0 of the counts.
        """
        z, batch = self._read(logits, y, weight)
        learns = self.training and torch.is_grad_enabled()
        if learns:
            self._remember(batch)
        seen = self._window if len(self._window.weight) else batch
        if not seen.weight[seen.positive].any() or not seen.weight[~seen.positive].any():
            # Without both classes there are no counts to go by.
            return binary_cross_entropy_with_logits(
                z, _like(batch.positive, z), _like(batch.weight, z)
            )
        if (learns and self._is_due(len(seen.weight))) or self.threshold is None:
            threshold = self._exact_threshold(seen)
            if learns:
                self.threshold, self._new = threshold, 0
        else:
            threshold = self.threshold
        counts, P, N = self._counts_of(seen, threshold)
        if learns:
            multiplier_step(self.multipliers[:, None], self.goal, counts, P, N, self.dual_rate)
        worth, cost = prices(self.goal, *counts, P, N, self.multipliers[:, None])
        lam = self.lam
        if learns and self.steps is not None:
            self.lam = min(self.lam * self._growth, self.lam_max)
        losses = self._losses(z, batch, threshold, float(worth[0]), float(cost[0]), lam)
        return losses.sum() / (max(len(batch.weight), 1) * float(seen.weight.mean()))

    def _losses(
        self, z: Tensor, batch: _Rows, threshold: float, worth: float, cost: float, lam: float
    ) -> Tensor:
        """Return w_i l_i."""
        positive = _like(batch.positive, z)
        price = cost + (worth - cost) * positive
        losses = capped_loss((z - threshold) * (2 * positive - 1), price, lam, self.gamma)
        return losses * _like(batch.weight, z)

    @torch.no_grad()
    def observe(self, logits: Any, y: Tensor, weight: Tensor | None = None) -> None:
        """Add rows to the window without a step, e.g. while the model trains by cross-entropy."""
        _, batch = self._read(logits, y, weight)
        self._remember(batch)

    @property
    def counts(self) -> tuple[float, float, float, float]:
        """TP, FP, P and N of the window at the current threshold; zeros at the start."""
        if self.threshold is None:
            return 0.0, 0.0, 0.0, 0.0
        counts, P, N = self._counts_of(self._window, self.threshold)
        return float(counts.tp[0]), float(counts.fp[0]), P, N

    def extra_repr(self) -> str:
        """Return the goal."""
        return repr(str(self.goal))

    # --- the window ---------------------------------------------------------------------------

    def _read(self, logits: Any, y: Any, weight: Any) -> tuple[Tensor, _Rows]:
        """Return one logit per row, and the rows as arrays."""
        truth = _column(y, "y")
        z = logits_in(logits, len(truth))
        positive, known = Labels.pair(0, 1).compare(truth)
        if not known.all():
            raise SetpointError(
                f"y[{int(known.argmin())}] is {truth[known.argmin()]}; labels are booleans, or 0 "
                "and 1. Pass y == positive_label."
            )
        weights = np.ones(len(truth)) if weight is None else _column(weight, "weight").astype(float)
        if weights.shape != truth.shape or not ((weights >= 0) & (weights < np.inf)).all():
            raise SetpointError(
                f"weight must hold {len(truth)} finite numbers >= 0, one for each label."
            )
        scores = z.detach().double().cpu().numpy()
        if np.isnan(scores).any():
            raise DivergedError(
                f"{int(np.isnan(scores).sum())} of {len(scores)} logits are NaN; try a lower "
                "learning rate, and look for NaN in the inputs."
            )
        return z, _Rows(scores, positive.copy(), weights)

    def _remember(self, batch: _Rows) -> None:
        """Add the batches of all processes to the window, and drop what is too old."""
        batches = [_Rows(*rows) for rows in all_gather(batch)]
        every = [self._window, *batches]
        rows = _Rows(
            np.concatenate([each.logits for each in every]),
            np.concatenate([each.positive for each in every]),
            np.concatenate([each.weight for each in every]),
        )
        added = sum(len(each.weight) for each in batches)
        positives = np.flatnonzero(rows.positive)
        first = int(positives[-self.positives]) if len(positives) > self.positives else 0
        first = max(min(first, len(rows.weight) - added), len(rows.weight) - _LARGEST_WINDOW, 0)
        self._full |= first > 0
        self._window = _Rows(rows.logits[first:], rows.positive[first:], rows.weight[first:])
        self._new += added

    def _is_due(self, seen: int) -> bool:
        """Whether the threshold shall be set: rarely, but often while the window is filling."""
        if self.threshold is None:
            return True
        if not self._full:
            return 2 * self._new >= seen
        return self.refresh is not None and self._new >= self.refresh * seen

    def _exact_threshold(self, seen: _Rows) -> float:
        point = best_point(
            seen.positive, seen.logits, seen.weight, self.goal, self.goal, "the window"
        )
        # Where no alarm is best the threshold is infinite, and no row would be near it.
        return float(np.clip(point.threshold, seen.logits.min(), seen.logits.max()))

    def _counts_of(self, seen: _Rows, threshold: float) -> tuple[Counts, float, float]:
        """Return TP and FP at a threshold, then P and N, of a pass if its size is known."""
        scale = 1.0 if self.rows is None else self.rows / len(seen.weight)
        weight, alarm = seen.weight * scale, seen.logits > threshold
        tp, fp = weight[alarm & seen.positive].sum(), weight[alarm & ~seen.positive].sum()
        P = float(weight[seen.positive].sum())
        return Counts(np.array([tp]), np.array([fp])), P, float(weight.sum()) - P

    # --- the state ----------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """Return what the next step depends on, as part of ``state_dict()``."""
        return {
            "goal": str(self.goal),
            "lam": self.lam,
            "threshold": self.threshold,
            "multipliers": torch.from_numpy(self.multipliers.copy()),
            "window": torch.from_numpy(np.stack(self._window).astype(np.float64)),
            "full": self._full,
            "new": self._new,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        if state["goal"] != str(self.goal):
            raise SetpointError(
                f"the state is that of a penalty for '{state['goal']}', not for '{self.goal}'."
            )
        self.lam, self.threshold = state["lam"], state["threshold"]
        self.multipliers = state["multipliers"].cpu().numpy().copy()
        self._full, self._new = state["full"], state["new"]
        z, y, w = state["window"].cpu().numpy().copy()
        self._window = _Rows(z, y > 0, w)


def _column(values: Any, what: str) -> NDArray[Any]:
    found = values.detach().cpu() if isinstance(values, Tensor) else torch.as_tensor(values)
    if found.ndim not in (1, 2) or found.shape[1:] not in ((), (1,)):
        raise SetpointError(
            f"{what} must have one entry per row, shape (m,) or (m, 1), not {tuple(found.shape)}."
        )
    found = found.reshape(-1)
    return np.asarray(found.double() if found.is_floating_point() else found)


def _like(values: NDArray[Any], z: Tensor) -> Tensor:
    return torch.from_numpy(values).to(device=z.device, dtype=z.dtype)


def depends_on_rows(goal: Goal) -> bool:
    """Whether a constraint is met or not by the number of rows, with all rates the same."""
    at = np.array([3.0, 2.0, 5.0, 20.0])
    with np.errstate(all="ignore"):
        return any(
            not np.isclose(c.shortfall(*at), c.shortfall(*(1000 * at)), equal_nan=True)
            for c in goal.constraints
        )

"""A labelling session: which rows to label next, what is certified, and what to expect."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.validation import check_fraction, check_whole
from setpoint.certificates.threshold_set import NO_THRESHOLDS
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.labelling import state_file
from setpoint.labelling.arguments import (
    check_answers,
    check_eta,
    check_pool,
    floors_of,
    guess_from_rows,
)
from setpoint.labelling.certificate import PoolCertificate
from setpoint.labelling.design_choice import chances_of, choose_sample, choose_top_down
from setpoint.labelling.designs import SampleDesign, TopDownDesign, from_fields, to_fields
from setpoint.labelling.limits import Expectation
from setpoint.labelling.planning import Guess, Strata
from setpoint.labelling.top_down import UNKNOWN, Answers, Floats, Indices

_ASIDE = 10  # of this many rows of the pool one is set aside, if a guess is all there is to plan on
_BATCH = 20


class LabellingSession:
    """Certify a goal on scored rows without labels, by asking for few of them.

    Create it with :meth:`start`, or :meth:`load` one that was saved. Everything random or planned
    is fixed at the start, before the first label. After that, answers may be added in any order
    and at any time, and labelling may stop whenever the certificate is good enough.

    Attributes
    ----------
    goal : Goal
        The goal.
    confidence : float
        The confidence level.
    budget : int or None
        The largest number of labels.
    expectation : Expectation
        What was expected at the start.
    details : dict
        Values for JSON that are saved with the session, e.g. the names of columns.
    """

    def __init__(
        self,
        scores: Floats,
        goal: Goal,
        confidence: float,
        budget: int | None,
        design: TopDownDesign | SampleDesign,
        expectation: Expectation,
        guess: Strata | None,
        aside: Indices,
    ) -> None:
        self.goal, self.confidence, self.budget = goal, confidence, budget
        self.expectation = expectation
        self.details: dict[str, Any] = {}
        self._scores, self._design, self._guess, self._aside = scores, design, guess, aside
        self._answers: Answers = np.full(len(design.rows), UNKNOWN, dtype=np.int8)
        self._position = np.full(len(scores), -1, dtype=np.intp)
        self._position[design.rows] = np.arange(len(design.rows))

    @classmethod
    def start(
        cls,
        scores: ArrayLike,
        goal: str | Goal,
        *,
        confidence: float = 0.9,
        budget: int | None = None,
        planning: tuple[ArrayLike, ArrayLike] | None = None,
        eta: ArrayLike | Callable[[Floats], ArrayLike] | None = None,
        pos_label: Any = None,
        seed: int = 0,
    ) -> LabellingSession:
        """Plan a session.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores of the pool, larger for likely positives. Its rows are independent draws on
            which the model was not trained.
        goal : str or Goal
            A goal with a floor on precision, on recall, or on both, e.g.
            ``"max recall s.t. precision >= 0.9"``.
        confidence : float
            Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends
            in a false certificate.
        budget : int, optional
            The largest number of labels. By default, as many as it takes.
        planning : tuple of labels and scores, optional
            Rows of another time that are already labelled. They may differ from the pool: a bad
            plan costs labels, but the guarantees hold.
        eta : array-like of shape (n,) or callable, optional
            Instead of planning rows: a guess of the probability that each row of the pool is
            positive, or a function of the scores. The guess for a row must not depend on other
            rows of the pool, as ranks would. One row in ten is then set aside for planning, and is
            never asked for.
        pos_label : optional
            The label of the positive class among the planning rows.
        seed : int
            Seed of all random choices. Trying several invalidates the guarantees.

        Notes
        -----
        A floor on recall needs ``planning`` or ``eta``. For a floor on precision alone they are
        optional, and save labels.
        """
        parsed = Goal.parse(goal)
        precision, recall = floors_of(parsed)
        alpha = 1 - check_fraction(confidence, "confidence")
        pool = check_pool(scores)
        if budget is not None:
            budget = check_whole(budget, "budget")
        # With the scores, so that pools that are sorted by score do not share their random ranks.
        rng = np.random.default_rng(
            [check_whole(seed, "seed", 0), 20_213, zlib.crc32(pool.tobytes())]
        )
        order = rng.permutation(len(pool))
        aside, guess = order[:0], None
        if planning is not None:
            if eta is not None:
                raise SetpointError("give planning= or eta=, not both.")
            guess = guess_from_rows(planning, pos_label)
        elif eta is not None:
            chances = check_eta(eta, pool)
            aside = np.sort(order[: len(pool) // _ASIDE])
            if len(aside) == 0:
                raise SetpointError(
                    f"{len(pool)} rows are too few to set one in {_ASIDE} aside for planning; give "
                    "planning= instead of eta=."
                )
            guess = Guess.of(pool[aside], chances[aside], labelled=False)
            order = order[len(pool) // _ASIDE :]
        strata = None if guess is None else guess.strata()
        design: TopDownDesign | SampleDesign
        if recall is None:
            assert precision is not None
            design, expected = choose_top_down(precision, alpha, pool, order, guess, budget, aside)
        else:
            if strata is None:
                raise SetpointError(
                    "a floor on recall needs labelled rows of another time (planning=, or "
                    "--planning) or a guess of the probability that each row is positive (eta=, "
                    "or --guess): positives with low scores cannot be found otherwise."
                )
            design, expected = choose_sample(
                precision, recall, alpha, pool, order, strata, budget, rng
            )
        return cls(pool, parsed, confidence, budget, design, expected, strata, aside)

    # --- rows and answers -------------------------------------------------------------------------

    @property
    def labelled(self) -> int:
        """The number of rows with a label."""
        return int(np.count_nonzero(self._answers != UNKNOWN))

    @property
    def may_change_budget(self) -> bool:
        """Whether labelling may go on beyond the budget, by the same plan."""
        return isinstance(self._design, TopDownDesign)

    @property
    def done(self) -> bool:
        """Whether no further row is asked for."""
        return len(self.next(1)) == 0

    def next(self, n: int | None = None) -> Indices:
        """Return the next rows to label, as indices into the scores; none if the session is done.

        The same rows are returned until they are answered. Without ``n``, it is a batch whose size
        grows with the number of labels.
        """
        n = max(_BATCH, self.labelled // 20) if n is None else check_whole(n, "n")
        if self.budget is not None:
            n = min(n, self.budget - self.labelled)
        if n <= 0 or not self._design.outcome(self._answers).is_open:
            return np.empty(0, dtype=np.intp)
        order = self._design.asking_order
        waiting = order[self._answers[order] == UNKNOWN][:n]
        return np.asarray(self._design.rows[waiting])

    def add(self, indices: ArrayLike, labels: ArrayLike, *, replace: bool = False) -> None:
        """Add answers; if one of them is invalid, none is added.

        Parameters
        ----------
        indices : array-like of int
            Rows of the pool.
        labels : array-like
            0 or 1, or booleans.
        replace : bool
            Whether a label may replace another one of the same row.
        """
        rows, values = check_answers(indices, labels, len(self._scores))
        found: dict[int, int] = {}
        for row, value in zip(rows.tolist(), values.tolist(), strict=True):
            position = int(self._position[row])
            if position < 0:
                raise SetpointError(
                    f"row {row} was not asked for; only answers to rows of next() can be used, as "
                    "others were not selected at random."
                )
            before = found.get(position, int(self._answers[position]))
            if before not in (UNKNOWN, value) and (position in found or not replace):
                raise SetpointError(
                    f"row {row} has the labels {before} and {value}; decide which one is right"
                    f"{'' if position in found else ', and pass replace=True to correct it'}."
                )
            found[position] = value
        self._answers[list(found)] = list(found.values())

    def may_ask(self, row: int) -> bool:
        """Return whether a row is one of those that the design may ask for."""
        return bool(self._position[row] >= 0)

    def label_of(self, row: int) -> int | None:
        """Return the label of a row, or None if it has none."""
        label = int(self._answers[self._position[row]]) if self.may_ask(row) else UNKNOWN
        return None if label == UNKNOWN else label

    @property
    def certificate(self) -> PoolCertificate:
        """What the answers so far certify."""
        outcome = self._design.outcome(self._answers)
        threshold = _best(self.goal, self._design, outcome.thresholds, self._answers)
        if threshold is None:
            return PoolCertificate(
                self.goal, self.confidence, NO_THRESHOLDS, None, self.labelled, len(self._scores),
                reason=self._reason(outcome.is_open),
            )  # fmt: skip
        above = self._design.scores > threshold
        tp, _, P, _ = self._design.counts(threshold, self._answers)
        known = isinstance(self._design, SampleDesign) or self._design.chances is not None
        return PoolCertificate(
            self.goal, self.confidence, outcome.certified, threshold, self.labelled,
            len(self._scores),
            int(np.count_nonzero(self._scores > threshold)),
            int(np.count_nonzero(self._answers[above] != UNKNOWN)),
            int(np.count_nonzero(self._answers[above] == 1)),
            tp / P if known and P > 0 else None,
        )  # fmt: skip

    def _reason(self, is_open: bool) -> str:
        spent = self.budget is not None and self.labelled >= self.budget
        if is_open and not spent:
            return "more labels are needed."
        if spent:
            return f"the budget of {self.budget:,} labels is spent."
        if isinstance(self._design, TopDownDesign):
            return (
                "further labels are unlikely to help, as too few of the rows with the highest "
                "scores are positive; lower the floor, or improve the model."
            )
        return (
            f"{self._design.shortfall(self._answers)} A new attempt needs rows that were not used "
            "before; lower a floor, or plan on rows that are more like the pool."
        )

    # --- saving -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the session to a file, or replace the one that is there, atomically."""
        known = self._answers != UNKNOWN
        guess = self._guess
        state_file.write(
            Path(path),
            {
                "goal": str(self.goal), "confidence": self.confidence, "budget": self.budget,
                "pool": {"rows": len(self._scores), "digest": state_file.digest(self._scores)},
                "design": to_fields(self._design, self._scores),
                "aside": self._aside.tolist(),
                "guess": None if guess is None else {
                    "edges": [max(e, -1e308) for e in guess.edges.tolist()],
                    "shares": guess.shares.tolist(), "chances": guess.chances.tolist(),
                    "size": guess.size,
                },
                "expectation": self.expectation._asdict(), "details": self.details,
                "answered": self._design.rows[known].tolist(),
                "labels": "".join(map(str, self._answers[known].tolist())),
            },
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path, scores: ArrayLike) -> LabellingSession:
        """Return a saved session.

        Parameters
        ----------
        path : str or Path
            The file.
        scores : array-like of shape (n,)
            The scores with which it was started, in the same order.
        """
        pool = check_pool(scores)
        fields = state_file.read(Path(path), pool)
        with state_file.damage_reported(Path(path)):
            guess = fields["guess"]
            strata = None if guess is None else Strata(
                np.array(guess["edges"], dtype=float), np.array(guess["shares"], dtype=float),
                np.array(guess["chances"], dtype=float),
                float(guess["size"]),
            )  # fmt: skip
            aside = np.array(fields["aside"], dtype=np.intp)
            used = np.setdiff1d(np.arange(len(pool)), aside)
            chances = None if strata is None else chances_of(pool, strata)
            design = from_fields(fields["design"], pool, used, chances)
            session = cls(
                pool, Goal.parse(fields["goal"]), float(fields["confidence"]), fields["budget"],
                design, Expectation(**fields["expectation"]), strata, aside,
            )  # fmt: skip
            session.details = dict(fields["details"])
            if fields["answered"]:
                session.add(fields["answered"], [int(label) for label in fields["labels"]])
        return session


def _best(
    goal: Goal,
    design: TopDownDesign | SampleDesign,
    thresholds: tuple[float, ...],
    answers: Answers,
) -> float | None:
    """Return the threshold with the best objective, by estimated counts; the lowest of equals."""
    if not thresholds:
        return None
    gains = []
    for threshold in thresholds:
        with np.errstate(all="ignore"):
            counts = (np.float64(count) for count in design.counts(threshold, answers))
            gains.append(float(goal.gain(*counts)))
    values = np.nan_to_num(np.array(gains), nan=-np.inf)
    return thresholds[int(np.flatnonzero(values == values.max())[-1])]

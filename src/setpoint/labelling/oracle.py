"""``certify_pool``: certify a goal by asking a function for labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from setpoint._internal.validation import check_whole
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.labelling.certificate import PoolCertificate
from setpoint.labelling.session import LabellingSession
from setpoint.labelling.top_down import Floats, Indices


def certify_pool(
    scores: ArrayLike,
    goal: str | Goal,
    oracle: Callable[[Indices], ArrayLike],
    *,
    confidence: float = 0.9,
    budget: int | None = None,
    planning: tuple[ArrayLike, ArrayLike] | None = None,
    eta: ArrayLike | Callable[[Floats], ArrayLike] | None = None,
    pos_label: Any = None,
    batch: int | None = None,
    state: str | Path | None = None,
    seed: int = 0,
) -> PoolCertificate:
    """Certify a goal on scored rows without labels, asking for as few labels as possible.

    Parameters
    ----------
    scores, goal, confidence, budget, planning, eta, pos_label, seed
        As in :meth:`LabellingSession.start`.
    oracle : callable
        ``oracle(indices)`` returns the labels, 0 or 1, of rows of the pool: people, a service, or
        another model that is trusted.
    batch : int, optional
        How many rows to ask for at once. By default the batches grow.
    state : str or Path, optional
        A file that keeps all answers. If the oracle fails, or the process is killed, the same call
        continues from there, and no answer is asked for twice.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(20_000) < 0.05
    >>> scores = rng.normal(size=20_000) + 3 * y
    >>> found = certify_pool(scores, "max recall s.t. precision >= 0.8", lambda rows: y[rows])
    >>> found.certified, found.labels < 1000
    (True, True)
    """
    if batch is not None:
        batch = check_whole(batch, "batch")
    path = None if state is None else Path(state)
    if path is not None and path.exists():
        session = LabellingSession.load(path, scores)
        check_same(session, path, goal, confidence, budget)
    else:
        session = LabellingSession.start(
            scores, goal, confidence=confidence, budget=budget, planning=planning, eta=eta,
            pos_label=pos_label, seed=seed,
        )  # fmt: skip
        if path is not None:
            session.save(path)
    while len(rows := session.next(batch)):
        session.add(rows, oracle(rows))
        if path is not None:
            session.save(path)
    return session.certificate


def check_same(
    session: LabellingSession,
    path: Path,
    goal: str | Goal,
    confidence: float | None,
    budget: int | None,
) -> None:
    """Raise SetpointError if a saved session has another goal, confidence or budget."""
    given = {
        "goal": (session.goal, Goal.parse(goal)),
        "confidence": (session.confidence, confidence),
        "budget": (session.budget, budget),
    }
    for name, (saved, wanted) in given.items():
        if name == "budget" and session.may_change_budget:
            session.budget = budget if budget is not None else session.budget
        elif wanted is not None and str(saved) != str(wanted):
            raise SetpointError(
                f"{path} was started with the {name} '{saved}', not '{wanted}'. A plan cannot be "
                "changed after labels are known; use the former one, or start a new session with "
                "other rows."
            )

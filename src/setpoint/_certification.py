"""Which rows certify, and what an estimator does with them."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit

from setpoint._validation import Rows, given_split
from setpoint.certificates import Certificate
from setpoint.certificates.groups import one_of_each
from setpoint.errors import SetpointError, UncertifiedWarning


def certifying_split(
    certification: Any,
    positive: NDArray[np.bool_],
    weight: NDArray[np.floating] | None,
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows]:
    """Return the rows that a model may see, and those that it must not.

    A share is drawn by chance alone, not by class, so that the certifying rows are independent
    draws. Rows of no weight are in neither part. Rows of one group are no independent draws: of
    each group one row certifies.

    Parameters
    ----------
    certification : float, splitter or iterable
        See :class:`setpoint.SetpointThreshold`.
    """
    kept = np.ones(len(positive), dtype=bool)
    if weight is not None:
        kept = weight > 0
        if len(np.unique(weight[kept])) > 1:
            raise SetpointError(
                "a certificate counts independent rows, and sample_weight has different weights; "
                "leave the weights out, or use confidence=None."
            )
    is_share = isinstance(certification, Real) and not isinstance(certification, Integral)
    if not is_share:
        seen, unseen = given_split(certification, positive, groups, "certification")
        found = seen[kept[seen]], unseen[kept[unseen]]
    else:
        share, rows = float(certification), np.flatnonzero(kept)
        if not 0 < share < 1:
            raise SetpointError(f"certification must be a share between 0 and 1, not {share}.")
        if groups is None:
            order = np.random.default_rng(seed).permutation(rows)
            few = max(1, round(share * len(rows)))
            found = np.sort(order[few:]), np.sort(order[:few])
        elif len(np.unique(groups[rows])) < 2:
            raise SetpointError("all rows are of one group; none can be kept apart to certify.")
        else:
            splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
            try:
                seen, unseen = next(splitter.split(rows, groups=groups[rows]))
            except ValueError as error:
                raise SetpointError(
                    f"too few groups for a certification of {share:g}: {error}"
                ) from error
            found = rows[np.sort(seen)], rows[np.sort(unseen)]
    if len(found[1]) == 0:
        raise SetpointError("certification leaves no rows to certify with.")
    unseen = found[1]
    return found[0], unseen if groups is None else unseen[one_of_each(groups[unseen], seed)]


def tell(certificate: Certificate, stacklevel: int = 3) -> None:
    """Warn where nothing is promised, at the caller of the ``fit`` that calls this."""
    if not certificate.certified:
        warnings.warn(certificate.message, UncertifiedWarning, stacklevel=stacklevel)

"""How many labels any method needs that assumes nothing about the scores.

**Precision.** If all labelled alarms are real, a test with error alpha must still fail where each
alarm is real with a chance just below the floor a: n real ones in a row have the probability a^n
there. So n >= log(1/alpha) / log(1/a).

**Recall.** Take a population in which a threshold has TP true positives and P positives per N rows,
and N_below rows at or below the threshold. Then D = TP / r - P further misses would bring the
recall to the floor r. In a second population each negative at or below the threshold is, at random,
a positive with probability delta, just above D / N_below. Recall is just missed there, and an
assumption-free method may certify it with a probability of at most alpha. Run the method in the
first population, where it certifies with probability beta after n labels at or below the threshold.
In the second one all these labels are the same unless one of the labelled rows was changed,
whatever rule chose them; none of n rows is changed with a probability of (1 - delta)^n. Hence
alpha >= beta (1 - delta)^n, and with beta near 1, n >= log(1/alpha) / log(1/(1 - delta)), about
N_below log(1/alpha) / D. Only knowledge from elsewhere avoids this, e.g. a sample of known
positives (``known_classes.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple


def least_for_precision(level: float, alpha: float) -> int:
    """Return the least number of labels with which a floor on precision can be certified.

    Examples
    --------
    >>> least_for_precision(0.9, 0.1)
    22
    """
    return math.ceil(math.log(alpha) / math.log(level) - 1e-9)


def least_for_recall(rows_below: float, misses_left: float, alpha: float) -> float:
    """Return the least number of labels at or below a threshold that certify its recall.

    Parameters
    ----------
    rows_below : float
        The number of rows at or below the threshold.
    misses_left : float
        How many more of them may be positive, D.
    alpha : float
        The probability of a false certificate.

    Examples
    --------
    >>> round(least_for_recall(50_000, 150, 0.1))
    766
    >>> least_for_recall(100, 0, 0.1)
    inf
    """
    if misses_left <= 0:
        return math.inf
    delta = misses_left / max(rows_below, 1e-300)
    return 0.0 if delta >= 1 else math.log(alpha) / math.log1p(-delta)


class Expectation(NamedTuple):
    """What to expect before the first label.

    Attributes
    ----------
    labels : int or None
        Roughly how many labels are needed; None if nothing is known about the scores.
    most : int or None
        The number of rows that may be asked for.
    chance : float or None
        Roughly the chance of a certificate.
    least : int
        The least number of labels that any method needs that assumes nothing about the scores.
    """

    labels: int | None
    most: int | None
    chance: float | None
    least: int

    def __str__(self) -> str:
        parts = []
        if self.labels is not None:
            parts.append(f"About {self.labels:,} labels are expected to be needed")
            if self.most is not None and self.most > self.labels:
                parts[-1] += f", and at most {self.most:,} will be asked for"
            if self.chance is not None:
                parts[-1] += f"; the chance of a certificate is about {self.chance:.0%}"
            parts[-1] += "."
        else:
            parts.append(
                "Without planning rows or a guess, the number of labels cannot be predicted."
            )
        least = f"method that assumes nothing about the scores needs fewer than {self.least:,}."
        # A floor on recall: how many misses it allows is a part of the plan.
        parts.append(f"No {least}" if self.chance is None else f"If the plan is right, no {least}")
        return " ".join(parts)

"""How much a row matters to the next steps: more, the nearer it is to a model's threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setpoint.streams.histogram import ScoreHistogram, bucket_values
from setpoint.streams.rounding import coarse

_FAR = 1e30  # as good as infinite, but its products are numbers
_EVENLY = 0.5  # the part of all importance that every row of a class has an equal share in


@dataclass(frozen=True)
class Nearness:
    """Importances  q_i = 1/2 mean_k s_ik / S_k + 1/2 1/n,  with  s_ik = (1 + |z_ik| / scale_k)^-2.

    z_ik is the logit above model k's threshold, S_k the sum of s_ik over the class's n rows and
    scale_k a share of the median of its |z_ik|. Rows beyond a few scales have next to no gradient,
    but they are many; half of all importance is spread evenly, so that none is forgotten.

    Attributes
    ----------
    scale, total : Tensor of shape (2, k)
        Of positives and of negatives.
    rows : tuple of float
        n, of positives and of negatives.
    """

    scale: Tensor
    total: Tensor
    rows: tuple[float, float]

    @classmethod
    def of(cls, seen: ScoreHistogram, share: float) -> Nearness:
        """Return the importances that follow from scores seen before, measured from thresholds.

        ``share`` is that of the median which makes the scale.
        """
        distance = np.minimum(np.abs(bucket_values()), _FAR)
        order = np.argsort(distance, kind="stable")
        scales, totals = [], []
        for weights in (seen.positive, seen.negative):  # (k, buckets) each
            along = np.cumsum(weights[:, order], axis=1)
            middle = [int(np.searchsorted(row, row[-1] / 2)) for row in along]
            scale = np.maximum(distance[order][middle] * share, 1e-9)
            scales.append(scale)
            totals.append((weights * (1 + distance / scale[:, None]) ** -2).sum(axis=1))
        classes = [float(w[0].sum()) for w in (seen.positive, seen.negative)]
        P, N = coarse(torch.tensor(classes).double()).tolist()
        return cls(torch.tensor(np.array(scales)), coarse(torch.tensor(np.array(totals))), (P, N))

    def importance(self, logits: Tensor, positive: Tensor) -> Tensor:
        """Return q for rows with these logits (k, m), measured from the thresholds."""
        found = torch.empty(logits.shape[1], dtype=torch.float64, device=logits.device)
        for label, scale, total, n in zip(
            (True, False), self.scale, self.total, self.rows, strict=True
        ):
            own = (positive == label).to(logits.device)
            s = (1 + logits[:, own].abs() / scale.to(logits)[:, None]) ** -2
            near = (s / total.to(s)[:, None]).mean(0)
            found[own] = (1 - _EVENLY) * near.double() + _EVENLY / n
        return found

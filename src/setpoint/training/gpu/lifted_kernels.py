"""A step of the lifted variables as two GPU kernels; imported only where there is a GPU.

What :meth:`setpoint.method.ExactPenalty.slopes` does with arrays is here one tiny program for the
slopes in the counts and one pass over the rows. tests/cuda compares them with it.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_ROWS = 1024
ONE = 2**36  # a weight of P, counted in whole numbers
_ONE = tl.constexpr(ONE)


@triton.jit
def _counts_kernel(count_ptr, table_ptr, price_ptr, rate_ptr, P, CONSTRAINTS: tl.constexpr):  # type: ignore[no-untyped-def]
    tp = tl.load(count_ptr).to(tl.float64) * P / _ONE
    fp = tl.load(count_ptr + 1).to(tl.float64) * P / _ONE
    tl.store(count_ptr, 0)
    tl.store(count_ptr + 1, 0)
    # The table: lambda, gamma, origin, P times the objective's scale, step, steps, learning rate,
    # and then 9 numbers for each metric.
    step = tl.load(table_ptr + 4)
    tl.store(table_ptr + 4, step + 1.0)
    elapsed = step / tl.load(table_ptr + 5)
    rate = tl.load(table_ptr + 6) * (1.0 + tl.cos(elapsed * 3.141592653589793)) / 2.0
    tl.store(rate_ptr, rate.to(tl.float32))
    o = table_ptr + 7
    scale = -tl.load(o) * tl.load(table_ptr + 3)
    n1, n2, d1, d2 = tl.load(o + 2), tl.load(o + 3), tl.load(o + 5), tl.load(o + 6)
    top = tl.load(o + 1) + n1 * tp + n2 * fp
    bottom = tl.load(o + 4) + d1 * tp + d2 * fp
    safe = tl.where(bottom > 0, bottom, 1.0)
    worth = tl.where(bottom > 0, scale * (n1 * safe - top * d1) / (safe * safe), 0.0)
    cost = tl.where(bottom > 0, scale * (n2 * safe - top * d2) / (safe * safe), 0.0)
    lam = tl.load(table_ptr)
    for j in tl.static_range(CONSTRAINTS):
        c = table_ptr + 7 + 9 * (j + 1)
        sign, level = tl.load(c), tl.load(c + 8)
        n1, n2, d1, d2 = tl.load(c + 2), tl.load(c + 3), tl.load(c + 5), tl.load(c + 6)
        top = tl.load(c + 1) + n1 * tp + n2 * fp
        bottom = tl.load(c + 4) + d1 * tp + d2 * fp
        broken = tl.where(sign * (level * bottom - top) > 0, lam * sign, 0.0)
        worth += broken * (level * d1 - n1)
        cost += broken * (level * d2 - n2)
    tl.store(price_ptr, worth.to(tl.float32))
    tl.store(price_ptr + 1, cost.to(tl.float32))


@triton.jit
def _rows_kernel(  # type: ignore[no-untyped-def]
    z_ptr,
    s_ptr,
    sign_ptr,
    share_ptr,
    slope_ptr,
    count_ptr,
    table_ptr,
    price_ptr,
    t,
    lr_s,
    n,
    EQUALITY: tl.constexpr,
    ROWS: tl.constexpr,
):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    lam = tl.load(table_ptr).to(tl.float32)
    gamma = tl.load(table_ptr + 1).to(tl.float32)
    z = tl.load(z_ptr + i, mask=inside, other=0.0) - tl.load(table_ptr + 2).to(tl.float32)
    s = tl.load(s_ptr + i, mask=inside, other=0.0)
    sign = tl.load(sign_ptr + i, mask=inside, other=0.0)
    share = tl.load(share_ptr + i, mask=inside, other=0.0)
    a = tl.sigmoid(z)
    u = s + a - t
    H = s - tl.minimum(tl.maximum(u, 0.0), 1.0)
    steep = (u >= 0.0) & (u <= 1.0)
    if EQUALITY:
        misses = tl.where(H > 0, lam, tl.where(H < 0, -lam, 0.0))
    else:
        misses = tl.where(H * sign > 0, lam * sign, 0.0)
    in_z = gamma * (a - s) - tl.where(steep, misses, 0.0) * a * (1.0 - a)
    tl.store(slope_ptr + i, in_z * share, mask=inside)
    price = tl.where(sign > 0, tl.load(price_ptr), tl.load(price_ptr + 1))
    in_s = price - gamma * z + tl.where(steep, 0.0, misses)
    s = tl.minimum(tl.maximum(s - lr_s * in_s, 0.0), 1.0)
    tl.store(s_ptr + i, s, mask=inside)
    # Whole numbers, so that the sum is the same in whichever order the programs come to an end.
    counted = (s * share).to(tl.float64) * _ONE
    tp, fp = tl.where(sign > 0, counted, 0.0), tl.where(sign < 0, counted, 0.0)
    tl.atomic_add(count_ptr, tl.sum(tp, axis=0).to(tl.int64))
    tl.atomic_add(count_ptr + 1, tl.sum(fp, axis=0).to(tl.int64))


def slopes_in_counts(
    counts: Any, table: Any, price: Any, rate: Any, P: float, constraints: int
) -> None:
    """Set P dF/dTP and P dF/dFP; empty the counts, move the clock and the learning rate on."""
    _counts_kernel[(1,)](counts, table, price, rate, P, CONSTRAINTS=constraints)


def slopes_and_s(
    z: Any,
    s: Any,
    sign: Any,
    share: Any,
    slope: Any,
    counts: Any,
    table: Any,
    price: Any,
    t: float,
    lr_s: float,
    equality: bool,
) -> None:
    """Set dF/dz, move s, and count what it has become."""
    n = len(z)
    _rows_kernel[(triton.cdiv(n, _ROWS),)](
        z, s, sign, share, slope, counts, table, price, t, lr_s, n,
        EQUALITY=equality, ROWS=_ROWS,
    )  # fmt: skip

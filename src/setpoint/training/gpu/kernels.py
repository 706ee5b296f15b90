"""The elementwise part of a step as GPU kernels; imported only where there is a GPU.

Projected solver: what :mod:`setpoint.method.capped_loss` computes with arrays in some fifty small
operations is one pass over the margins for the counts, one tiny program for the prices, and one
pass for the slopes. Lifted solver: what :meth:`setpoint.method.ExactPenalty.slopes` computes is one
tiny program for the slopes in the counts and one pass over the rows. tests/cuda compares both.
"""

from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl

_ROWS = 1024

# --- the projected solver ------------------------------------------------------------------------


@triton.jit
def _margins_kernel(z_ptr, sign_ptr, counted_ptr, right_ptr, n, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    k = tl.program_id(1)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    at = z_ptr + k.to(tl.int64) * n + i
    v = tl.load(at, mask=inside, other=0.0) * tl.load(sign_ptr + i, mask=inside, other=0.0)
    tl.store(at, v, mask=inside)
    counted = tl.load(counted_ptr + i, mask=inside, other=0.0).to(tl.float64)
    right = tl.where(v > 0, counted, 0.0)
    positive = tl.load(sign_ptr + i, mask=inside, other=0.0) > 0
    tl.atomic_add(right_ptr + 2 * k, tl.sum(tl.where(positive, right, 0.0), axis=0))
    tl.atomic_add(right_ptr + 2 * k + 1, tl.sum(tl.where(positive, 0.0, right), axis=0))


@triton.jit
def _prices_kernel(  # type: ignore[no-untyped-def]
    right_ptr,
    base_ptr,
    table_ptr,
    multiplier_ptr,
    price_ptr,
    clock_ptr,
    lam_ptr,
    rate_ptr,
    k_models,
    CONSTRAINTS: tl.constexpr,
):
    k = tl.program_id(0)
    # TP = rest + right positives;  FP = rest + all negatives that count - right negatives
    tp = tl.load(base_ptr + 2 * k) + tl.load(right_ptr + 2 * k)
    fp = tl.load(base_ptr + 2 * k + 1) - tl.load(right_ptr + 2 * k + 1)
    tl.store(right_ptr + 2 * k, 0.0)
    tl.store(right_ptr + 2 * k + 1, 0.0)
    # A row of the table: lam0, growth, steps, lr, dual_rate, and then 9 numbers for each metric.
    table_ptr += k * (5 + 9 * (1 + CONSTRAINTS))
    elapsed = tl.load(clock_ptr + k) / tl.load(table_ptr + 2)
    tl.store(clock_ptr + k, tl.load(clock_ptr + k) + 1.0)
    lam = tl.load(table_ptr) * tl.exp(elapsed * tl.load(table_ptr + 1))
    tl.store(lam_ptr + k, lam.to(tl.float32))
    if k == 0:
        rate = tl.load(table_ptr + 3) * (1.0 + tl.cos(elapsed * 3.141592653589793)) / 2.0
        tl.store(rate_ptr, rate.to(tl.float32))
    # The objective: sign, n0, n1, n2, d0, d1, d2, empty, level (unused)
    o = table_ptr + 5
    sign = tl.load(o)
    n1, n2, d1, d2 = tl.load(o + 2), tl.load(o + 3), tl.load(o + 5), tl.load(o + 6)
    top = tl.load(o + 1) + n1 * tp + n2 * fp
    bottom = tl.load(o + 4) + d1 * tp + d2 * fp
    safe = tl.where(bottom > 0, bottom, 1.0)
    worth = tl.where(bottom > 0, sign * (n1 * safe - top * d1) / (safe * safe), 0.0)
    cost = tl.where(bottom > 0, -sign * (n2 * safe - top * d2) / (safe * safe), 0.0)
    size = tl.maximum(tl.maximum(tl.abs(worth), tl.abs(cost)), 1e-300)
    worth, cost = worth / size, cost / size
    for j in tl.static_range(CONSTRAINTS):
        c = table_ptr + 5 + 9 * (j + 1)
        sign, level = tl.load(c), tl.load(c + 8)
        n1, n2, d1, d2 = tl.load(c + 2), tl.load(c + 3), tl.load(c + 5), tl.load(c + 6)
        top = tl.load(c + 1) + n1 * tp + n2 * fp
        bottom = tl.load(c + 4) + d1 * tp + d2 * fp
        value = tl.where(bottom > 0, top / tl.where(bottom > 0, bottom, 1.0), tl.load(c + 7))
        missed = sign * (level - value)
        missed = tl.where(missed == missed, missed, 0.0)
        # The rule of descent.multiplier_step; 5, 1e-3 and 1e3 are its constants.
        push = tl.minimum(tl.maximum(5.0 * missed, -1.0), 1.0)
        at = multiplier_ptr + j * k_models + k
        held = tl.load(at) * tl.exp(tl.load(table_ptr + 4) * push)
        held = tl.minimum(tl.maximum(held, 1e-3), 1e3)
        tl.store(at, held)
        # The cleared constraint is linear in the counts: its slopes are constants.
        more_worth, more_cost = -sign * (level * d1 - n1), sign * (level * d2 - n2)
        size = tl.maximum(tl.maximum(tl.abs(more_worth), tl.abs(more_cost)), 1e-300)
        worth += held * more_worth / size
        cost += held * more_cost / size
    worth, cost = tl.maximum(worth, 0.0), tl.maximum(cost, 0.0)
    dearer = tl.maximum(tl.maximum(worth, cost), 1e-12)
    tl.store(price_ptr + 2 * k, (worth / dearer).to(tl.float32))
    tl.store(price_ptr + 2 * k + 1, (cost / dearer).to(tl.float32))


@triton.jit
def _slopes_kernel(  # type: ignore[no-untyped-def]
    v_ptr, sign_ptr, weight_ptr, price_ptr, lam_ptr, gamma_ptr, n, ROWS: tl.constexpr
):
    k = tl.program_id(1)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    at = v_ptr + k.to(tl.int64) * n + i
    v = tl.load(at, mask=inside, other=0.0)
    positive = tl.load(sign_ptr + i, mask=inside, other=0.0) > 0
    price = tl.where(positive, tl.load(price_ptr + 2 * k), tl.load(price_ptr + 2 * k + 1))
    lam, gamma = tl.load(lam_ptr + k), tl.load(gamma_ptr + k)
    a = tl.sigmoid(v)
    wrong = tl.maximum(0.5 - a, 0.0)
    keeps = lam * wrong - gamma * v < price
    pull = tl.where((wrong > 0) & keeps, a * (1.0 - a), 0.0)
    slope = gamma * (a - tl.where(keeps, 1.0, 0.0)) - lam * pull
    tl.store(at, slope * tl.load(weight_ptr + i, mask=inside, other=0.0), mask=inside)


def margins_and_counts(z: Any, sign: Any, counted: Any, right: Any) -> None:
    """Turn logits (k, n) into margins in place, and add the weight of right ones to (k, 2)."""
    k, n = z.shape
    _margins_kernel[(triton.cdiv(n, _ROWS), k)](z, sign, counted, right, n, ROWS=_ROWS)


def prices(
    right: Any,
    base: Any,
    table: Any,
    multipliers: Any,
    price: Any,
    clock: Any,
    lam: Any,
    rate: Any,
    constraints: int,
) -> None:
    """Advance the clock, multipliers and prices by a step, and reset the counts."""
    k = len(price)
    _prices_kernel[(k,)](
        right, base, table, multipliers, price, clock, lam, rate, k, CONSTRAINTS=constraints
    )


def slopes(v: Any, sign: Any, weight: Any, price: Any, lam: Any, gamma: Any) -> None:
    """Turn margins (k, n) into the loss's slopes in the logits, in place."""
    k, n = v.shape
    _slopes_kernel[(triton.cdiv(n, _ROWS), k)](v, sign, weight, price, lam, gamma, n, ROWS=_ROWS)


# --- the lifted solver ---------------------------------------------------------------------------

ONE = 2**36  # a weight of P as an integer
_ONE = tl.constexpr(ONE)
TABLE = 11  # numbers before those of the metrics
_TABLE = tl.constexpr(TABLE)
_PARTS = 128  # sums of the rows that are added up at a time
_LOG_BETA1, _LOG_BETA2 = tl.constexpr(math.log(0.9)), tl.constexpr(math.log(0.999))  # of Adam


@triton.jit
def _counts_kernel(  # type: ignore[no-untyped-def]
    count_ptr,
    table_ptr,
    price_ptr,
    rate_ptr,
    value_ptr,
    part_ptr,
    stopped_ptr,
    taken_ptr,
    move_ptr,
    P,
    parts,
    CONSTRAINTS: tl.constexpr,
    ADAM: tl.constexpr,
    PATIENCE: tl.constexpr,
    PARTS: tl.constexpr,
):
    tp = tl.load(count_ptr).to(tl.float64) * P / _ONE
    fp = tl.load(count_ptr + 1).to(tl.float64) * P / _ONE
    tl.store(count_ptr, 0)
    tl.store(count_ptr + 1, 0)
    # The table: lambda of the constraints and of the ties, gamma of positives and of negatives, all
    # in units of 1/P; origin, P times the objective's scale, step, steps, learning rate, that of s,
    # patience; and then 9 numbers for each metric.
    step = tl.load(table_ptr + 6)
    tl.store(table_ptr + 6, step + 1.0)
    elapsed = step / tl.load(table_ptr + 7)
    cosine = (1.0 + tl.cos(elapsed * 3.141592653589793)) / 2.0
    tl.store(rate_ptr, (tl.load(table_ptr + 8) * cosine).to(tl.float32))
    if PATIENCE:
        # F of the step before, which is the sum of a part of the counts and one of the rows.
        sums = tl.zeros((PARTS,), tl.float64)
        for first in range(0, parts, PARTS):
            k = first + tl.arange(0, PARTS)
            sums += tl.load(part_ptr + k, mask=k < parts, other=0.0)
        # Rounded as autograd's, lest F decrease by less than it can represent.
        value = (tl.load(value_ptr) + tl.sum(sums, axis=0)).to(tl.float32).to(tl.float64)
        lowest, since = tl.load(value_ptr + 1), tl.load(value_ptr + 2)
        known = since >= 0.0  # before the first step there is no F
        since = tl.where(value < lowest, 0.0, since + 1.0)
        tl.store(value_ptr + 1, tl.where(value < lowest, value, lowest))
        tl.store(value_ptr + 2, since)
        stopped = tl.load(stopped_ptr)
        stopped = tl.where(known & (since >= tl.load(table_ptr + 10)), 1.0, stopped)
        tl.store(stopped_ptr, stopped)
    if ADAM:
        taken = tl.load(taken_ptr).to(tl.float64) + 1.0
        if PATIENCE:
            taken -= stopped
        tl.store(taken_ptr, taken.to(tl.float32))
        first_moment = 1.0 - tl.exp(taken * _LOG_BETA1)
        second_moment = 1.0 - tl.exp(taken * _LOG_BETA2)
        tl.store(move_ptr, (tl.load(table_ptr + 9) * cosine / first_moment).to(tl.float32))
        tl.store(move_ptr + 1, tl.sqrt(second_moment).to(tl.float32))
    o = table_ptr + _TABLE
    scale = -tl.load(o) * tl.load(table_ptr + 5)
    n1, n2, d1, d2 = tl.load(o + 2), tl.load(o + 3), tl.load(o + 5), tl.load(o + 6)
    top = tl.load(o + 1) + n1 * tp + n2 * fp
    bottom = tl.load(o + 4) + d1 * tp + d2 * fp
    safe = tl.where(bottom > 0, bottom, 1.0)
    worth = tl.where(bottom > 0, scale * (n1 * safe - top * d1) / (safe * safe), 0.0)
    cost = tl.where(bottom > 0, scale * (n2 * safe - top * d2) / (safe * safe), 0.0)
    value = scale * tl.where(bottom > 0, top / safe, tl.load(o + 7))
    lam = tl.load(table_ptr)
    for j in tl.static_range(CONSTRAINTS):
        c = table_ptr + _TABLE + 9 * (j + 1)
        sign, level = tl.load(c), tl.load(c + 8)
        n1, n2, d1, d2 = tl.load(c + 2), tl.load(c + 3), tl.load(c + 5), tl.load(c + 6)
        top = tl.load(c + 1) + n1 * tp + n2 * fp
        bottom = tl.load(c + 4) + d1 * tp + d2 * fp
        missed = sign * (level * bottom - top)
        broken = tl.where(missed > 0, lam * sign, 0.0)
        worth += broken * (level * d1 - n1)
        cost += broken * (level * d2 - n2)
        value += lam * tl.maximum(missed, 0.0)
    tl.store(price_ptr, worth.to(tl.float32))
    tl.store(price_ptr + 1, cost.to(tl.float32))
    if PATIENCE:
        tl.store(value_ptr, value / P)


@triton.jit
def _rows_kernel(  # type: ignore[no-untyped-def]
    z_ptr,
    s_ptr,
    sign_ptr,
    weight_ptr,
    slope_ptr,
    count_ptr,
    table_ptr,
    price_ptr,
    part_ptr,
    stopped_ptr,
    mean_ptr,
    square_ptr,
    move_ptr,
    t,
    n,
    EQUALITY: tl.constexpr,
    ADAM: tl.constexpr,
    PATIENCE: tl.constexpr,
    ROWS: tl.constexpr,
):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    lam = tl.load(table_ptr + 1).to(tl.float32)
    sign = tl.load(sign_ptr + i, mask=inside, other=0.0)
    gamma = tl.where(sign > 0, tl.load(table_ptr + 2), tl.load(table_ptr + 3)).to(tl.float32)
    z = tl.load(z_ptr + i, mask=inside, other=0.0) - tl.load(table_ptr + 4).to(tl.float32)
    s = tl.load(s_ptr + i, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + i, mask=inside, other=0.0)
    a = tl.sigmoid(z)
    u = s + a - t
    H = s - tl.minimum(tl.maximum(u, 0.0), 1.0)
    steep = (u >= 0.0) & (u <= 1.0)
    if EQUALITY:
        misses = tl.where(H > 0, lam, tl.where(H < 0, -lam, 0.0))
    else:
        misses = tl.where(H * sign > 0, lam * sign, 0.0)
    in_z = gamma * (a - s) - tl.where(steep, misses, 0.0) * a * (1.0 - a)
    tl.store(slope_ptr + i, in_z * weight, mask=inside)
    price = tl.where(sign > 0, tl.load(price_ptr), tl.load(price_ptr + 1))
    in_s = price - gamma * z + tl.where(steep, 0.0, misses)
    if ADAM:
        in_s *= weight
        mean = tl.load(mean_ptr + i, mask=inside, other=0.0)
        square = tl.load(square_ptr + i, mask=inside, other=0.0)
        new_mean = mean + 0.1 * (in_s - mean)
        new_square = 0.999 * square + 0.001 * in_s * in_s
        size = tl.sqrt(new_square) / tl.load(move_ptr + 1) + 1e-8
        moved = s - tl.load(move_ptr) * new_mean / size
    else:
        moved = s - tl.load(table_ptr + 9).to(tl.float32) * in_s
    moved = tl.minimum(tl.maximum(moved, 0.0), 1.0)
    if PATIENCE:
        softplus = tl.maximum(z, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(z)))
        # misses is lambda times the sign of H, or 0: their product is the violation's cost.
        value = weight * (gamma * (softplus - s * z) + misses * H)
        tl.store(part_ptr + tl.program_id(0), tl.sum(value.to(tl.float64), axis=0))
        stopped = tl.load(stopped_ptr) > 0
        moved = tl.where(stopped, s, moved)
        if ADAM:
            new_mean = tl.where(stopped, mean, new_mean)
            new_square = tl.where(stopped, square, new_square)
    if ADAM:
        tl.store(mean_ptr + i, new_mean, mask=inside)
        tl.store(square_ptr + i, new_square, mask=inside)
    tl.store(s_ptr + i, moved, mask=inside)
    # Integers, so that the sum does not depend on the order in which the programs end.
    counted = (moved * weight).to(tl.float64) * _ONE
    tp, fp = tl.where(sign > 0, counted, 0.0), tl.where(sign < 0, counted, 0.0)
    tl.atomic_add(count_ptr, tl.sum(tp, axis=0).to(tl.int64))
    tl.atomic_add(count_ptr + 1, tl.sum(fp, axis=0).to(tl.int64))


def parts_of(n: int) -> int:
    """Return into how many sums the rows' part of F is divided."""
    return int(triton.cdiv(n, _ROWS))


def slopes_in_counts(
    counts: Any,
    table: Any,
    price: Any,
    rate: Any,
    value: Any,
    parts: Any,
    stopped: Any,
    adam: tuple[Any, Any, Any, Any] | None,
    P: float,
    constraints: int,
    patience: bool,
) -> None:
    """Set P dF/dTP and P dF/dFP; reset the counts, advance the clock and the learning rates.

    With patience, ``value`` holds the counts' part of F, the lowest F and the steps since then
    (before the first step: infinity, infinity and -1), and ``parts`` the sums of
    :func:`slopes_and_s`. ``stopped`` becomes 1 when patience is exhausted. ``adam`` is the state of
    s: both moments, the number of steps, and what a step multiplies and divides by.
    """
    taken, move = (counts, price) if adam is None else adam[2:]  # unused without Adam
    _counts_kernel[(1,)](
        counts, table, price, rate, value, parts, stopped, taken, move, P, len(parts),
        CONSTRAINTS=constraints, ADAM=adam is not None, PATIENCE=patience, PARTS=_PARTS,
    )  # fmt: skip


def slopes_and_s(
    z: Any,
    s: Any,
    sign: Any,
    weight: Any,
    slope: Any,
    counts: Any,
    table: Any,
    price: Any,
    parts: Any,
    stopped: Any,
    adam: tuple[Any, Any, Any, Any] | None,
    t: float,
    equality: bool,
    patience: bool,
) -> None:
    """Set dF/dz, move s unless ``stopped``, count its new values, and sum the rows' part of F."""
    n = len(z)
    mean, square, _, move = (s, s, counts, price) if adam is None else adam
    _rows_kernel[(parts_of(n),)](
        z, s, sign, weight, slope, counts, table, price, parts, stopped, mean, square, move, t, n,
        EQUALITY=equality, ADAM=adam is not None, PATIENCE=patience, ROWS=_ROWS,
    )  # fmt: skip

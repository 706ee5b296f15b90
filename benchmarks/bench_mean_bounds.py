"""Width of upper bounds on a mean cost, in standard errors, by method, on the same draws.

Values are scaled to [0, 1]; rows are drawn from distributions with known means. The normal quantile
1.28 is the width of the usual bound, which is not valid: it is too low more often than it says.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy.optimize import brentq

from setpoint._internal.provenance import machine
from setpoint.certificates.means import mean_upper_bound
from setpoint.certificates.rates import upper_bound

CONFIDENCE, ERROR = 0.9, 0.1


def bernoulli(mean: float):
    return lambda rng, n: (rng.random(n) < mean) * 1.0


def log_normal(chance: float):
    return lambda rng, n: (
        np.minimum(np.exp(1.5 * rng.normal(size=n)), 50) / 50 * (rng.random(n) < chance)
    )


def pareto(chance: float):
    return lambda rng, n: (
        np.minimum(rng.random(n) ** (-1 / 1.2), 100) / 100 * (rng.random(n) < chance)
    )


def prices(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice([0.0, 0.05, 1.0], n, p=[0.945, 0.05, 0.005])


SETTINGS = {
    "0 or 1, mean 0.3, 500 rows": (bernoulli(0.3), 500),
    "0 or 1, mean 0.01, 2,000 rows": (bernoulli(0.01), 2000),
    "0 or 1, mean 0.001, 20,000 rows": (bernoulli(0.001), 20_000),
    "two prices, 10,000 rows": (prices, 10_000),
    "log-normal, 1 % of 20,000 rows": (log_normal(0.01), 20_000),
    "log-normal, 0.5 % of 100,000 rows": (log_normal(0.005), 100_000),
    "Pareto, 2 % of 5,000 rows": (pareto(0.02), 5000),
}


def constant_bet(values: np.ndarray, planned: np.ndarray) -> float:
    """Return the bound of the best constant bet for the variance of planning rows."""
    deviation = max(float(planned.std()), 1e-6)
    bet = min(math.sqrt(-2 * math.log(ERROR) / len(values)) / deviation, 0.95)

    def excess(m: float) -> float:
        return float(np.log1p(bet * (m - values)).sum()) + math.log(ERROR)

    return 1.0 if excess(1.0) < 0 else float(brentq(excess, 0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    print(machine(), f"\n{draws} draws, {CONFIDENCE:.0%} confidence; too low in parentheses\n")
    methods = ["betting, with a plan", "without", "constant bet", "Hoeffding-Bentkus", "normal"]
    print("| values |", " | ".join([*methods, "Clopper-Pearson", "ms"]), "|")
    print("|---" * (len(methods) + 3) + "|")
    for name, (draw, n) in SETTINGS.items():
        rng = np.random.default_rng(1)
        many = np.concatenate([draw(rng, 1_000_000) for _ in range(10)])
        mean, error = many.mean(), many.std() / math.sqrt(n)
        bounds, spent = [], 0.0
        for _ in range(draws):
            values, planned = draw(rng, n), draw(rng, n // 3)
            start = time.perf_counter()
            with_plan = mean_upper_bound(values, 0, 1, CONFIDENCE, planned=planned)
            spent += time.perf_counter() - start
            exact = math.nan
            if set(np.unique(values)) <= {0.0, 1.0}:
                exact = upper_bound(float(values.sum()), n, CONFIDENCE)
            bounds.append(
                (
                    with_plan,
                    mean_upper_bound(values, 0, 1, CONFIDENCE),
                    constant_bet(values, planned),
                    mean_upper_bound(values, 0, 1, CONFIDENCE, method="hoeffding-bentkus"),
                    values.mean() + 1.2816 * values.std() / math.sqrt(n),
                    exact,
                )
            )
        table = np.array(bounds)
        widths, low = (table.mean(axis=0) - mean) / error, (table < mean).mean(axis=0)
        cells = [
            "" if math.isnan(w) else f"{w:.2f} ({share:.0%})"
            for w, share in zip(widths, low, strict=True)
        ]
        print(f"| {name} |", " | ".join(cells), f"| {1000 * spent / draws:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""Small random rows with amounts, segments and days, and metrics of them by definition."""

import numpy as np


def rows_of(seed):
    """Few rows with ties in scores, weights, amounts, segments and days; both classes occur."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 13))
    y = rng.random(n) < 0.5
    y[:2] = True, False
    scores = rng.integers(0, 6, n) / 2
    weight = rng.integers(1, 4, n) / 2 if rng.random() < 0.5 else np.ones(n)
    amount = rng.choice([0.0, 1.0, 2.5, 40.0], n)
    region = rng.choice(["north", "south"], n)
    day = rng.integers(0, 3, n)
    return y, scores, weight, amount, region, day


def every_cut(scores):
    """Yield the alarms of every cut, from none to all."""
    for lowest in [np.inf, *np.unique(scores)[::-1]]:
        yield scores >= lowest


def fraction(top, bottom, empty=np.nan):
    return empty if bottom == 0 else top / bottom


# The value of each metric by its definition, from rows and decisions.


def precision(y, alarm, w):
    return fraction(w[alarm & y].sum(), w[alarm].sum(), 1.0)


def recall(y, alarm, w):
    return fraction(w[alarm & y].sum(), w[y].sum())


def cost(y, alarm, w, tp=0.0, fp=0.0, fn=0.0, tn=0.0):
    price = np.select([y & alarm, ~y & alarm, y & ~alarm], [tp, fp, fn], tn)
    return (w * price).sum() / w.sum()


def busiest(day, alarm, w, over=0):
    counts = sorted((w[alarm & (day == d)].sum() for d in np.unique(day)), reverse=True)
    return counts[over]


def in_segments(metric, y, alarm, w, region, level):
    """Return the shortfalls of a floor in each segment where the metric is defined."""
    found = []
    for name in np.unique(region):
        own = region == name
        if metric is recall and not w[own & y].sum():
            continue
        found.append(level - metric(y[own], alarm[own], w[own]))
    return found

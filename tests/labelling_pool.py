"""A pool of scored rows for the tests of labelling."""

import numpy as np

PRECISION = "max recall s.t. precision >= 0.8"
RECALL = "max precision s.t. recall >= 0.6"
BOTH = "max recall s.t. precision >= 0.5, recall >= 0.5"
GOALS = (PRECISION, RECALL, BOTH)


def rows(n=4000, prevalence=0.1, gap=3.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prevalence
    return y, rng.normal(size=n) + gap * y


Y, SCORES = rows()
PLANNING = rows(seed=1)

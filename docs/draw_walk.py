"""Draw docs/walk.png: the labels as a walk, and the two boundaries that it rarely crosses."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt

from setpoint.certificates.walk import WalkTest

LEVEL, ALPHA, ALARMS = 0.8, 0.1, 160
PLANNED, SHARE = 45, 0.85
START = 30


def main() -> None:
    """Draw successes above the level over the number of alarms."""
    k = np.arange(ALARMS + 1)
    test = WalkTest(LEVEL, PLANNED, SHARE * ALPHA)
    least_anywhere, least_on_the_way = [], []
    for trials in k:
        w = np.arange(trials + 1, dtype=float)
        anywhere = test.passes_anywhere(w, trials - w)
        way = test.passes_on_the_way(w, trials - w, ALPHA - test.crossing)
        least_anywhere.append(np.argmax(anywhere) if anywhere.any() else np.nan)
        least_on_the_way.append(np.argmax(way) if way.any() else np.nan)
    rng = np.random.default_rng(4)
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 4.2), layout="constrained", sharey=True)
    truths = (np.full(ALARMS, LEVEL), np.clip(1.02 - 0.0022 * np.arange(ALARMS), 0, 1))
    titles = ("40 walks whose precision is the level", "a classifier: precise at the top")
    for ax, truth, title in zip(axes, truths, titles, strict=True):
        for _ in range(40 if ax is axes[0] else 1):
            walk = np.append(0, np.cumsum(rng.random(ALARMS) < truth))
            look = {"color": "#0072b2", "lw": 0.7, "alpha": 0.5}
            if ax is axes[1]:
                look = {"color": "#0072b2", "lw": 1.8, "label": "true alarms"}
            ax.plot(k, walk - LEVEL * k, **look)
        ax.plot(k, least_anywhere - LEVEL * k, color="#d55e00", lw=2, label="anywhere")
        ax.plot(
            k[START:], (least_on_the_way - LEVEL * k)[START:], color="#009e73", lw=2, ls="--",
            label="on the way from the start",
        )  # fmt: skip
        ax.axhline(0, color="#bbbbbb", lw=0.8, zorder=0)
        ax.axvline(START, color="#bbbbbb", lw=0.8, zorder=0)
        ax.annotate("start", (START + 1, -11), color="#555555")
        ax.set(title=title, xlabel="alarms: rows in the order of falling scores", ylim=(-12, 12))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("true alarms minus 0.8 times alarms")
    axes[1].legend(frameon=False, loc="lower left", bbox_to_anchor=(0.35, 0))
    figure.savefig(Path(__file__).with_name("walk.png"), dpi=130)


if __name__ == "__main__":
    main()

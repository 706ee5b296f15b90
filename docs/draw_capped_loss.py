"""Draw docs/capped-loss.png: the capped loss as lambda grows."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
from matplotlib import pyplot as plt

from setpoint.method.capped_loss import capped_loss, capped_slope

COLOURS = ("#cc79a7", "#e69f00", "#009e73", "#0072b2")


def main() -> None:
    """Draw loss and slope over the margin, without and with the regulariser."""
    margin = torch.linspace(-6, 4, 4001, dtype=torch.float64)
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
    for lam, colour in zip((1.0, 4.0, 20.0, 1000.0), COLOURS, strict=True):
        look = {"color": colour, "lw": 1.8, "label": f"λ = {lam:g}"}
        axes[0].plot(margin, capped_loss(margin, 1.0, lam, 0.0), **look)
        axes[1].plot(margin, capped_loss(margin, 1.0, lam, 0.1), **look)
        axes[2].plot(margin, -capped_slope(margin, 1.0, lam, 0.1).clamp(min=-6), **look)
    axes[0].plot(margin, (margin < 0).double(), ":", color="black", lw=1.2, label="the count")
    axes[0].set(title="loss, γ = 0", ylabel="contribution of a sample of price 1")
    axes[1].set(title="loss, γ = 0.1")
    axes[2].set(title="pull, γ = 0.1", ylabel="minus the slope")
    axes[2].annotate("given up", (-4.6, 0.25), color="#555555")
    axes[2].annotate("right: only\nthe regulariser", (0.5, 0.4), color="#555555")
    for ax in axes:
        ax.axvline(0, color="#bbbbbb", lw=0.8, zorder=0)
        ax.set_xlabel("margin: logit above the threshold, > 0 is right")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(-0.05, 1.35)
    axes[1].set_ylim(-0.05, 1.75)
    axes[0].legend(frameon=False, loc="lower left")
    figure.savefig(Path(__file__).with_name("capped-loss.png"), dpi=130)


if __name__ == "__main__":
    main()

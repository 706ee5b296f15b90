"""The methods that the paper compares with."""

from setpoint.paper.competitors.lagrangian import Augmented, Lagrangian
from setpoint.paper.competitors.losses import LDAM, Focal, Resampled, SigmoidF1, Tilted

__all__ = ["LDAM", "Augmented", "Focal", "Lagrangian", "Resampled", "SigmoidF1", "Tilted"]

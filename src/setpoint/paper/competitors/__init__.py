"""The methods that the paper compares with."""

from setpoint.paper.competitors.augmented import Augmented
from setpoint.paper.competitors.lagrangian import Lagrangian
from setpoint.paper.competitors.losses import LDAM, Focal, SigmoidF1, Tilted
from setpoint.paper.competitors.resampled import Resampled

__all__ = ["LDAM", "Augmented", "Focal", "Lagrangian", "Resampled", "SigmoidF1", "Tilted"]

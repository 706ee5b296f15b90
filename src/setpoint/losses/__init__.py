"""Losses that others train with, one a file; :class:`setpoint.solvers.LossTraining` uses them."""

from setpoint.losses.base import LabelledRows, Loss
from setpoint.losses.cross_entropy import CrossEntropy
from setpoint.losses.focal import Focal
from setpoint.losses.ldam import LDAM
from setpoint.losses.sigmoid_f1 import SigmoidF1
from setpoint.losses.tilted import Tilted

__all__ = ["LDAM", "CrossEntropy", "Focal", "LabelledRows", "Loss", "SigmoidF1", "Tilted"]

"""Labelling: certify a goal on scored rows without labels, with as few labels as possible."""

from setpoint.labelling.certificate import PoolCertificate
from setpoint.labelling.known_classes import certify_known_classes
from setpoint.labelling.limits import Expectation
from setpoint.labelling.oracle import certify_pool
from setpoint.labelling.session import LabellingSession

__all__ = [
    "Expectation",
    "LabellingSession",
    "PoolCertificate",
    "certify_known_classes",
    "certify_pool",
]

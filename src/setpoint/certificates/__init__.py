"""Certificates: exact bounds on new data, certified thresholds, and monitoring."""

from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_best, certify_threshold
from setpoint.certificates.monitor import Verdict

__all__ = ["Bound", "Certificate", "Verdict", "certify", "certify_best", "certify_threshold"]

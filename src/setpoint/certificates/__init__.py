"""What holds on new data: exact bounds, thresholds with a guarantee, and a watch over them."""

from setpoint.certificates.bound import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_best, certify_threshold
from setpoint.certificates.monitor import Verdict

__all__ = ["Bound", "Certificate", "Verdict", "certify", "certify_best", "certify_threshold"]

"""Certificates: exact bounds on new data, certified thresholds, and monitoring."""

from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_best, certify_threshold
from setpoint.certificates.monitor import Verdict
from setpoint.certificates.multilabel import MultilabelCertificate, certify_labels
from setpoint.certificates.threshold_set import ThresholdSet

__all__ = [
    "Bound",
    "Certificate",
    "MultilabelCertificate",
    "ThresholdSet",
    "Verdict",
    "certify",
    "certify_best",
    "certify_labels",
    "certify_threshold",
]

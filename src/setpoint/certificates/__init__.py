"""Certificates: exact bounds on new data, certified thresholds, and monitoring."""

from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.bands import certify_band
from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_best, certify_threshold
from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.certificates.monitor import Verdict
from setpoint.certificates.multilabel import MultilabelCertificate, certify_labels
from setpoint.certificates.segments import SegmentCertificates, certify_by_segment
from setpoint.certificates.threshold_set import ThresholdSet

__all__ = [
    "BandCertificate",
    "Bound",
    "Certificate",
    "JointVerdict",
    "MultilabelCertificate",
    "SegmentCertificates",
    "ThresholdSet",
    "Verdict",
    "certify",
    "certify_band",
    "certify_best",
    "certify_by_segment",
    "certify_labels",
    "certify_threshold",
]

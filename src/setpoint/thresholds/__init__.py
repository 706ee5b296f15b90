"""Exact thresholds for goals, and operating points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy

if TYPE_CHECKING:
    from setpoint.thresholds.bands import BandPoint as BandPoint
    from setpoint.thresholds.bands import choose_band as choose_band
    from setpoint.thresholds.bands import evaluate_band as evaluate_band
    from setpoint.thresholds.by_segment import SegmentThresholds as SegmentThresholds
    from setpoint.thresholds.by_segment import (
        choose_thresholds_by_segment as choose_thresholds_by_segment,
    )
    from setpoint.thresholds.choose import choose_threshold as choose_threshold
    from setpoint.thresholds.choose import evaluate_threshold as evaluate_threshold
    from setpoint.thresholds.expected_value import compare_decisions as compare_decisions
    from setpoint.thresholds.multiclass import ClassWeights as ClassWeights
    from setpoint.thresholds.multiclass import choose_class_weights as choose_class_weights
    from setpoint.thresholds.multilabel import MultilabelPoint as MultilabelPoint
    from setpoint.thresholds.multilabel import choose_thresholds as choose_thresholds
    from setpoint.thresholds.multilabel import evaluate_thresholds as evaluate_thresholds
    from setpoint.thresholds.operating_point import OperatingPoint as OperatingPoint
    from setpoint.thresholds.stream import stream_evaluate as stream_evaluate
    from setpoint.thresholds.stream import stream_threshold as stream_threshold

_NAMES = {
    "bands": "BandPoint choose_band evaluate_band",
    "by_segment": "SegmentThresholds choose_thresholds_by_segment",
    "choose": "choose_threshold evaluate_threshold",
    "expected_value": "compare_decisions",
    "multiclass": "ClassWeights choose_class_weights",
    "multilabel": "MultilabelPoint choose_thresholds evaluate_thresholds",
    "operating_point": "OperatingPoint",
    "stream": "stream_evaluate stream_threshold",
}
__all__, __getattr__, __dir__ = lazy(globals(), _NAMES)

"""The models to choose from, and which goals and options go with each.

A command checks these before it imports torch, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from setpoint._internal.imports import BOOSTERS
from setpoint._internal.validation import did_you_mean, unknown_device
from setpoint.errors import SchemaError, SetpointError
from setpoint.goals.bands import AnyGoal, BandGoal
from setpoint.thresholds.label_goals import Average, LabelGoals

MODELS = {
    "auto": "the best of several kinds of models and a stack of them, compared for the goal",
    "linear": "a linear model, trained for the goal",
    "mlp": "a network of three layers, trained for the goal",
    "hgb": "gradient-boosted trees, with the exact threshold for the goal",
    "logistic": "logistic regression, with the exact threshold for the goal",
    "forest": "a random forest, with the exact threshold for the goal",
    "extra-trees": "extremely randomized trees, with the exact threshold for the goal",
    "xgboost": "trees of XGBoost, with the exact threshold for the goal",
    "lightgbm": "trees of LightGBM, with the exact threshold for the goal",
    "catboost": "trees of CatBoost, with the exact threshold for the goal",
}
AUTO = "auto"
TRAINED = ("linear", "mlp")  # for the goal
_DEVICES = ("auto", "cpu", "cuda")


def default_model(goal: AnyGoal) -> str:
    """Return the model of a goal if none is named: the best of several, or trees for a band."""
    return "hgb" if isinstance(goal, BandGoal) else "auto"


def check_model(name: str) -> None:
    """Raise SchemaError unless the model is known."""
    if name not in MODELS:
        raise SchemaError(
            f"there is no model {name!r}; choose one of {', '.join(MODELS)}."
            f"{did_you_mean(name, list(MODELS))}"
        )
    if name in BOOSTERS and find_spec(name) is None:
        raise SchemaError(
            f'the model {name!r} needs a library: pip install "setpoint[{name}]"; '
            "'hgb' are the boosted trees of scikit-learn."
        )


def check_decision(model: str, decision: str, thresholds: str) -> None:
    """Raise SetpointError if a model cannot decide in this way."""
    if model in TRAINED and (decision, thresholds) != ("threshold", "one"):
        asked = "decisions by expected value" if decision != "threshold" else "thresholds per group"
        others = ", ".join(name for name in MODELS if name not in TRAINED)
        raise SetpointError(f"{asked} work with {others}; {model!r} is trained for one threshold.")


def check_labels_model(model: str) -> None:
    """Raise SchemaError unless a model can be fitted to several labels."""
    check_model(model)
    if model in (*TRAINED, AUTO):
        others = ", ".join(name for name in MODELS if name not in (*TRAINED, AUTO))
        raise SchemaError(
            f"several targets work with {others}; {model!r} is for one label. Use --model "
            "logistic (model='logistic'), or one target at a time."
        )


def check_label_goals(
    targets: Sequence[str], goal: Any, average: Average, model: str
) -> LabelGoals:
    """Return the goals of several labels; raise an error for a wrong one, or a wrong model."""
    if twice := [name for name in dict.fromkeys(targets) if list(targets).count(name) > 1]:
        raise SchemaError(f"the target {twice[0]!r} is named twice.")
    check_labels_model(model)
    return LabelGoals.of(goal, targets, average)


def check_model_for(
    goal: AnyGoal,
    model: str,
    decision: str = "threshold",
    thresholds: str = "one",
    caps: Mapping[str, float] | None = None,
) -> None:
    """Raise SetpointError if a model, or its way to decide, is not for a goal."""
    check_decision(model, decision, thresholds)
    if not isinstance(goal, BandGoal):
        return
    if model in (*TRAINED, AUTO):
        others = ", ".join(name for name in MODELS if name not in (*TRAINED, AUTO))
        raise SetpointError(
            f"{model!r} is for one threshold, and '{goal}' is the goal of a review band, "
            f"with two; choose one of the models {others}."
        )
    if (decision, thresholds) != ("threshold", "one"):
        raise SetpointError(
            f"'{goal}' is the goal of a review band, which decides by its two thresholds alone; "
            "leave out other ways to decide."
        )
    if caps:
        raise SetpointError(
            f"caps are for certified bounds on costs; those of a review band, as in '{goal}', are "
            "minimised and not bounded."
        )


def check_time_limit(model: str, time_limit: float | None) -> None:
    """Raise SetpointError if a time limit is given for a single model, or is not positive."""
    if time_limit is None:
        return
    if model != AUTO:
        raise SetpointError(f"a time limit is for the model {AUTO!r}, not for {model!r}.")
    if not time_limit > 0:
        raise SetpointError(f"the time limit must be above 0 seconds, not {time_limit}.")


def check_device(device: Any, model: str) -> None:
    """Raise an error if a device is not available, or cannot train the model."""
    if isinstance(device, str):  # without torch, as far as possible
        if device in ("auto", "cpu"):
            return
        if device.partition(":")[0] not in _DEVICES:
            raise unknown_device(device)
    if model not in TRAINED and not str(device).startswith("cpu"):
        raise SchemaError(
            f"device='{device}' is for {' and '.join(TRAINED)}; {model!r} is trained on the CPU."
        )
    from setpoint._internal.devices import requested_device

    requested_device(device)


def check_streamable(model: str, group: str | None, time: str | None) -> None:
    """Raise an error for options that need the whole table in memory."""
    check_model(model)
    if model not in TRAINED:
        raise SetpointError(
            f"the model {model!r} needs the whole table in memory; only "
            f"{' and '.join(TRAINED)} can be trained on a streamed table."
        )
    if group is not None and time is not None:
        raise SetpointError(
            "groups and times together need the whole table in memory; name only one of them."
        )

"""How scores become decisions, as ONNX nodes: prices, thresholds per group, several labels."""

from __future__ import annotations

import numpy as np

from setpoint.estimators.band import SetpointBand
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.estimators import label_scores
from setpoint.export.graph import ML, Graph
from setpoint.goals.money import prices_of


def scoring_method(model: SetpointThreshold | SetpointBand) -> str:
    """Return the method whose scores the thresholds apply to."""
    if isinstance(model, SetpointThreshold) and model.decision == "expected_value":
        return "predict_proba"
    if model.response_method != "auto":
        return str(model.response_method)
    found = hasattr(model.estimator_, "decision_function")
    return "decision_function" if found else "predict_proba"


def margins(graph: Graph, model: SetpointThreshold, scores: str) -> str:
    """Add the prices and the thresholds; return the name of the scores relative to these."""
    if model.decision == "expected_value":
        scores = _savings(graph, model, scores)
    if model.segment_thresholds_ is not None:
        scores = graph.add("Sub", scores, _thresholds_of_rows(graph, model))
    return graph.add("Sub", scores, graph.constant(np.float64(model.threshold_)))


def _savings(graph: Graph, model: SetpointThreshold, probability: str) -> str:
    """Add what alarms are expected to save (``thresholds/expected_value.py``); return its name."""
    names = amounts_of(model)
    amounts = graph.input("amounts", np.float64, len(names)) if names else ""
    price: dict[str, str] = {}
    for outcome, (factor, amount) in prices_of(model.goal_.objective).items():
        price[outcome] = graph.constant(np.float64(factor))
        if amount:
            column = graph.constant(np.array(names.index(amount)))
            values = graph.add("Gather", amounts, column, axis=1)
            price[outcome] = graph.add("Mul", price[outcome], values)
    worth = graph.add("Sub", price["fn"], price["tp"])
    cost = graph.add("Sub", price["fp"], price["tn"])
    rest = graph.add("Sub", graph.constant(np.float64(1)), probability)
    gain, loss = graph.add("Mul", probability, worth), graph.add("Mul", rest, cost)
    saving = graph.add("Sub", gain, loss)
    return saving if model.goal_.objective.sign < 0 else graph.add("Neg", saving)


def _thresholds_of_rows(graph: Graph, model: SetpointThreshold) -> str:
    """Add the threshold of each row's segment; return its name."""
    found = model.segment_thresholds_
    assert found is not None
    known = list(found.thresholds)
    unseen = "".join(known) + "?"  # longer than any of them
    texts = model._known_segments(found.column, np.array([*known, unseen]))
    place = graph.add(
        "LabelEncoder", graph.input("segments", object), domain=ML,
        keys_strings=known, values_int64s=list(range(len(known))), default_int64=len(known),
    )  # fmt: skip
    return graph.add("Gather", graph.constant(found.of_rows(texts)), place)


def label_margins(graph: Graph, model: SetpointMultilabel) -> str:
    """Add the classifiers of all labels; return the name of their scores less the thresholds."""
    found = label_scores(graph, model._classifiers, "X")
    # A label without a classifier has the score 0.
    rows = graph.add("Shape", next(name for name in found if name))
    zero = graph.add("ConstantOfShape", rows, value=graph.tensor(np.zeros(1)))
    axis = graph.constant(np.array([1]))
    columns = [graph.add("Unsqueeze", name or zero, axis) for name in found]
    matrix = graph.add("Concat", *columns, axis=1)
    return graph.add("Sub", matrix, graph.constant(np.asarray(model.thresholds_, np.float64)))


def amounts_of(model: SetpointThreshold) -> list[str]:
    """Return the amounts that decisions need, without those that only constraints name."""
    prices = prices_of(model.goal_.objective).values()
    return list(dict.fromkeys(price.amount for price in prices if price.amount))

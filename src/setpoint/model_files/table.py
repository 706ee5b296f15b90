"""TableModel as JSON and files, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from setpoint.model_files.plain import decode, encode
from setpoint.model_files.sklearn_part import estimator_from_bytes, estimator_to_bytes
from setpoint.model_files.threshold import Described
from setpoint.model_files.values import Json

if TYPE_CHECKING:
    from setpoint.tabular import TableModel

ENCODER = "encoder.skops"


def table_to_json(model: TableModel, describe: Callable[[Any], Described]) -> Described:
    """Return what model.json says of a model of tables, and its files."""
    classifier, parts = describe(model.classifier)
    content: Json = {
        "kind": "TableModel",
        "schema": encode(model.schema.to_dict()),
        "classifier": classifier,
        "target": model.target,
        "negative": encode(model.negative),
        "positive": encode(model.positive),
        "facts": encode(dict(model.facts)),
    }
    return content, {**parts, ENCODER: estimator_to_bytes(model.encoder, "The encoder")}


def table_from_json(
    content: Json, parts: dict[str, bytes], restore: Callable[[Json], Any]
) -> TableModel:
    """Return the model of tables; ``restore`` gives back its classifier."""
    from setpoint.tabular import Schema, TableModel

    return TableModel(
        schema=Schema.from_dict(decode(content["schema"])),
        encoder=estimator_from_bytes(parts[ENCODER]),
        classifier=restore(content["classifier"]),
        target=content["target"],
        negative=decode(content["negative"]),
        positive=decode(content["positive"]),
        facts=decode(content["facts"]),
    )

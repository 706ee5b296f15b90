"""TableModel as JSON and files, and back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from setpoint._internal.imports import need
from setpoint.errors import ModelFileError
from setpoint.estimators.saving import describe, restore
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.values import Json, decode, encode

if TYPE_CHECKING:
    from setpoint.tables.model import TableModel


ENCODER = "encoder.skops"
_LABEL = (str, int, float)  # and so booleans


def describe_table(model: TableModel) -> Described:
    """Return the JSON of a table model, and the content of its files."""
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


def restore_table(content: Json, parts: dict[str, bytes], module: Any) -> TableModel:
    """Return the table model that :func:`describe_table` described."""
    from setpoint.tables.model import TableModel
    from setpoint.tables.schema import Schema

    model = TableModel(
        schema=Schema.from_dict(decode(content["schema"])),
        encoder=estimator_from_bytes(parts[ENCODER]),
        classifier=restore(content["classifier"], parts, module),
        target=content["target"],
        negative=decode(content["negative"]),
        positive=decode(content["positive"]),
        facts=decode(content["facts"]),
    )
    wanted: dict[str, Any] = {"target": str, "negative": _LABEL, "positive": _LABEL, "facts": dict}
    for name, kind in wanted.items():
        if not isinstance(getattr(model, name), kind):
            raise ModelFileError(f"the {name} of the model is {getattr(model, name)!r}.")
    _try(model)
    return model


def _try(model: TableModel) -> None:
    """Refuse an encoder and a classifier that cannot score a row, here one of missing values."""
    pandas = need("pandas", "cli", "a table")
    row = pandas.DataFrame({name: [None] for name in model.schema.names})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.strangers(row)
            model.scores(row)
    except ImportError:  # a missing extra, which it names
        raise
    except Exception as error:  # whatever parts may raise that do not belong together
        raise ModelFileError(
            f"the columns, encoder and classifier of the model do not fit each other "
            f"({type(error).__name__}: {error}); the file is damaged, or other versions of "
            "libraries made it."
        ) from error

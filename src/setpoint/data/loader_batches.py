"""Batches of a data loader as calls of a module: its inputs, the labels, and the weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.data.loaders import column, describe, truths
from setpoint.data.rows import as_weights
from setpoint.errors import SetpointError, SourceError

_LABELS = ("labels", "label")  # the keys that Hugging Face's collators use


@dataclass(frozen=True)
class LoaderBatch:
    """Labelled rows as a loader yields them.

    Attributes
    ----------
    inputs : Any
        A tensor; a tuple or list of a module's inputs; or a mapping of their names.
    positive : Tensor of bool, shape (m,)
        The labels.
    weight : Tensor of float64, shape (m,)
        Weights >= 0 of the counts.
    name : str
        What the batch is called in errors.
    """

    inputs: Any
    positive: Tensor
    weight: Tensor
    name: str

    def __len__(self) -> int:
        return len(self.positive)

    def output(self, module: nn.Module, device: torch.device) -> Any:
        """Call the module with the inputs, moved to a device, and return its output."""
        inputs = _moved(self.inputs, device)
        try:
            if isinstance(inputs, Mapping):
                return module(**inputs)
            return module(*inputs) if isinstance(inputs, tuple | list) else module(inputs)
        except (SetpointError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a module can raise anything
            raise SetpointError(
                f"the model cannot take {self.name}, {_layout(self.inputs)}: {error}. A batch is "
                "(x, y), ((x1, x2), y) or a dict of inputs and labels; it is changed in the "
                "loader's collate_fn."
            ) from error


class LoaderBatches:
    """The batches of a loader, in as many passes as one likes.

    Parameters
    ----------
    loader : iterable
        A ``DataLoader``, or any iterable that starts from the beginning each time, of batches
        ``(x, y)`` or ``(x, y, weight)``, in which x is a tensor, or a tuple, list or dict of a
        module's inputs; or of dicts of inputs and labels.
    label : str, optional
        The key of the labels in dicts; by default "labels" or "label".
    weight : str, optional
        The key of the weights in dicts.
    on : str
        What the loader is called in errors.

    Examples
    --------
    >>> batches = LoaderBatches([{"ids": torch.ones(2, 3), "labels": torch.tensor([0, 1])}])
    >>> [(list(batch.inputs), batch.positive.tolist()) for batch in batches]
    [(['ids'], [False, True])]
    """

    def __init__(
        self, loader: Any, *, label: str | None = None, weight: str | None = None, on: str = ""
    ) -> None:
        if isinstance(loader, Iterator):
            raise SourceError(
                f"a {type(loader).__name__} can be iterated only once, and training takes several "
                "passes; pass a list of batches, a DataLoader, or an object whose __iter__ starts "
                "from the beginning."
            )
        if not isinstance(loader, Iterable) or isinstance(loader, Tensor | np.ndarray | Mapping):
            raise SourceError(
                f"a {type(loader).__name__} is not an iterable of batches; wrap a dataset of rows "
                "in a torch.utils.data.DataLoader."
            )
        self.loader: Any = loader
        self.label, self.weight, self.on = label, weight, on
        self._first: tuple[Any, str] | None = None  # how the first batch is laid out

    def __iter__(self) -> Iterator[LoaderBatch]:
        rows = 0
        for place, batch in enumerate(self.loader):
            found = self._read(batch, f"batch {place}{self.on and ' of ' + self.on}")
            structure = _structure(found.inputs)
            first = self._first = self._first or (structure, _layout(found.inputs))
            if structure != first[0]:
                raise SourceError(
                    f"{found.name} has {_layout(found.inputs)}, and the first batch {first[1]}; "
                    "all batches must have the same inputs, of the same types and dimensions."
                )
            rows += len(found)
            if len(found):
                yield found
        if rows == 0:
            once = " Can it be iterated only once?" if self._first else ""
            raise SourceError(f"the loader{self.on and ' of ' + self.on} yields no rows.{once}")

    def steps(self) -> int | None:
        """Return how many batches a pass has, if the loader knows."""
        try:
            return len(self.loader)
        except TypeError:  # it has no length, or that of its dataset is unknown
            return None

    def _read(self, batch: Any, name: str) -> LoaderBatch:
        inputs, y, weight = self._parts(batch, name)
        if isinstance(y, list):
            y = torch.as_tensor(y)
        rows = len(y) if isinstance(y, Tensor | np.ndarray) and y.ndim else 0
        if isinstance(inputs, Tensor | np.ndarray):
            if inputs.ndim and len(inputs) != rows and isinstance(y, Tensor | np.ndarray):
                column(y, "y", len(inputs), name)  # raises the error that says so
            rows = len(inputs) if inputs.ndim else rows
        positive = truths(column(y, "y", rows, name), name)
        weights = torch.ones(len(positive), dtype=torch.float64)
        if weight is not None:
            found = column(weight, "weight", rows, name)
            weights = as_weights(found, lambda row: f"weight[{row}] of {name}")
        return LoaderBatch(inputs, positive, weights, name)

    def _parts(self, batch: Any, name: str) -> tuple[Any, Any, Any]:
        """Return the inputs, labels and weights of a batch."""
        if isinstance(batch, Mapping):
            keys = (self.label,) if self.label else _LABELS
            label = next((key for key in keys if key in batch), None)
            missing = next((k for k in (self.weight,) if k is not None and k not in batch), None)
            if label is None or missing is not None:
                wanted = repr(missing) if label else " or ".join(map(repr, keys))
                raise SourceError(
                    f"{name} is a dict without {wanted}; its keys are "
                    f"{', '.join(map(repr, batch))}. Name the key of the labels, e.g. "
                    'label="target", and that of the weights, if there are any.'
                )
            inputs = {k: v for k, v in batch.items() if k not in (label, self.weight)}
            if not inputs:
                raise SourceError(f"{name} has labels and no inputs for the model.")
            return inputs, batch[label], None if self.weight is None else batch[self.weight]
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise SourceError(
                f"{name} is {describe(batch)}; a loader yields (x, y), (x, y, weight) or a dict of "
                "inputs and labels, and several inputs as ((x1, x2), y). Select and order the "
                "items with the loader's collate_fn."
            )
        inputs, y, *rest = batch
        if not isinstance(inputs, Tensor | np.ndarray | tuple | list | Mapping) or not len(inputs):
            raise SourceError(
                f"x of {name} is {describe(inputs)}; it must be a tensor, or a tuple, list or dict "
                "of a module's inputs."
            )
        return inputs, y, rest[0] if rest else None


def _moved(value: Any, device: torch.device) -> Any:
    """Return inputs on a device; arrays become tensors, those of floats in torch's usual type."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.ascontiguousarray(value))
        value = value.to(torch.get_default_dtype()) if value.is_floating_point() else value
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_moved(each, device) for each in value]
    return value


def _structure(value: Any) -> Any:
    """Return what all batches have in common; lengths may differ, as those of padded texts do."""
    if isinstance(value, Tensor | np.ndarray):
        return str(value.dtype), value.ndim
    if isinstance(value, Mapping):
        return {key: _structure(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_structure(each) for each in value]
    return type(value).__name__


def _layout(inputs: Any) -> str:
    """Return a description of inputs with their shapes."""
    if isinstance(inputs, Tensor | np.ndarray):
        return f"an input of the shape {tuple(inputs.shape)} of {inputs.dtype}"
    if isinstance(inputs, Mapping):
        return f"the inputs {', '.join(f'{key} {_size(each)}' for key, each in inputs.items())}"
    return f"{len(inputs)} inputs {', '.join(map(_size, inputs))}"


def _size(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{tuple(value.shape)} of {value.dtype}"
    return describe(value)

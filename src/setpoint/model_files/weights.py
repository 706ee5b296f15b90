"""Tensors as safetensors and back."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from setpoint._extras import need
from setpoint.model_files.errors import ModelFileError


def tensors_to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors in the safetensors format, which holds numbers and nothing else."""
    library = need("safetensors.torch", "files", "A saved model")
    # Copies, since safetensors wants each tensor to have memory of its own.
    apart = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    try:
        return bytes(library.save(apart))
    except Exception as error:  # quantised, sparse or other tensors that the format does not know
        raise ModelFileError(f"the weights cannot be saved: {error}") from error


def tensors_from_bytes(data: bytes) -> dict[str, Tensor]:
    """Return the tensors by name."""
    library = need("safetensors.torch", "files", "A saved model")
    try:
        return dict(library.load(data))
    except Exception as error:  # damage shows itself in many ways
        raise ModelFileError(f"the weights cannot be read: {error}") from error

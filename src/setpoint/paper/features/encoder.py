"""What turns items into vectors."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint.errors import SetpointError

Features = NDArray[np.float32]


class Encoder(Protocol):
    """Turns items, such as texts or image files, into vectors of one length.

    The vector of an item must not depend on the items beside it in a batch, beyond rounding.

    An encoder may also have a method ``length(item) -> int``. Items of like length then share
    batches, the longest first: less padding, and a batch too large for the device shows at once.
    """

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the vectors: weights, configuration, preprocessing.

        It names a folder of the cache: letters, digits, dots, underscores and hyphens.
        """
        ...

    def digest(self, item: Any) -> str:
        """Return a digest of the item's content, never of its name."""
        ...

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per item, shape (k, dimension)."""
        ...


_PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Where a model came from and how its file was written: no feature depends on it.
_INDIFFERENT = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"}


def require(module: str) -> Any:
    """Import a module of the extra ``features``, or say how to install it."""
    return need(module, "features", "feature extraction")


def load(
    preprocessor: str,
    name: str | os.PathLike[str],
    revision: str,
    device: str,
    precision: str,
) -> tuple[Any, Any]:
    """Return a pretrained model, ready to be evaluated, and its tokenizer or image processor.

    Parameters
    ----------
    preprocessor : {"AutoTokenizer", "AutoImageProcessor"}
        What is loaded beside the model.
    name, revision, device, precision
        See :meth:`setpoint.paper.features.TextEncoder.from_pretrained`.
    """
    dtype, where = _dtype(precision), _device(device)
    name = os.fspath(name)
    _load("AutoConfig", name, revision)  # the smallest part first: what is not there, fails soon
    beside = _load(preprocessor, name, revision)
    model, found = _load("AutoModel", name, revision, output_loading_info=True)
    # transformers fills gaps with random numbers: vectors that look like features and are none.
    gaps = sorted(key for key in found["missing_keys"] if not key.startswith("pooler."))
    if gaps:
        raise SetpointError(
            f"the weights of {name!r} lack {len(gaps)} of the model's tensors, e.g. {gaps[0]!r}; "
            "is the file complete, and of this architecture?"
        )
    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # a head on top of the first token, not used here
    return model.to(device=where, dtype=dtype).eval().requires_grad_(False), beside


def _load(part: str, name: str, revision: str, **options: Any) -> Any:
    """Return what a class of transformers finds; code that comes with a model is never run."""
    transformers = require("transformers")
    try:
        return getattr(transformers, part).from_pretrained(
            name, revision=revision, trust_remote_code=False, **options
        )
    except Exception as error:  # network, spelling, damaged files: each fails in its own way
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        if os.path.isdir(name):
            advice = (
                "The folder must hold config.json, the weights, and the files of the tokenizer or "
                "image processor, as save_pretrained writes them."
            )
        else:
            advice = (
                "There is no such folder. If it is the name of a model of huggingface.co, check "
                f"its spelling; without a network, run `hf download {name} --local-dir FOLDER` "
                "where there is one, bring the folder here and pass its path."
            )
        raise SetpointError(
            f"{name!r} could not be loaded by transformers.{part}: {reason}\n{advice}"
        ) from error


def first_token(model: Any, inputs: Mapping[str, Any]) -> Features:
    """Return the first token of the last layer, [CLS], of each item of a batch.

    ``pooler_output`` would be the same in DINOv2, but in BERT it is a further layer, trained to
    tell whether two sentences belong together.
    """
    with torch.inference_mode():
        hidden = model(**inputs).last_hidden_state[:, 0]
    found: Features = hidden.float().cpu().numpy()
    return found


def fingerprint(model: Any, preprocessing: Mapping[str, Any]) -> str:
    """Return a digest of a model's class, configuration, precision, weights and preprocessing."""
    config = {k: v for k, v in model.config.to_dict().items() if k not in _INDIFFERENT}
    described = {
        "class": type(model).__name__,
        "config": config,
        "preprocessing": preprocessing,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        # As bytes: numpy has no bfloat16.
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(np.ascontiguousarray(flat.numpy()).data)
    return digest.hexdigest()


def _dtype(precision: str) -> torch.dtype:
    if precision not in _PRECISIONS:
        raise SetpointError(f"precision {precision!r} is none of {', '.join(_PRECISIONS)}.")
    return _PRECISIONS[precision]


def _device(device: str) -> torch.device:
    """Return the device asked for, or the fastest one at hand."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SetpointError(
            f"the device {device!r} cannot be used ({reason}); "
            "'auto' takes a GPU where there is one, else the CPU."
        ) from error
    return found


# DOC of features._pretrained: What text and image encoders share: loading a model, and telling it from others.

"""Encoders of texts and images: the [CLS] vectors of pretrained models."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import torch

from setpoint._internal.imports import need
from setpoint._internal.validation import check_whole
from setpoint.errors import SetpointError
from setpoint.paper.features.cache import Features
from setpoint.paper.features.pixels import PIXEL_FORMAT, read_pixels

_PLACES = ("_file", "name_or_path")  # options that name files
_PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# The origin of a model and the format of its file do not affect features.
_IRRELEVANT = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"}


class _PretrainedEncoder:
    """The members that text and image encoders have in common."""

    model: Any

    @property
    def dimension(self) -> int:
        """The length of a vector, e.g. 768 for bert-base-uncased, 1536 for dinov2-giant."""
        return int(self.model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the model's class, configuration, weights, precision and preprocessing."""
        config = {k: v for k, v in self.model.config.to_dict().items() if k not in _IRRELEVANT}
        described = {
            "class": type(self.model).__name__,
            "config": config,
            "preprocessing": self._preprocessing(),
        }
        digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
        for name, value in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            # As bytes: numpy has no bfloat16.
            flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(np.ascontiguousarray(flat.numpy()).data)
        return digest.hexdigest()

    def _preprocessing(self) -> dict[str, Any]:
        raise NotImplementedError

    def _first_token(self, inputs: Mapping[str, Any]) -> Features:
        """Return the first token, [CLS], of the last layer for each item of a batch.

        ``pooler_output`` is the same in DINOv2, but in BERT it is a further layer, trained to
        predict the next sentence.
        """
        with torch.inference_mode():
            hidden = self.model(**inputs).last_hidden_state[:, 0]
        found: Features = hidden.float().cpu().numpy()
        return found


class TextEncoder(_PretrainedEncoder):
    """The [CLS] vector of a text in the last layer of a pretrained model, e.g. BERT.

    Texts are truncated to ``max_tokens`` tokens, including [CLS] and [SEP]. A missing text is an
    error, an empty one is not. Lone surrogates are read as U+FFFD.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A model whose output has ``last_hidden_state``.
    tokenizer : transformers.PreTrainedTokenizerBase
        Its tokenizer, which must put [CLS] first. It is set to pad and truncate on the right.
    max_tokens : int
        Most tokens of a text; 128 in the paper.
    """

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int = 128) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = _check_tokens(model, tokenizer, max_tokens)
        tokenizer.padding_side = tokenizer.truncation_side = "right"

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        max_tokens: int = 128,
        device: str = "auto",
        precision: str = "float32",
        *,
        revision: str = "main",
    ) -> TextEncoder:
        """Load a model from huggingface.co, or from a folder written by ``save_pretrained``.

        Parameters
        ----------
        name : str or path-like
            E.g. ``"bert-base-uncased"`` (768 features), the paper's; or a path.
        max_tokens : int
            Most tokens of a text.
        device : str
            ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda:1"``, ...
        precision : {"float32", "float16", "bfloat16"}
            Precision of the weights and the computation. Features are always float32.
        revision : str
            A branch, tag or commit of the model's repository.
        """
        model, tokenizer = _pretrained("AutoTokenizer", name, revision, device, precision)
        return cls(model, tokenizer, max_tokens)

    def _preprocessing(self) -> dict[str, Any]:
        return {"tokenizer": _describe(self.tokenizer), "max_tokens": self.max_tokens}

    def digest(self, item: Any) -> str:
        """Return a digest of a text."""
        return hashlib.sha256(_text(item).encode()).hexdigest()

    def length(self, item: Any) -> int:
        """Return the number of characters, by which texts are grouped into batches."""
        return len(item)

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per text; texts are padded to the longest of them."""
        texts = [_text(item) for item in items]
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        inputs = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        return self._first_token(inputs.to(self.model.device))


def _text(item: Any) -> str:
    """Return a text that can be written as UTF-8."""
    if not isinstance(item, str):
        raise SetpointError(
            f"a text must be a str, not {item!r} ({type(item).__name__}); drop rows without a "
            "text, or use ''."
        )
    text = str(item)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair of surrogates becomes the character that it encodes.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _check_tokens(model: Any, tokenizer: Any, max_tokens: int) -> int:
    """Return ``max_tokens`` if model and tokenizer support it and fit each other."""
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise SetpointError(
            "the tokenizer has no words, only special tokens: its files (tokenizer.json or "
            "vocab.txt) are missing from the model's folder."
        )
    if len(tokenizer) > model.config.vocab_size:
        raise SetpointError(
            f"the tokenizer has {len(tokenizer)} tokens, the model {model.config.vocab_size}; use "
            "the tokenizer of this model."
        )
    ids = tokenizer("a")["input_ids"]
    if tokenizer.cls_token_id is None or ids[0] != tokenizer.cls_token_id:
        raise SetpointError(
            "the tokenizer does not put a [CLS] token first, so the model has no vector for a "
            "whole text; use a model like BERT."
        )
    if tokenizer.pad_token_id is None:
        raise SetpointError("the tokenizer has no padding token; set tokenizer.pad_token.")
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    most = min(tokenizer.model_max_length, positions)
    least = tokenizer.num_special_tokens_to_add() + 1
    return check_whole(max_tokens, "max_tokens", least, most)


def _describe(tokenizer: Any) -> Any:
    """Return everything that determines how a text becomes tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer written in Python
        options = {k: v for k, v in tokenizer.init_kwargs.items() if not k.endswith(_PLACES)}
        return [type(tokenizer).__name__, tokenizer.get_vocab(), options]
    described = json.loads(backend.to_str())
    # Settings of the last call; every call sets them again.
    return {k: v for k, v in described.items() if k not in ("truncation", "padding")}


class ImageEncoder(_PretrainedEncoder):
    """The [CLS] vector of an image file in the last layer of a pretrained model, e.g. DINOv2.

    :func:`setpoint.paper.features.pixels.read_pixels` turns files into pixels.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A model of image patches whose output has ``last_hidden_state`` with [CLS] first.
    processor : transformers image processor
        Its mean, standard deviation and resampling method are used; its sizes are not.
    size : int
        Images are resized to ``size`` x ``size``; 224 in the paper.
    workers : int, optional
        Threads that read files; by default one per core, at most 16.
    """

    def __init__(
        self, model: Any, processor: Any, size: int = 224, workers: int | None = None
    ) -> None:
        self.model = model
        self.size = _check_size(model, size)
        self.workers = (
            min(16, os.cpu_count() or 1) if workers is None else check_whole(workers, "workers")
        )
        self._resample = int(processor.resample)
        # For pixels from 0 to 1; the processor's pixels range from 0 to 255.
        scale = 255 * processor.rescale_factor
        self._mean = np.asarray(processor.image_mean, np.float32) / np.float32(scale)
        self._std = np.asarray(processor.image_std, np.float32) / np.float32(scale)

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        size: int = 224,
        device: str = "auto",
        precision: str = "float32",
        *,
        revision: str = "main",
        workers: int | None = None,
    ) -> ImageEncoder:
        """Load a model from huggingface.co, or from a folder written by ``save_pretrained``.

        Parameters
        ----------
        name : str or path-like
            E.g. ``"facebook/dinov2-giant"`` (ViT-g/14, 1536 features), the paper's; or a path.
        size, workers : int
            See the class.
        device, precision, revision : str
            See :meth:`TextEncoder.from_pretrained`.
        """
        model, processor = _pretrained("AutoImageProcessor", name, revision, device, precision)
        return cls(model, processor, size, workers)

    def _preprocessing(self) -> dict[str, Any]:
        return {
            "format": PIXEL_FORMAT,
            "size": self.size,
            "resample": self._resample,
            "mean": self._mean.tolist(),
            "std": self._std.tolist(),
        }

    def digest(self, item: Any) -> str:
        """Return a digest of the bytes of a file."""
        try:
            with open(_path(item), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise SetpointError(
                f"the image {_path(item)!r} cannot be read: {error.strerror}."
            ) from error

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per image file."""
        paths = [_path(item) for item in items]
        if not paths:
            return np.empty((0, self.dimension), np.float32)
        with ThreadPoolExecutor(min(self.workers, len(paths))) as pool:
            images = list(pool.map(self._normalised, paths))
        batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        pixels = batch.to(self.model.device, self.model.dtype).contiguous()
        return self._first_token({"pixel_values": pixels})

    def _normalised(self, path: str) -> Features:
        pixels: Features = (read_pixels(path, self.size, self._resample) - self._mean) / self._std
        return pixels


def _path(item: Any) -> str:
    """Return the path of an image file."""
    if not isinstance(item, str | os.PathLike):
        raise SetpointError(
            f"an image must be the path of a file, not {item!r} ({type(item).__name__})."
        )
    return os.fsdecode(os.fspath(item))


def _check_size(model: Any, size: int) -> int:
    """Return the size if it is a multiple of the model's patches."""
    config = model.config
    patch = getattr(config, "patch_size", None)
    if not isinstance(patch, int) or getattr(config, "num_channels", None) != 3:
        raise SetpointError(
            f"{type(model).__name__} is not a model of RGB images in square patches; use one like "
            "'facebook/dinov2-giant'."
        )
    size = check_whole(size, "size", patch)
    if size % patch:
        near = size // patch * patch
        raise SetpointError(
            f"size must be a multiple of {patch}, the size of the model's patches: {near} or "
            f"{near + patch}, not {size}."
        )
    return size


# --- pretrained models --------------------------------------------------------------------------


def _pretrained(
    preprocessor: str,
    name: str | os.PathLike[str],
    revision: str,
    device: str,
    precision: str,
) -> tuple[Any, Any]:
    """Return a pretrained model in evaluation mode, and its tokenizer or image processor."""
    if precision not in _PRECISIONS:
        raise SetpointError(
            f"precision must be one of {', '.join(_PRECISIONS)}, not {precision!r}."
        )
    where = _device(device)
    name = os.fspath(name)
    _load("AutoConfig", name, revision)  # the smallest file first, to fail early
    beside = _load(preprocessor, name, revision)
    model, found = _load("AutoModel", name, revision, output_loading_info=True)
    # transformers fills missing tensors with random numbers, which would pass unnoticed.
    gaps = sorted(key for key in found["missing_keys"] if not key.startswith("pooler."))
    if gaps:
        raise SetpointError(
            f"the weights of {name!r} lack {len(gaps)} of the model's tensors, e.g. {gaps[0]!r}; "
            "check that the file is complete and of this architecture."
        )
    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # a layer on top of the first token, not used here
    return model.to(device=where, dtype=_PRECISIONS[precision]).eval().requires_grad_(False), beside


def _load(part: str, name: str, revision: str, **options: Any) -> Any:
    """Load with a class of transformers; code that comes with a model is never run."""
    transformers = need("transformers", "features", "feature extraction")
    try:
        return getattr(transformers, part).from_pretrained(
            name, revision=revision, trust_remote_code=False, **options
        )
    except Exception as error:  # network, spelling, damaged files: many kinds of errors
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        if os.path.isdir(name):
            advice = (
                "The folder must contain config.json, the weights, and the files of the tokenizer "
                "or image processor, as save_pretrained writes them."
            )
        else:
            advice = (
                "There is no such folder. If it is the name of a model on huggingface.co, check "
                f"its spelling; without a network, run `hf download {name} --local-dir FOLDER` "
                "on a connected machine, copy the folder here and pass its path."
            )
        raise SetpointError(
            f"{name!r} could not be loaded by transformers.{part}: {reason}\n{advice}"
        ) from error


def _device(device: str) -> torch.device:
    """Return the requested device, or the fastest available one."""
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
            "'auto' uses a GPU if there is one, else the CPU."
        ) from error
    return found

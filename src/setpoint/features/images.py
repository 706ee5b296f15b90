"""Vectors of images, by DINOv2 and its kin."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import torch

from setpoint.errors import SetpointError
from setpoint.features._checks import check_whole
from setpoint.features._pretrained import fingerprint, first_token, load
from setpoint.features.encoder import Features
from setpoint.features.pixels import read_pixels

_FORMAT = 1  # of what pixels.py does; a change there must not meet vectors from before it


class ImageEncoder:
    """The [CLS] vector of an image file after the last layer norm of a pretrained model.

    How files become pixels is told in :func:`setpoint.features.pixels.read_pixels`.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A model that cuts images into patches and whose output has ``last_hidden_state`` with
        [CLS] first.
    processor : transformers image processor
        Its mean, standard deviation and way of resizing are used; its sizes are not.
    size : int
        Images are resized to ``size`` x ``size``; 224 in the paper.
    workers : int, optional
        Threads that read files; by default one per core, 16 at most.
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
        # Of pixels from 0 to 1; a processor starts from 0 to 255.
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
        """Load a model of huggingface.co, or one that ``save_pretrained`` wrote to a folder.

        Parameters
        ----------
        name : str or path-like
            E.g. ``"facebook/dinov2-giant"`` (ViT-g/14, 1536 features), the paper's; or a path.
        size : int
            Images are resized to ``size`` x ``size``.
        device : str
            ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda:1"``, ...
        precision : {"float32", "float16", "bfloat16"}
            Of the weights and the computation. The features are float32 in any case.
        revision : str
            A branch, tag or commit of the model's repository.
        workers : int, optional
            Threads that read files.
        """
        model, processor = load("AutoImageProcessor", name, revision, device, precision)
        return cls(model, processor, size, workers)

    @property
    def dimension(self) -> int:
        """The length of a vector: 1536 for dinov2-giant."""
        return int(self.model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the weights, the configuration, the size and the normalisation."""
        preprocessing = {
            "format": _FORMAT,
            "size": self.size,
            "resample": self._resample,
            "mean": self._mean.tolist(),
            "std": self._std.tolist(),
        }
        return fingerprint(self.model, preprocessing)

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
        return first_token(self.model, {"pixel_values": pixels})

    def _normalised(self, path: str) -> Features:
        pixels: Features = (read_pixels(path, self.size, self._resample) - self._mean) / self._std
        return pixels


def _path(item: Any) -> str:
    """Return the path of a file as a str."""
    if not isinstance(item, str | os.PathLike):
        raise SetpointError(
            f"an image must be given as the path of its file, but this is {item!r} "
            f"({type(item).__name__})."
        )
    path = os.fspath(item)
    return os.fsdecode(path)


def _check_size(model: Any, size: int) -> int:
    """Return a size that the model's patches cover."""
    config = model.config
    patch = getattr(config, "patch_size", None)
    if not isinstance(patch, int) or getattr(config, "num_channels", None) != 3:
        raise SetpointError(
            f"{type(model).__name__} is no model of RGB images in square patches; take one of the "
            "DINOv2 kind, e.g. 'facebook/dinov2-giant'."
        )
    size = check_whole(size, "size", patch)
    if size % patch:
        near = size // patch * patch
        raise SetpointError(
            f"size must be a multiple of the model's patches of {patch} pixels, or a margin would "
            f"be lost: {near} or {near + patch}, not {size}."
        )
    return size

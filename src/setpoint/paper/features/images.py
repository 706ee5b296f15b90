"""Vectors of images, by DINOv2 and its kin."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._internal.validation import check_whole
from setpoint.errors import SetpointError
from setpoint.paper.features.encoder import Features, fingerprint, first_token, load, require

if TYPE_CHECKING:
    from PIL.Image import Image


_FORMAT = 1  # of what pixels.py does; a change there must not meet vectors from before it


class ImageEncoder:
    """The [CLS] vector of an image file after the last layer norm of a pretrained model.

    How files become pixels is told in :func:`setpoint.paper.features.images.read_pixels`.

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


_BACKGROUND = "white"


def read_pixels(path: str | os.PathLike[str], size: int, resample: int = 3) -> NDArray[np.float32]:
    """Return an image as RGB from 0 to 1, shape (size, size, 3).

    The whole image is resized, whatever its aspect ratio, as in the paper; nothing is cropped.

    - Gray images get three equal channels.
    - Pixels of more than 8 bits (X-rays, TIFFs of floats) have no white level that a file could be
      trusted with: 12 bits often lie in 16. The darkest pixel of the image becomes 0, the
      brightest 1; the scale is kept in floating point.
    - What is transparent shows white, not the colour that happens to be stored there.
    - The orientation that a camera wrote (EXIF) is applied.
    - Of several frames or pages the first is read.

    Parameters
    ----------
    path : str or path-like
        The file.
    size : int
        Width and height of the result.
    resample : int
        Pillow's number of the method: 3 is bicubic.
    """
    image_module = require("PIL.Image")
    try:
        with image_module.open(path) as file:
            file.load()  # before all else, so that no step can hide that pixels are missing
            image = _plain(_upright(file))
            resized = image.resize((size, size), resample)
    except MemoryError:
        raise
    except Exception as error:  # damage shows itself in many ways
        reason = str(error) or type(error).__name__
        raise SetpointError(
            f"the image {os.fspath(path)!r} cannot be read: {reason}; "
            "replace the file or leave it out."
        ) from error
    pixels = np.asarray(resized, np.float32) / np.float32(255)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    return pixels.clip(0, 1)  # bicubic curves overshoot, and only 8 bits clip by themselves


def _upright(image: Image) -> Image:
    """Return the image as the camera was held."""
    try:
        turned: Image = require("PIL.ImageOps").exif_transpose(image)
    except Exception:  # the pixels are whole, only the note about them is not
        return image
    return turned


def _plain(image: Image) -> Image:
    """Return the image in mode RGB, or in mode F with levels from 0 to 255."""
    image_module = require("PIL.Image")
    if image.mode == "F" or image.mode.startswith("I"):
        # Pillow's own conversion would clip at 255.
        levels = np.asarray(image, np.float64)
        if not np.isfinite(levels).all():
            raise ValueError("some of its pixels are NaN or infinite")
        low, high = levels.min(), levels.max()
        scaled = (levels - low) * (255 / (high - low) if high > low else 0)
        gray: Image = image_module.fromarray(scaled.astype(np.float32))
        return gray
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA", "RGBa"):
        above = image.convert("RGBA")
        below = image_module.new("RGBA", above.size, _BACKGROUND)
        image = image_module.alpha_composite(below, above)
    return image.convert("RGB")


# DOC of features.pixels: An image file of any kind as RGB pixels of one size.

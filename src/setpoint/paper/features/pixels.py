"""Image files of any kind as RGB pixels of one size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from PIL.Image import Image

PIXEL_FORMAT = 1  # part of the encoder's fingerprint: increase it when pixels change
_BACKGROUND = "white"


def read_pixels(path: str | os.PathLike[str], size: int, resample: int = 3) -> NDArray[np.float32]:
    """Return an image as RGB from 0 to 1, shape (size, size, 3).

    The whole image is resized, whatever its aspect ratio, as in the paper; nothing is cropped.

    - Gray images get three equal channels.
    - Pixels of more than 8 bits (X-rays, TIFFs of floats) have no reliable white level: 12 bits are
      often stored in 16. The darkest pixel becomes 0, the brightest 1, in floating point.
    - Transparent pixels become white, whatever colour is stored there.
    - The EXIF orientation is applied.
    - Of several frames or pages the first is read.

    Parameters
    ----------
    path : str or path-like
        The file.
    size : int
        Width and height of the result.
    resample : int
        Pillow's resampling method: 3 is bicubic.
    """
    image_module = _pillow("PIL.Image")
    try:
        with image_module.open(path) as file:
            file.load()  # first, so that missing pixels raise an error
            image = _plain(_upright(file))
            resized = image.resize((size, size), resample)
    except MemoryError:
        raise
    except Exception as error:  # damage raises many kinds of errors
        reason = str(error) or type(error).__name__
        raise SetpointError(
            f"the image {os.fspath(path)!r} cannot be read: {reason}; "
            "replace the file or leave it out."
        ) from error
    pixels = np.asarray(resized, np.float32) / np.float32(255)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    return pixels.clip(0, 1)  # bicubic resampling overshoots; only 8-bit images are clipped


def _upright(image: Image) -> Image:
    """Return the image with its EXIF orientation applied."""
    try:
        turned: Image = _pillow("PIL.ImageOps").exif_transpose(image)
    except Exception:  # only the metadata is damaged
        return image
    return turned


def _plain(image: Image) -> Image:
    """Return the image in mode RGB, or in mode F with levels from 0 to 255."""
    image_module = _pillow("PIL.Image")
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


def _pillow(module: str) -> Any:
    return need(module, "features", "feature extraction")

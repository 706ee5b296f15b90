"""Features of texts and images from pretrained models: batched, cached by content, resumable.

An :class:`Encoder` turns items into vectors; :func:`extract` applies it to many items, caches the
vectors, and continues after an interruption:

>>> from setpoint.paper.features import ImageEncoder, TextEncoder, extract
>>> notes = ["fever after the second dose", "no complaints"]
>>> bert = TextEncoder.from_pretrained("bert-base-uncased")  # doctest: +SKIP
>>> extract(notes, bert, cache="features").shape  # doctest: +SKIP
(2, 768)
>>> dino = ImageEncoder.from_pretrained("facebook/dinov2-giant")  # doctest: +SKIP
>>> extract(["wrist.png", "elbow.png"], dino, cache="features").shape  # doctest: +SKIP
(2, 1536)

The two encoders need ``pip install "setpoint[features]"``; :func:`extract` works with any object
that has the four members of :class:`Encoder`.
"""

from setpoint.paper.features.cache import CacheWarning, FeatureCache
from setpoint.paper.features.encoders import ImageEncoder, TextEncoder
from setpoint.paper.features.extract import Encoder, extract

__all__ = [
    "CacheWarning",
    "Encoder",
    "FeatureCache",
    "ImageEncoder",
    "TextEncoder",
    "extract",
]

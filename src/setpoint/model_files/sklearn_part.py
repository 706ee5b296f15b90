"""Parts of scikit-learn and skrub as skops files and back, without running anything from them."""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from setpoint._extras import need
from setpoint.model_files.allowed import ALLOWED
from setpoint.model_files.errors import ModelFileError
from setpoint.model_files.integrity import check

# A small file may unpack to this much; what unpacks to more must not be packed too tightly.
_HARMLESS = 256 * 2**20
_TIGHTEST = 100


def estimator_to_bytes(estimator: Any, what: str) -> bytes:
    """Return a fitted estimator as a skops file.

    Parameters
    ----------
    estimator : object
        Of types that ``load`` will accept; others are refused, with their names.
    what : str
        What it is, at the beginning of a sentence, for messages.
    """
    skops = need("skops.io", "files", "A saved model")
    try:
        data: bytes = skops.dumps(estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
        if _unpacks_to_too_much(data):
            data = skops.dumps(estimator)
        strangers = _strangers(skops, data)
    except Exception as error:  # whatever an unknown object may raise
        raise ModelFileError(f"{what} cannot be saved: {error}") from error
    if strangers:
        raise ModelFileError(
            f"{what} cannot be saved: it holds {_listed(strangers)}. A model file holds parts of "
            "scikit-learn and skrub, and no functions or classes of your own or of other packages."
        )
    return data


def estimator_from_bytes(data: bytes) -> Any:
    """Return the estimator; refuses types that are not known to be harmless."""
    skops = need("skops.io", "files", "A saved model")
    try:
        if _unpacks_to_too_much(data):
            raise ModelFileError("a part of the model is packed too tightly to be honest.")
        strangers = _strangers(skops, data)
        if strangers:
            raise ModelFileError(
                f"the model file holds {_listed(strangers)}, which may run code, and was not "
                "loaded. Such a file was not written by this version of setpoint."
            )
        with warnings.catch_warnings():
            # load() has already said so, once.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            estimator = skops.loads(data, trusted=sorted(ALLOWED))
            check(estimator)
        return estimator
    except ModelFileError:
        raise
    except Exception as error:  # damage shows itself in many ways
        raise ModelFileError(
            f"a part of the model cannot be read: {type(error).__name__}: {error}"
        ) from error


def _strangers(skops: Any, data: bytes) -> list[str]:
    return sorted(set(skops.get_untrusted_types(data=data)) - ALLOWED)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _unpacks_to_too_much(data: bytes) -> bool:
    """Whether a zip, or one inside of it, is much smaller than what it unpacks to."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        total = sum(entry.file_size for entry in entries)
        if total > max(_HARMLESS, _TIGHTEST * len(data)):
            return True
        inner = [entry for entry in entries if entry.filename.endswith(".npz")]
        return any(_unpacks_to_too_much(archive.read(entry)) for entry in inner)

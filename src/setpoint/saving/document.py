"""model.json: the description of a model, the list of its files, and checksums of everything."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from setpoint._internal.provenance import __version__
from setpoint.errors import ModelFileError, ModelVersionWarning

MODEL = "model.json"
FORMAT = 1
_PROGRAM = "setpoint"
_OWN_DIGEST = "sha256"
_LIBRARIES = (
    "catboost", "lightgbm", "numpy", "safetensors", "scikit-learn", "skops", "skrub", "torch",
    "xgboost", "xgboost-cpu",
)  # fmt: skip
_SENSITIVE = ("scikit-learn", "skrub")  # skops files hold their private attributes
_NAME = re.compile(r"[a-z0-9]+(-[0-9a-f]{16})?\.(safetensors|skops|xgboost|lightgbm|catboost)")
_CHANGED = "The file was damaged or changed after saving; use another copy."

# The JSON of a model, and the content of its files by name.
Described = tuple[dict[str, Any], dict[str, bytes]]


class NotPlainError(Exception):
    """A value that is not made of numbers, strings and collections of them."""


@dataclass(frozen=True)
class ListedFile:
    """A file of a model: its name, length and checksum."""

    name: str
    length: int
    digest: str

    @classmethod
    def of(cls, name: str, data: bytes) -> ListedFile:
        """Describe a file."""
        return cls(name, len(data), hashlib.sha256(data).hexdigest())

    def check(self, data: bytes, where: str) -> None:
        """Raise ModelFileError if the content is not what was saved."""
        if len(data) != self.length:
            raise ModelFileError(
                f"{where}: {self.name} is {len(data):,} bytes long instead of {self.length:,}; "
                "the model is damaged, use another copy."
            )
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ModelFileError(f"{where}: the checksum of {self.name} does not match. {_CHANGED}")


@dataclass(frozen=True)
class Document:
    """The content of model.json: the model's description, and its files by what they are for."""

    model: dict[str, Any]
    files: dict[str, ListedFile]
    versions: dict[str, str]

    @classmethod
    def of(cls, model: dict[str, Any], files: Mapping[str, tuple[str, bytes]]) -> Document:
        """Return the document of a model and its files, given as ``{key: (name, content)}``."""
        listed = {key: ListedFile.of(name, data) for key, (name, data) in files.items()}
        return cls(model, listed, versions())

    def to_bytes(self) -> bytes:
        """Return the text of model.json."""
        content: dict[str, Any] = {
            "program": _PROGRAM,
            "format": FORMAT,
            "setpoint": __version__,
            "versions": self.versions,
            "model": self.model,
            "files": {
                key: {"name": file.name, "bytes": file.length, "sha256": file.digest}
                for key, file in self.files.items()
            },
        }
        content[_OWN_DIGEST] = _digest(content)
        return json.dumps(content, indent=1, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Document:
        """Read model.json; raises ModelFileError if it is damaged or of a newer format."""
        content = _parsed(data, where)
        found = content.get("format")
        if type(found) is int and found > FORMAT:
            raise ModelFileError(
                f"{where} was saved by setpoint {content.get('setpoint')} in format {found}; this "
                f"is setpoint {__version__}, which reads format {FORMAT}: upgrade setpoint."
            )
        if type(found) is not int or found != FORMAT:
            raise ModelFileError(
                f"{where}: {MODEL} has the format {found!r}, which no version of setpoint writes. "
                f"{_CHANGED}"
            )
        digest = content.pop(_OWN_DIGEST, None)
        if digest != _digest(content):
            raise ModelFileError(f"{where}: the checksum of {MODEL} does not match. {_CHANGED}")
        try:
            files = {
                key: ListedFile(file["name"], file["bytes"], file["sha256"])
                for key, file in content["files"].items()
            }
            document = cls(content["model"], files, content["versions"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{where}: {MODEL} is incomplete ({error!r}).") from error
        for file in files.values():
            if not isinstance(file.name, str) or not is_model_file(file.name):
                raise ModelFileError(f"{where}: {MODEL} lists an unknown file, {file.name!r}.")
        return document

    def warn_of_versions(self, stacklevel: int) -> None:
        """Warn if skops files were written by other versions of the libraries they depend on."""
        if not any(file.name.endswith(".skops") for file in self.files.values()):
            return
        here = versions()
        others = [
            f"{library} {self.versions[library]} (here: {here.get(library, 'none')})"
            for library in _SENSITIVE
            if library in self.versions and self.versions[library] != here.get(library)
        ]
        if others:
            warnings.warn(
                f"the model was saved with {' and '.join(others)}; its predictions may differ or "
                "fail. Install those versions, or fit and save the model again.",
                ModelVersionWarning,
                stacklevel=stacklevel + 1,
            )


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a model depends on."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def is_model_file(name: str) -> bool:
    """Return whether ``save`` gives files such names, so that a later save may remove them."""
    return _NAME.fullmatch(name) is not None


def is_model(data: bytes) -> bool:
    """Return whether this is the model.json of a setpoint model, of any version."""
    try:
        return bool(_parsed(data, ""))
    except ModelFileError:
        return False


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where}: {MODEL} cannot be read ({error}); the file is damaged, use another copy."
        ) from error
    if not isinstance(content, dict) or content.get("program") != _PROGRAM:
        raise ModelFileError(f"{where}: {MODEL} does not describe a setpoint model.")
    return content


def _digest(content: dict[str, Any]) -> str:
    """Return a checksum that does not depend on white space or the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

"""model.json: what a model is, which files belong to it, and checksums of everything."""

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

from setpoint.errors import ModelFileError, ModelVersionWarning
from setpoint.saving.values import (
    Json,
)

MODEL = "model.json"
FORMAT = 1
_PROGRAM = "setpoint"
_OWN_DIGEST = "sha256"
_LIBRARIES = ("numpy", "safetensors", "scikit-learn", "skops", "skrub", "torch")
_SENSITIVE = ("scikit-learn", "skrub")  # what skops keeps are their inner parts
_NAME = re.compile(r"[a-z]+(-[0-9a-f]{16})?\.(safetensors|skops)")


@dataclass(frozen=True)
class Part:
    """A file of a model: its name, its length and its checksum."""

    name: str
    length: int
    digest: str

    @classmethod
    def of(cls, name: str, data: bytes) -> Part:
        """Describe a file."""
        return cls(name, len(data), hashlib.sha256(data).hexdigest())

    def check(self, data: bytes, where: str) -> None:
        """Refuse other content than was saved."""
        if len(data) != self.length:
            raise ModelFileError(
                f"{where}: {self.name} is {len(data):,} bytes long instead of {self.length:,}; "
                "the model is damaged, get it anew."
            )
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ModelFileError(
                f"{where}: the checksum of {self.name} does not agree; the file was damaged or "
                "changed after saving, get it anew."
            )


@dataclass(frozen=True)
class Document:
    """What model.json says: the model itself, and its files by what they are for."""

    model: dict[str, Any]
    parts: dict[str, Part]
    versions: dict[str, str]

    def to_bytes(self) -> bytes:
        """Return the text of model.json."""
        from setpoint._internal.provenance import __version__

        content: dict[str, Any] = {
            "program": _PROGRAM,
            "format": FORMAT,
            "setpoint": __version__,
            "versions": self.versions,
            "model": self.model,
            "files": {
                key: {"name": part.name, "bytes": part.length, "sha256": part.digest}
                for key, part in self.parts.items()
            },
        }
        content[_OWN_DIGEST] = _digest(content)
        return json.dumps(content, indent=1, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Document:
        """Read model.json, or say what is wrong with it."""
        content = _parsed(data, where)
        found = content.get("format")
        if type(found) is int and found > FORMAT:
            raise ModelFileError(
                f"{where} was made by setpoint {content.get('setpoint')}, format {found}; this is "
                f"{_this_version()}, which knows format {FORMAT}: upgrade setpoint."
            )
        if type(found) is not int or found != FORMAT:
            raise ModelFileError(
                f"{where}: {MODEL} names the format {found!r}, which no setpoint wrote; the file "
                "was damaged or changed after saving, get it anew."
            )
        digest = content.pop(_OWN_DIGEST, None)
        if digest != _digest(content):
            raise ModelFileError(
                f"{where}: the checksum of {MODEL} does not agree; the file was damaged or changed "
                "after saving, get it anew."
            )
        try:
            parts = {
                key: Part(part["name"], part["bytes"], part["sha256"])
                for key, part in content["files"].items()
            }
            document = cls(content["model"], parts, content["versions"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(f"{where}: {MODEL} is not complete ({error!r}).") from error
        for part in parts.values():
            if not isinstance(part.name, str) or not _NAME.fullmatch(part.name):
                raise ModelFileError(f"{where}: {MODEL} names a strange file, {part.name!r}.")
        return document

    def warn_of_versions(self, stacklevel: int) -> None:
        """Warn where the libraries that made the inner parts were others than those here."""
        if not any(part.name.endswith(".skops") for part in self.parts.values()):
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
                "fail. Install the former versions, or fit and save it again.",
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


def is_ours(name: str) -> bool:
    """Whether a file's name is one that models are given, so that it may be cleared away."""
    return _NAME.fullmatch(name) is not None


def is_model(data: bytes) -> bool:
    """Whether the text of a model.json is that of a setpoint model, of any version."""
    try:
        return bool(_parsed(data, ""))
    except ModelFileError:
        return False


def document_of(model: dict[str, Any], parts: Mapping[str, tuple[str, bytes]]) -> Document:
    """Return the document of a model and its files, given as ``{key: (name, content)}``."""
    described = {key: Part.of(name, data) for key, (name, data) in parts.items()}
    return Document(model, described, versions())


def _parsed(data: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{where}: {MODEL} cannot be read ({error}); the file is damaged, get it anew."
        ) from error
    if not isinstance(content, dict) or content.get("program") != _PROGRAM:
        raise ModelFileError(f"{where}: {MODEL} is not that of a setpoint model.")
    return content


def _digest(content: dict[str, Any]) -> str:
    """Return the checksum of a document, whatever its white space and order."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _this_version() -> str:
    from setpoint._internal.provenance import __version__

    return f"setpoint {__version__}"


Described = tuple[Json, dict[str, bytes]]

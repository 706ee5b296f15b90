"""Fitted models in files, from which nothing is executed.

A model is a folder, or one zip, of

- ``model.json``: what it is, with checksums of everything;
- ``weights.safetensors``: the weights of a torch module;
- ``estimator.skops``: the parts of scikit-learn.

A loaded model predicts, evaluates and reports as before, bit for bit. It can be fitted again with
those of its parameters that are plain values; ``load_notes_`` names the others.

A checksum tells of damage, not of malice: who can write the files can make them say anything, but
not run code.
"""

from setpoint.model_files.errors import ModelFileError, ModelVersionWarning
from setpoint.model_files.files import load, save
from setpoint.model_files.storage import check_target

__all__ = ["ModelFileError", "ModelVersionWarning", "check_target", "load", "save"]

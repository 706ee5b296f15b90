"""Save and load models of any kind. Loading never executes code from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setpoint.errors import ModelFileError, ModelVersionWarning, SetpointError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.estimators.saving import restore
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.saving.document import MODEL
from setpoint.saving.reading import read
from setpoint.saving.storage import check_target
from setpoint.tables.label_model import LabelsTableModel, restore_labels_table
from setpoint.tables.model import TableModel, restore_table

__all__ = ["ModelFileError", "ModelVersionWarning", "check_target", "load", "save"]


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model; a crash leaves the former model or the new one complete.

    Parameters
    ----------
    model : classifier of this package, TableModel or LabelsTableModel
        A fitted model. Classifiers are SetpointClassifier, SetpointThreshold, SetpointBand and
        SetpointMultilabel.
    path : str or Path
        A folder, which is created if it does not exist, or one file if it ends in ``.zip``. An
        existing model is replaced; a folder or file with other content raises an error.
    """
    tables = TableModel | LabelsTableModel
    known = SetpointClassifier | SetpointThreshold | SetpointBand | SetpointMultilabel | tables
    if not isinstance(model, known):
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved by setpoint, only a SetpointClassifier, "
            "a SetpointThreshold, a SetpointBand, a SetpointMultilabel, a TableModel or a "
            "LabelsTableModel."
        )
    model.save(path)


def load(path: str | Path, *, module: Any = None) -> Any:
    """Read a model that ``save`` wrote, without executing anything from the file.

    Parameters
    ----------
    path : str or Path
        The folder or the zip.
    module : torch.nn.Module or callable, optional
        For a classifier that was fitted with your own module: the module, or a factory
        ``f(n_features)`` of it. The weights come from the file.

    Returns
    -------
    classifier of this package, TableModel or LabelsTableModel
        Predicts the same as before, bit for bit. Its ``load_notes_`` lists parameters that were not
        saved, such as callbacks.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from setpoint import SetpointClassifier, load
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SetpointClassifier("max f1", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(f"{folder}/model")
    ...     same = load(f"{folder}/model")
    >>> bool((same.positive_scores(X) == clf.positive_scores(X)).all())
    True
    """
    path = Path(path).expanduser()
    document, parts = read(path)
    document.warn_of_versions(stacklevel=2)
    try:
        if document.model["kind"] == "TableModel":
            return restore_table(document.model, parts, module)
        if document.model["kind"] == "LabelsTableModel":
            return restore_labels_table(document.model, parts, module)
        return restore(document.model, parts, module)
    except SetpointError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: {MODEL} does not describe a model ({error!r}).") from error

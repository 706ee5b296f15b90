"""Save and load models of any kind. Nothing from a file is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setpoint.errors import ModelFileError, SetpointError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.saving import restore
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.saving.document import MODEL
from setpoint.saving.reading import read
from setpoint.saving.storage import check_target
from setpoint.tables.model import TableModel, restore_table

__all__ = ["check_target", "load", "save"]


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model; after a crash either the old or the new one is there, complete.

    Parameters
    ----------
    model : SetpointClassifier, SetpointThreshold or TableModel
        A fitted model.
    path : str or Path
        A folder, which is created if it does not exist, or one file if it ends in ``.zip``. An
        existing model is replaced; a folder or file with other content is not touched.
    """
    if not isinstance(model, SetpointClassifier | SetpointThreshold | TableModel):
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved by setpoint, only a SetpointClassifier, "
            "a SetpointThreshold or a TableModel."
        )
    model.save(path)


def load(path: str | Path, *, module: Any = None) -> Any:
    """Read a model that ``save`` wrote. Nothing from the file is executed.

    Parameters
    ----------
    path : str or Path
        The folder or the zip.
    module : torch.nn.Module or callable, optional
        For a classifier with a custom module: the module, or the factory ``f(n_features)`` of it.
        The weights come from the file.

    Returns
    -------
    SetpointClassifier, SetpointThreshold or TableModel
        It predicts the same as before, bit for bit. ``load_notes_`` lists the parameters, such as
        callbacks, that were not saved.

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
        return restore(document.model, parts, module)
    except SetpointError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: {MODEL} does not describe a model ({error!r}).") from error

"""Models in MLflow: saved, logged, registered, and loaded as Python functions that score rows.

The MLflow model holds the model's own files, which loading reads without executing anything from
them, and the certificate as ``certificate.json``. Its signature names the columns and does not fix
their types: MLflow would refuse a column of integers with missing values where the training rows
had none, and the other way round. The model checks the values itself.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.files import new_folder
from setpoint._internal.imports import OptionalModule
from setpoint._internal.provenance import __version__
from setpoint._internal.validation import listed
from setpoint.errors import ModelFileError, SchemaError
from setpoint.saving.document import versions
from setpoint.saving.reading import read
from setpoint.thresholds.bands import decide

__all__ = ["load_model", "log_model", "model_tags", "save_model"]

_WHAT, _EXTRA = "a model in MLflow", "mlflow"
mlflow = OptionalModule("mlflow", _EXTRA, _WHAT)
mlflow_models = OptionalModule("mlflow.models", _EXTRA, _WHAT)
mlflow_types = OptionalModule("mlflow.types.schema", _EXTRA, _WHAT)
pd = OptionalModule("pandas", _EXTRA, _WHAT)

FLAVOR_NAME = "setpoint"
CERTIFICATE, REPORT = "certificate.json", "report.html"
_DATA = "setpoint_model"  # the folder of the model's own files
_TYPES = {"b": "boolean", "i": "long", "u": "long", "f": "double"}  # by kind of a numpy type
_ALWAYS = ("numpy", "pandas", "safetensors", "scikit-learn", "skops", "torch")
_BOOSTERS = ("xgboost", "lightgbm", "catboost")


def save_model(
    model: Any,
    path: str | Path,
    *,
    report: str | Path | None = None,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    conda_env: Any = None,
    code_paths: list[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Write a fitted model to a new folder, as an MLflow model.

    Parameters
    ----------
    model : classifier of this package, TableModel or LabelsTableModel
        Any model that :func:`setpoint.load` reads, but those with a torch module of your own, whose
        code is not saved.
    path : path
        A folder that does not exist, or is empty.
    report : path, optional
        The model's HTML report, which is copied to ``report.html``.
    signature : mlflow.models.ModelSignature, optional
        By default the names of the model's columns, with values of any type, and the columns of
        the result. A classifier of arrays has columns without names.
    input_example, conda_env, code_paths
        As in MLflow.
    pip_requirements : list of str or path, optional
        By default the versions of setpoint and of the libraries that the model needs.
    extra_pip_requirements : list of str or path, optional
        Further ones.
    metadata : mapping, optional
        Entries of MLflow's metadata besides ``"setpoint"``, which has the goal, the threshold and
        the certificate.
    mlflow_model : mlflow.models.Model, optional
        The MLflow model to add the flavors to.
    """
    save = mlflow.pyfunc.save_model  # a missing extra is reported first
    path = Path(path).expanduser()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ModelFileError(
            f"{path} exists already; name a new folder for the MLflow model, or delete this one."
        )
    if report is not None and not Path(report).expanduser().is_file():
        raise ModelFileError(f"there is no report {report}; write it first, or leave report= out.")
    try:
        with new_folder(path.parent), tempfile.TemporaryDirectory(dir=path.parent) as folder:
            own, complete = Path(folder, _DATA), Path(folder, "complete")
            _model_files().save(model, own)
            loaded = _model_files().load(own)  # raises an error where _load_pyfunc would
            if mlflow_model is None:
                mlflow_model = mlflow_models.Model()
            mlflow_model.add_flavor(
                FLAVOR_NAME,
                setpoint_version=__version__,
                model_type=type(model).__name__,
                code=None,
            )
            if conda_env is None:
                pip_requirements = [
                    *_as_list(
                        _requirements(own, model) if pip_requirements is None else pip_requirements
                    ),
                    *_as_list(extra_pip_requirements),
                ]
                extra_pip_requirements = None
            save(
                complete,
                loader_module=__name__,
                data_path=str(own),
                code_paths=code_paths,
                conda_env=conda_env,
                mlflow_model=mlflow_model,
                signature=_signature(loaded) if signature is None else signature or None,
                input_example=input_example,
                pip_requirements=pip_requirements,
                extra_pip_requirements=extra_pip_requirements,
                metadata={
                    **(mlflow_model.metadata or {}),
                    **(metadata or {}),
                    FLAVOR_NAME: _description(model),
                },
            )
            certificate = _certificate(model)
            if certificate is not None:
                text = json.dumps(certificate.to_dict(), indent=1, allow_nan=False)
                (complete / CERTIFICATE).write_text(text + "\n", encoding="utf-8")
            if report is not None:
                shutil.copyfile(Path(report).expanduser(), complete / REPORT)
            os.replace(complete, path)
    except OSError as error:
        raise ModelFileError(
            f"the MLflow model cannot be written to {path}: {error.strerror or error}."
        ) from error


def log_model(
    model: Any,
    name: str | None = None,
    *,
    registered_model_name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Log a fitted model to MLflow and, with ``registered_model_name``, register it.

    Parameters
    ----------
    model : classifier of this package, TableModel or LabelsTableModel
        As in :func:`save_model`.
    name : str, optional
        The model's name in MLflow.
    registered_model_name : str, optional
        The registered model of which this becomes a new version.
    tags : mapping, optional
        Tags of the model and of its registered version, besides those of :func:`model_tags`.
    **options
        Parameters of :func:`save_model`, such as ``report``, and of ``mlflow.models.Model.log``,
        such as ``run_id``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` can be loaded.
    """
    return mlflow_models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        registered_model_name=registered_model_name,
        tags={**model_tags(model), **(tags or {})},
        model=model,
        **options,
    )


def load_model(model_uri: str, *, dst_path: str | None = None) -> Any:
    """Return the model that :func:`save_model` or :func:`log_model` stored.

    ``mlflow.pyfunc.load_model`` returns a function of data frames instead.

    Parameters
    ----------
    model_uri : str
        A folder, or a URI such as ``"models:/fraud/1"`` or ``"runs:/.../model"``.
    dst_path : str, optional
        The folder to download to.
    """
    local = mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path)
    flavors = mlflow_models.Model.load(local).flavors
    if FLAVOR_NAME not in flavors:
        raise ModelFileError(
            f"{model_uri} is not a model of setpoint; its flavors are {listed(flavors)}."
        )
    return _model_files().load(Path(local, flavors["python_function"]["data"]))


def model_tags(model: Any) -> dict[str, str]:
    """Return the tags that :func:`log_model` sets: goal, threshold and certificate.

    ``mlflow.register_model(uri, name, tags=model_tags(model))`` gives them to a registered version
    of a model that was saved.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from setpoint import SetpointClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SetpointClassifier("max f1", random_state=0).fit(X, y)
    >>> model_tags(clf)["setpoint.goal"], model_tags(clf)["setpoint.certificate"]
    ('max f1', 'none')
    """
    found = {key: value for key, value in _description(model).items() if key in _TAGS}
    return {f"{FLAVOR_NAME}.{key}": _as_text(value) for key, value in found.items()}


_TAGS = ("model", "goal", "threshold", "certificate", "confidence")


def _load_pyfunc(path: str) -> Scorer:
    """Return what ``mlflow.pyfunc.load_model`` wraps."""
    return Scorer(_model_files().load(path))


class Scorer:
    """A model as a function of data frames.

    Parameters
    ----------
    model : classifier of this package, TableModel or LabelsTableModel
        A fitted model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, data: Any, params: Any = None) -> Any:
        """Return a data frame of scores and decisions, with the columns of ``setpoint predict``.

        Columns that the model does not know are ignored. Without rows, the result has none.
        """
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
        if not len(frame):
            return pd.DataFrame(_decided(self.model, None), index=frame.index)
        if _is_table(self.model):
            return self.model.predict(frame, ignore_extra=True)
        return pd.DataFrame(_decided(self.model, _scores(self.model, frame)), index=frame.index)


def _model_files() -> Any:
    """Return the module that reads models of all kinds, which is of a higher layer."""
    return importlib.import_module("setpoint.model_files")


def _is_table(model: Any) -> bool:
    return hasattr(model, "schema")


def _certificate(model: Any) -> Any:
    return model.certificate if _is_table(model) else model.certificate_


def _description(model: Any) -> dict[str, Any]:
    """Return what a model is for and what is certified, as plain values."""
    if not (_is_table(model) or hasattr(model, "certificate_")):
        raise ModelFileError(f"{type(model).__name__} is not a fitted model of setpoint.")
    classifier = model.classifier if _is_table(model) else model
    certificate = _certificate(model)
    found: dict[str, Any] = {
        "model": type(model).__name__,
        "goal": str(getattr(classifier, "goals_", None) or classifier.goal_),
        "threshold": _thresholds(classifier),
        "certificate": "none",
    }
    if certificate is not None:
        found["certificate"] = "certified" if certificate.certified else "refused"
        found["confidence"] = certificate.confidence
        found["statement"] = certificate.message
    if _is_table(model):
        found["columns"] = {column.name: column.kind for column in model.schema.columns}
    return found


def _thresholds(classifier: Any) -> float | list[float]:
    """Return the threshold of the classifier's own scores; of a band and of several labels all."""
    if hasattr(classifier, "label_scores"):
        return [float(threshold) for threshold in classifier.thresholds_]
    if hasattr(classifier, "low_"):
        return [float(classifier.low_), float(classifier.high_)]
    own = "logit_threshold_" if hasattr(classifier, "logit_threshold_") else "threshold_"
    return float(getattr(classifier, own))


def _as_text(value: Any) -> str:
    return " ".join(map(repr, value)) if isinstance(value, list) else str(value)


def _as_list(requirements: Any) -> list[str]:
    """Return requirements as a list; a path is a file of them."""
    if isinstance(requirements, str | Path):
        return [f"-r {requirements}"]
    return list(requirements or [])


def _requirements(folder: Path, model: Any) -> list[str]:
    """Return the packages that a saved model needs, in the versions that are installed."""
    files = read(folder)[0].files.values()
    names = list(_ALWAYS)
    if _is_table(model):
        names.append("skrub")
    endings = {file.name.rpartition(".")[2] for file in files}
    names += [booster for booster in _BOOSTERS if booster in endings]
    here = {**versions(), "pandas": installed_version("pandas")}
    here["xgboost"] = here.get("xgboost") or here.get("xgboost-cpu", "")
    pinned = [f"{name}=={here[name].partition('+')[0]}" for name in names if here.get(name)]
    extras = "cli,mlflow" if _is_table(model) else "mlflow"
    return [f"setpoint[{extras}]=={__version__}", *sorted(pinned)]


def _signature(model: Any) -> Any:
    """Return a signature with the model's columns, of any type, and those of the result."""
    names = _input_names(model)
    column, anything = mlflow_types.ColSpec, mlflow_types.AnyType
    inputs = [column(anything(), name) for name in names]
    outputs = [
        column(_TYPES.get(np.asarray(values).dtype.kind, "string"), name)
        for name, values in _decided(model, None).items()
    ]
    schema = mlflow_types.Schema
    return mlflow_models.ModelSignature(schema(inputs), schema(outputs))


def _input_names(model: Any) -> Sequence[str | None]:
    """Return the names of the columns that a model needs; None for columns without names."""
    decisive = list(getattr(model, "decision_columns", ()))
    if _is_table(model):
        return list(dict.fromkeys([*model.schema.names, *decisive]))
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        return list(dict.fromkeys([*map(str, named), *decisive]))
    return [None] * (getattr(model, "n_features_in_", 1) + len(decisive))


def _scores(model: Any, frame: Any) -> NDArray[np.float64]:
    """Return a classifier's scores of rows, to which :func:`_decided` applies the thresholds."""
    names, width = _input_names(model), len(frame.columns)
    if None not in names:
        if missing := [name for name in names if name not in frame.columns]:
            raise SchemaError(f"there is no column {missing[0]!r}; there are {listed(frame)}.")
        frame = frame[list(names)]
    elif width < len(names):
        raise SchemaError(f"the rows have {width} columns, and the model needs {len(names)}.")
    decisive = list(getattr(model, "decision_columns", ()))
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        by_name = {name: frame[name] for name in decisive}
        X = _plain(frame[list(named)])
    else:
        features = len(names) - len(decisive)
        by_name = {name: frame.iloc[:, features + i] for i, name in enumerate(decisive)}
        # Sums are added up in the order of the memory, and so should be those of an array.
        X = np.ascontiguousarray(_plain(frame.iloc[:, :features]).to_numpy())
        if not hasattr(model, "n_features_in_"):  # a vectorizer of texts takes one text per row
            X = X[:, 0]
    if hasattr(model, "label_scores"):
        return np.asarray(model.label_scores(X))
    if by_name:
        goal = model.goal_
        scores = model.positive_scores(
            X,
            amounts={name: by_name[name] for name in goal.amounts if name in by_name},
            segments={name: by_name[name] for name in goal.segments if name in by_name},
        )
    else:
        scores = model.positive_scores(X)
    return np.asarray(scores, dtype=np.float64)


def _plain(frame: Any) -> Any:
    """Return columns of Python objects as numbers where they are; missing ones are NaN."""
    return frame.apply(
        lambda values: (
            values.where(values.notna(), np.nan).infer_objects()
            if values.dtype == object
            else values
        )
    )


def _decided(model: Any, scores: NDArray[np.float64] | None) -> dict[str, Any]:
    """Return the columns of the result, for scores of rows; None: for no rows."""
    classifier = model.classifier if _is_table(model) else model
    if scores is None:
        several = hasattr(classifier, "label_scores")
        scores = np.zeros((0, len(classifier.thresholds_)) if several else 0)
    if hasattr(classifier, "label_scores"):
        relative, alarms = scores - classifier.thresholds_, scores > classifier.thresholds_
        found: dict[str, Any] = {}
        for i, name in enumerate(classifier.label_names_):
            found |= {f"{name}_score": relative[:, i], f"{name}_alarm": alarms[:, i]}
        return found
    if hasattr(classifier, "low_"):
        return {"score": scores, "decision": decide(scores, classifier.low_, classifier.high_)}
    relative = scores - getattr(classifier, "threshold_", 0.0)
    alarm = relative > 0
    labels = model.labels if _is_table(model) else model._labels
    return {"score": relative, "alarm": alarm, "predicted": labels.of_decisions(alarm)}

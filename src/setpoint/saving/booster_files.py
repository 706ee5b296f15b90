"""Classifiers of XGBoost, LightGBM and CatBoost in their own formats, and back.

Their files, JSON of XGBoost, text of LightGBM and CatBoost's own format, run no code when they are
read. What compiled code would trust unchecked, the indices in trees, is validated before a model is
used.
"""

from __future__ import annotations

import inspect
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder

from setpoint._internal.imports import need
from setpoint.errors import ModelFileError
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.values import (
    Json,
    decode,
    encode,
    parameters_to_json,
)

KIND = "booster"
_STEPS = "steps.skops"
_CLASSES = {
    "XGBClassifier": "xgboost", "LGBMClassifier": "lightgbm", "CatBoostClassifier": "catboost",
}  # fmt: skip
_DAMAGED = "the trees of the model point to nodes, leaves or features that do not exist"


def describe_booster(model: Any) -> Described | None:
    """Return the JSON and the files of a booster, or of a pipeline that ends in one.

    None for any other classifier.
    """
    last = model.steps[-1][1] if type(model) is Pipeline else model
    library = _library_of(last)
    if library is None:
        return None
    parts = {_file(library): _WRITERS[library](last)}
    content: Json = {
        "kind": KIND,
        "library": library,
        "parameters": parameters_to_json(last, without=set()),
        "classes": encode(np.asarray(last.classes_)),
        "features": int(last.n_features_in_),
        "step": None,
    }
    if last is not model:
        content["step"] = model.steps[-1][0]
        others = Pipeline([*model.steps[:-1], (content["step"], "passthrough")])
        parts[_STEPS] = estimator_to_bytes(others, "The pipeline before the booster")
    return content, parts


def restore_booster(content: Json, parts: dict[str, bytes]) -> Any:
    """Return the booster or the pipeline that :func:`describe_booster` described."""
    library = content["library"]
    if library not in _READERS:
        raise ModelFileError(f"the model is of {library!r}, which this version does not know.")
    classes, features = np.asarray(decode(content["classes"])), content["features"]
    if classes.shape != (2,) or type(features) is not int:
        raise ModelFileError("the classes or the number of features of a booster are damaged.")
    kind = getattr(need(library, library, "This model"), _class_name(library))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parameters that another version has renamed
        kept, notes = _parameters(content["parameters"], kind)
        try:
            model = _READERS[library](kind(**kept), parts[_file(library)], classes, features)
        except ModelFileError:
            raise
        except Exception as error:  # a library may raise anything on damaged files
            raise ModelFileError(
                f"the {library} file of the model cannot be read: {type(error).__name__}: {error}"
            ) from error
    if notes:
        model.load_notes_ = notes
    if content["step"] is None:
        return model
    pipeline = estimator_from_bytes(parts[_STEPS])
    if type(pipeline) is not Pipeline or pipeline.steps[-1][0] != content["step"]:
        raise ModelFileError("the steps of the model's pipeline do not fit its description.")
    pipeline.steps[-1] = (content["step"], model)
    if notes:
        pipeline.load_notes_ = notes
    return pipeline


def _parameters(values: Json, kind: type[Any]) -> tuple[Json, list[str]]:
    """Return the parameters that were saved, and a note on each that a refit would not use.

    A class that takes any further parameters by name gets them, unless an attribute or a method
    has that name: the class would replace it.
    """
    named, usual = inspect.signature(kind).parameters, kind().get_params()
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in named.values())

    def is_known(name: str) -> bool:
        if name in named or name in usual:
            return True
        free = name.isidentifier() and not name.startswith("_")
        return takes_any and free and not hasattr(kind, name) and not hasattr(kind, f"_{name}")

    kept = {name: decode(value) for name, value in values["kept"].items()}
    notes = [
        f"{name}={text} was not saved; fit() would use the default, {usual.get(name)!r}."
        for name, text in values["not_kept"].items()
    ]
    notes += [
        f"{name}={value!r} is no parameter of {kind.__name__}; fit() would not use it."
        for name, value in kept.items()
        if not is_known(name)
    ]
    return {name: value for name, value in kept.items() if is_known(name)}, notes


def _library_of(model: Any) -> str | None:
    """Return the library of a booster; subclasses are not known, since they may do anything."""
    library = _CLASSES.get(type(model).__name__)
    own = library is not None and type(model).__module__.split(".")[0] == library
    return library if own else None


def _class_name(library: str) -> str:
    return next(name for name, own in _CLASSES.items() if own == library)


def _file(library: str) -> str:
    return f"estimator.{library}"


def _require(holds: Any) -> None:
    if not holds:
        raise ModelFileError(f"{_DAMAGED}; the file is damaged or malicious.")


def _check_tree(left: Any, right: Any, feature: Any, inner: Any, features: int) -> None:
    """Raise ModelFileError unless inner nodes have children after them and known features."""
    here = np.flatnonzero(inner)
    children = np.concatenate([left[inner], right[inner]])
    _require(np.all(children > np.tile(here, 2)) and np.all(children < len(left)))
    _require(np.all(feature[inner] >= 0) and np.all(feature[inner] < features))


def _integers(values: Any) -> Any:
    """Return integers of a file as an array; other numbers are refused."""
    found = np.asarray(values, dtype=np.float64).ravel()
    _require(np.all(found == np.round(found)) and np.all(np.abs(found) < 2**31))
    return found.astype(np.int64)


# --- XGBoost ----------------------------------------------------------------------------------


def _write_xgboost(model: Any) -> bytes:
    data = bytes(model.get_booster().save_raw("json"))
    _check_xgboost(data, int(model.n_features_in_))
    return data


def _read_xgboost(model: Any, data: bytes, classes: Any, features: int) -> Any:
    _check_xgboost(data, features)
    given = model.get_params()
    model.load_model(bytearray(data))
    model.set_params(**given)  # loading sets some to what was fitted, which would change a refit
    model.n_classes_ = len(classes)
    return model


def _check_xgboost(data: bytes, features: int) -> None:
    learner = json.loads(data)["learner"]
    booster = learner["gradient_booster"]
    factors = None
    if booster.get("name") == "dart":  # trees, each with a factor
        booster, factors = booster["gbtree"], np.asarray(booster["weight_drop"], dtype=np.float64)
    if booster.get("name", "gbtree") != "gbtree" or "trees" not in booster.get("model", {}):
        raise ModelFileError(
            "only boosted trees of XGBoost (gbtree or dart) can be saved and loaded."
        )
    shape = learner["learner_model_param"]
    _require(int(shape["num_feature"]) == features and int(shape["num_target"]) == 1)
    _require(int(shape["num_class"]) in (0, 1))
    model = booster["model"]
    trees = model["trees"]
    if factors is not None:
        _require(factors.shape == (len(trees),) and np.all(np.isfinite(factors)))
    starts = _integers(model["iteration_indptr"])
    _require(int(model["gbtree_model_param"]["num_trees"]) == len(trees) == len(model["tree_info"]))
    _require(not np.any(_integers(model["tree_info"])))
    _require(starts[0] == 0 and starts[-1] == len(trees) and np.all(np.diff(starts) >= 0))
    for tree in trees:
        left, right = _integers(tree["left_children"]), _integers(tree["right_children"])
        feature, kind = _integers(tree["split_indices"]), _integers(tree["split_type"])
        others = ("split_conditions", "default_left", "base_weights", "parents")
        arrays = (left, right, feature, kind, *(tree[name] for name in others))
        _require(len(left) > 0 and len({len(array) for array in arrays}) == 1)
        _require(int(tree["tree_param"]["num_nodes"]) == len(left))
        _require(int(tree["tree_param"]["num_feature"]) == features)
        inner = (left != -1) | (right != -1)
        _check_tree(left, right, feature, inner, features)
        _check_categories(tree, np.flatnonzero(inner & (kind == 1)))


def _check_categories(tree: Json, by_category: Any) -> None:
    """Raise ModelFileError unless the sets of categories of a tree are where its nodes expect."""
    nodes, values = _integers(tree["categories_nodes"]), _integers(tree["categories"])
    starts, sizes = (_integers(tree[f"categories_{name}"]) for name in ("segments", "sizes"))
    _require(len(nodes) == len(starts) == len(sizes) and nodes.tolist() == by_category.tolist())
    _require(np.all(starts >= 0) and np.all(sizes >= 0) and np.all(starts + sizes <= len(values)))
    _require(np.all(values >= 0) and np.all(values < 2**24))  # what float32 counts exactly


# --- LightGBM ---------------------------------------------------------------------------------


def _write_lightgbm(model: Any) -> bytes:
    data = model.booster_.model_to_string().encode()
    _check_lightgbm(data, int(model.n_features_in_))
    return bytes(data)


def _read_lightgbm(model: Any, data: bytes, classes: Any, features: int) -> Any:
    _check_lightgbm(data, features)
    booster = need("lightgbm", "lightgbm", "This model").Booster(model_str=data.decode())
    # What `fit` would set; there is no public way to give a classifier its booster.
    encoder = LabelEncoder().fit(classes)
    vars(model).update(
        _Booster=booster, _n_features=features, _n_features_in=features, _classes=classes,
        _n_classes=2, _le=encoder, _class_map=dict(zip(classes, range(2), strict=True)),
        _objective="binary", _best_iteration=0, fitted_=True,
        _fitted_with_feature_names=booster.feature_name() != _numbered(features),
    )  # fmt: skip
    return model


def _numbered(features: int) -> list[str]:
    return [f"Column_{i}" for i in range(features)]


def _check_lightgbm(data: bytes, features: int) -> None:
    head, *trees = data.decode().split("end of trees")[0].split("\nTree=")
    shape = _fields(head)
    if not shape.get("objective", "").startswith("binary"):
        raise ModelFileError("only classifiers of two classes of LightGBM can be saved and loaded.")
    _require(int(shape["max_feature_idx"]) == features - 1 and shape["num_class"] == "1")
    _require(shape["num_tree_per_iteration"] == "1")
    for text in trees:
        tree = _fields(text)
        leaves = int(tree["num_leaves"])
        _require(leaves > 0 and tree.get("is_linear", "0") == "0")
        _require(len(tree["leaf_value"].split()) == leaves)
        if leaves == 1:
            continue
        names = ("left_child", "right_child", "split_feature", "decision_type")
        left, right, feature, kind = (_integers(tree[name].split()) for name in names)
        arrays = left, right, feature, kind, tree["threshold"].split()
        _require({len(array) for array in arrays} == {leaves - 1})
        for child in (left, right):  # -1 - leaf, or a node after this one
            leaf = child < 0
            _require(np.all(-1 - child[leaf] < leaves))
            _require(np.all(child[~leaf] > np.flatnonzero(~leaf)))
            _require(np.all(child[~leaf] < leaves - 1))
        _require(np.all(feature >= 0) and np.all(feature < features))
        _check_bitsets(tree, np.flatnonzero(kind & 1))


def _check_bitsets(tree: dict[str, str], by_category: Any) -> None:
    """Raise ModelFileError unless the thresholds of categorical nodes name existing bit sets."""
    sets = int(tree["num_cat"])
    _require(sets >= 0 and (sets > 0 or not len(by_category)))
    if not sets:
        return
    starts = _integers(tree["cat_boundaries"].split())
    values = tree["cat_threshold"].split()
    _require(len(starts) == sets + 1 and starts[0] == 0 and starts[-1] == len(values))
    _require(np.all(np.diff(starts) > 0))
    which = _integers([tree["threshold"].split()[i] for i in by_category])
    _require(np.all(which >= 0) and np.all(which < sets))


def _fields(text: str) -> dict[str, str]:
    """Return the lines name=value of a section; a name must not be repeated."""
    pairs = [line.partition("=") for line in text.splitlines() if "=" in line]
    found = {name: value for name, _, value in pairs}
    _require(len(found) == len(pairs))
    return found


# --- CatBoost ---------------------------------------------------------------------------------


def _write_catboost(model: Any) -> bytes:
    _check_catboost(model, int(model.n_features_in_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        return path.read_bytes()


def _read_catboost(model: Any, data: bytes, classes: Any, features: int) -> Any:
    model.load_model(blob=data)  # verifies the structure of the file, but not what trees refer to
    _check_catboost(model, features)
    _require(np.array_equal(np.asarray(model.classes_).astype(str), classes.astype(str)))
    return model


def _check_catboost(model: Any, features: int) -> None:
    # JSON shows what a model consists of, but rounds its numbers, so it is not what is saved.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        content = json.loads(path.read_bytes())
    info = content["features_info"]
    own = info.get("float_features", [])
    if set(info) - {"float_features"} or "oblivious_trees" not in content or "ctrs" in content:
        raise ModelFileError(
            "only symmetric trees on numbers of CatBoost can be saved and loaded; encode columns "
            "of categories or texts as numbers first."
        )
    flat = _integers([feature["flat_feature_index"] for feature in own])
    _require(flat.tolist() == list(range(features)))
    _require(_integers([f["feature_index"] for f in own]).tolist() == list(range(features)))
    borders = sum(len(feature["borders"] or ()) for feature in own)
    for tree in content["oblivious_trees"]:
        splits = tree["splits"] or []
        _require(len(splits) <= 16 and len(tree["leaf_values"]) == 2 ** len(splits))
        _require(all(split["split_type"] == "FloatFeature" for split in splits))
        _require(
            all(0 <= i < features for i in _integers([s["float_feature_index"] for s in splits]))
        )
        _require(all(0 <= i < borders for i in _integers([s["split_index"] for s in splits])))
        for split in splits:
            _require(split["border"] in own[int(split["float_feature_index"])]["borders"])


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "xgboost": _write_xgboost, "lightgbm": _write_lightgbm, "catboost": _write_catboost,
}  # fmt: skip
_READERS: dict[str, Callable[[Any, bytes, Any, int], Any]] = {
    "xgboost": _read_xgboost, "lightgbm": _read_lightgbm, "catboost": _read_catboost,
}  # fmt: skip

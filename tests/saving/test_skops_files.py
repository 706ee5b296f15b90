"""Malicious and damaged skops files are rejected."""

import copy
import io
import json
import os
import warnings
import zipfile

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from setpoint import SetpointThreshold, load
from setpoint.errors import ModelFileError
from setpoint.saving import skops_files
from setpoint.saving.skops_files import (
    ALLOWED,
    check_arrays,
    estimator_from_bytes,
    estimator_to_bytes,
)


def rezipped(data, change, compression=zipfile.ZIP_STORED):
    """Return a skops file with some of its entries changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/evil",)


def test_functions_that_run_code_are_rejected_by_name():
    for harmful, name in (
        (FunctionTransformer(os.system), "posix.system|nt.system"),
        (FunctionTransformer(eval), "builtins.eval"),
        (FunctionTransformer(np.load), "numpy.load"),
        (make_pipeline(FunctionTransformer(LogisticRegression().fit)), "fit"),
    ):
        data = skops.io.dumps(harmful)  # as a forger would
        with pytest.raises(ModelFileError, match=f"{name}.*not loaded"):
            estimator_from_bytes(data)


@pytest.mark.parametrize("loader", ["ObjectNode", "FunctionNode", "TypeNode", "PartialNode"])
def test_types_are_rejected_whatever_loads_them(loader):
    data = skops.io.dumps(LogisticRegression())
    for module, name in (
        ("os", "system"),
        ("builtins", "exec"),
        ("subprocess", "Popen"),
        ("numpy.testing._private.utils", "runstring"),
        ("sklearn.utils._testing", "assert_run_python_script_without_output"),
        ("skrub._data_ops._estimator", "SkrubLearner"),
        ("joblib.memory", "Memory"),
        ("setpoint.model_files", "load"),
        ("a.b", "c"),
    ):

        def change(entry, content, module=module, name=name):
            schema = json.loads(content)
            schema |= {"__module__": module, "__class__": name, "__loader__": loader}
            if loader == "FunctionNode":
                schema["content"] = {"module_path": module, "function": name}
            return json.dumps(schema)

        with pytest.raises(ModelFileError):
            estimator_from_bytes(rezipped(data, change))


def test_only_harmless_types_are_allowed():
    for name in ALLOWED:
        package = name.partition(".")[0]
        assert package in ("sklearn", "skrub", "scipy", "numpy", "functools", "builtins")
        assert "*" not in name
    assert not {n for n in ALLOWED if "data_ops" in n or "_llm" in n or "joblib" in n}


def test_pickles_are_not_read():
    data = skops.io.dumps(LogisticRegression().fit([[0], [1]], [0, 1]))

    def pickled(name, content):
        if not name.endswith(".npy"):
            return content
        buffer = io.BytesIO()
        np.save(buffer, np.array([Evil()], dtype=object), allow_pickle=True)
        return buffer.getvalue()

    with pytest.raises(ModelFileError, match="cannot be read"):
        estimator_from_bytes(rezipped(data, pickled))


def test_zip_bombs_are_rejected_and_large_models_are_not(monkeypatch):
    monkeypatch.setattr(skops_files, "_SAFE_SIZE", 100_000)
    monkeypatch.setattr(skops_files, "_MAX_RATIO", 5)
    model = LogisticRegression()
    model.coef_ = np.zeros((1, 500_000))  # packs to nearly nothing
    data = estimator_to_bytes(model, "The model")
    assert len(data) > 4_000_000  # is therefore not packed
    assert estimator_from_bytes(data).coef_.tobytes() == model.coef_.tobytes()
    packed = skops.io.dumps(model, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="would unpack to implausibly much"):
        estimator_from_bytes(packed)
    model.coef_ = sparse.csr_matrix(np.ones((1, 200_000)))  # which skops packs by itself
    inside = skops.io.dumps(model)
    with pytest.raises(ModelFileError, match="would unpack to implausibly much"):
        estimator_from_bytes(inside)


def test_damaged_files_raise_an_error():
    data = estimator_to_bytes(LogisticRegression().fit([[0], [1]], [0, 1]), "The model")
    for length in (0, 10, 500):
        with pytest.raises(ModelFileError, match="cannot be read"):
            estimator_from_bytes(data[:length])


@pytest.fixture(scope="module")
def xy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[:, 2] = rng.integers(0, 9, 200)
    return X, (X[:, 0] > 0.3) ^ (X[:, 2] % 3 == 1)


def test_boosted_trees_with_invalid_indices(xy):
    model = HistGradientBoostingClassifier(
        max_iter=2, max_depth=3, categorical_features=[2], random_state=0
    ).fit(*xy)
    check_arrays(model)
    predictor: TreePredictor = model._predictors[0][0]
    nodes = predictor.nodes
    inner = np.flatnonzero((nodes["is_leaf"] == 0) & (nodes["is_categorical"] == 1))[0]
    for field, value in (
        ("left", 10**6), ("right", 10**6), ("left", 0), ("feature_idx", 3), ("bitset_idx", 999)
    ):  # fmt: skip
        predictor.nodes = nodes.copy()
        predictor.nodes[field][inner] = value
        with pytest.raises(ModelFileError, match="do not exist"):
            estimator_from_bytes(skops.io.dumps(model))


def test_predictors_without_nodes(xy):
    model = HistGradientBoostingClassifier(max_iter=1).fit(*xy)
    predictor: TreePredictor = model._predictors[0][0]
    predictor.nodes = predictor.nodes[:0]
    with pytest.raises(ModelFileError, match="do not exist"):
        check_arrays(model)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=3, random_state=0),
        RandomForestClassifier(2, random_state=0),
        GradientBoostingClassifier(n_estimators=2, random_state=0),
    ],
    ids=lambda m: type(m).__name__,
)
def test_trees_with_invalid_indices(model, xy):
    model.fit(*xy)
    check_arrays(model)
    tree = model
    while not hasattr(tree, "tree_"):
        tree = np.ravel(tree.estimators_)[0]
    state = tree.tree_.__getstate__()
    nodes = state["nodes"].copy()
    for field, value in (("left_child", 10**6), ("right_child", 0), ("feature", 77)):
        state["nodes"] = nodes.copy()
        state["nodes"][field][0] = value
        tree.tree_.__setstate__(state)
        with pytest.raises(ModelFileError, match="do not exist"):
            estimator_from_bytes(skops.io.dumps(model))


def test_a_forest_for_fewer_features_than_its_trees(xy):
    model = RandomForestClassifier(2, random_state=0).fit(*xy)
    model.n_features_in_ = 1
    with pytest.raises(ModelFileError, match="do not exist"):
        check_arrays(model)


def test_sparse_matrices_with_invalid_indices(xy):
    X, y = xy
    model = SVC().fit(sparse.csr_matrix(X), y)
    check_arrays(model)
    model.support_vectors_.indices[0] = 10**6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelFileError, match="sparse matrix"):
            check_arrays(model)


# --- support vectors ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    return X, (X[:, 0] > 0.4).astype(int) + (X[:, 1] > 0.8)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_valid_support_vectors_are_accepted(form, three_classes):
    X, y = three_classes
    for machine in (SVC(), NuSVC(nu=0.1), SVR(), OneClassSVM()):
        check_arrays(machine.fit(form(X), y))
        check_arrays(machine.fit(form(X), y > 0))
        back = estimator_from_bytes(skops.io.dumps(machine))
        assert (back.predict(form(X)) == machine.predict(form(X))).all()


def test_a_precomputed_kernel_is_accepted(three_classes):
    X, y = three_classes
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    check_arrays(model)
    model.support_[0] = 10**6
    with pytest.raises(ModelFileError, match="do not fit each other"):
        check_arrays(model)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_support_vectors_of_wrong_lengths(form, three_classes):
    X, y = three_classes
    fitted = SVC().fit(form(X), y)
    for name, forged in (
        ("_n_support", lambda a: np.full_like(a, 2 * 10**8)),
        ("_n_support", lambda a: a - [a[0] + 5, *[-a[0] - 5] * (len(a) - 1)]),
        ("_n_support", lambda a: a[:1]),
        ("_dual_coef_", lambda a: a[:, :1]),
        ("dual_coef_", lambda a: a[:, :1]),
        ("_intercept_", lambda a: a[:0]),
        ("_probA", lambda a: np.zeros(7)),
        ("support_", lambda a: a[:3]),
        ("support_", lambda a: -a - 1),
        ("support_vectors_", lambda a: a[:3]),
        ("support_vectors_", lambda a: a[:, :2]),
        ("classes_", lambda a: np.arange(9)),
        ("kernel", lambda _: "precomputed"),
        ("_sparse", lambda s: not s),
    ):
        model = copy.copy(fitted)
        setattr(model, name, forged(getattr(model, name)))
        if name == "kernel":
            model.support_vectors_ = model.support_vectors_[:1]
        with pytest.raises(ModelFileError, match="do not fit each other|cannot be read"):
            estimator_from_bytes(skops.io.dumps(model))


def test_a_model_with_a_forged_support_vector_machine(three_classes, tmp_path):
    X, y = three_classes
    clf = SetpointThreshold(SVC(), "max f1", random_state=0).fit(X, y > 0)
    clf.estimator_._n_support = np.full(2, 2 * 10**8, dtype=np.int32)
    clf.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="do not fit each other"):
        load(tmp_path / "model")

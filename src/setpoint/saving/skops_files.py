"""Fitted estimators of scikit-learn and skrub as skops files, and back.

skops builds only objects of types that it or the list below accepts, so loading runs no code from a
file. What compiled code would trust unchecked, indices and lengths of arrays, is validated by
:func:`check_arrays`.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from setpoint._internal.imports import need
from setpoint.errors import ModelFileError

# Guards against zip bombs: content beyond this size must not be compressed more than a hundredfold.
_SAFE_SIZE = 256 * 2**20
_MAX_RATIO = 100
_TREE = "a tree of the model points to nodes or features that do not exist"


def estimator_to_bytes(estimator: Any, what: str) -> bytes:
    """Return a fitted estimator as a skops file.

    Parameters
    ----------
    estimator : object
        Made of types that ``load`` accepts; others raise ModelFileError.
    what : str
        What it is, e.g. "The encoder"; error messages begin with this.
    """
    skops = need("skops.io", "files", "A saved model")
    try:
        data: bytes = skops.dumps(estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
        if _is_zip_bomb(data):
            data = skops.dumps(estimator)
        unknown = _unknown_types(skops, data)
    except Exception as error:  # an unknown object may raise anything
        raise ModelFileError(f"{what} cannot be saved: {error}") from error
    if unknown:
        raise ModelFileError(
            f"{what} cannot be saved: it contains {unknown}. A model file can hold objects of "
            "scikit-learn and skrub, but no functions or classes of your own or of other packages."
        )
    return data


def estimator_from_bytes(data: bytes) -> Any:
    """Return the estimator; raises ModelFileError for types that are not known to be safe."""
    skops = need("skops.io", "files", "A saved model")
    try:
        if _is_zip_bomb(data):
            raise ModelFileError(
                "a skops file of the model would unpack to implausibly much; it was not loaded."
            )
        unknown = _unknown_types(skops, data)
        if unknown:
            raise ModelFileError(
                f"the model file contains {unknown}, which may run code, and was not loaded. This "
                "version of setpoint does not write such files."
            )
        with warnings.catch_warnings():
            # load() has already warned of it.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            estimator = skops.loads(data, trusted=sorted(ALLOWED))
            check_arrays(estimator)
        return estimator
    except ModelFileError:
        raise
    except Exception as error:  # damaged files raise many kinds of errors
        raise ModelFileError(
            f"a skops file of the model cannot be read: {type(error).__name__}: {error}"
        ) from error


def _unknown_types(skops: Any, data: bytes) -> str:
    """Return the types that are not allowed, for a message."""
    names = sorted(set(skops.get_untrusted_types(data=data)) - ALLOWED)
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _is_zip_bomb(data: bytes) -> bool:
    """Return whether a zip, or one inside of it, unpacks to implausibly much."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        total = sum(entry.file_size for entry in entries)
        if total > max(_SAFE_SIZE, _MAX_RATIO * len(data)):
            return True
        inner = [entry for entry in entries if entry.filename.endswith(".npz")]
        return any(_is_zip_bomb(archive.read(entry)) for entry in inner)


def check_arrays(estimator: Any) -> None:
    """Raise ModelFileError if indices in trees, machines or matrices point outside of their arrays.

    A node of a tree names its children and its feature by index, which prediction in compiled code
    follows without a check: wrong ones could crash the process or read foreign memory. In a fitted
    tree children come after their parent, which also rules out endless loops.
    """
    for holder, held in _held_objects(estimator):
        features = getattr(holder, "n_features_in_", None)
        if isinstance(held, Tree):
            left, right, feature = held.children_left, held.children_right, held.feature
            inner = (left != -1) | (right != -1)
            fits = held.node_count > 0 and held.n_features == features
            _require(fits and _is_valid_tree(left, right, feature, inner, features))
        elif isinstance(held, BaseDecisionTree) and hasattr(held, "tree_"):
            if isinstance(holder, BaseForest | BaseGradientBoosting):
                _require(getattr(held, "n_features_in_", None) == features)
        elif isinstance(held, TreePredictor):
            nodes = held.nodes
            inner = nodes["is_leaf"] == 0
            branches = nodes["left"], nodes["right"], nodes["feature_idx"]
            _require(len(nodes) > 0 and _is_valid_tree(*branches, inner, features))
            by_category = inner & (nodes["is_categorical"] != 0)
            bitsets = nodes["bitset_idx"][by_category]
            for sets in (held.raw_left_cat_bitsets, held.binned_left_cat_bitsets):
                _require(sets.ndim == 2 and sets.shape[1] == 8 and np.all(bitsets < len(sets)))
        elif isinstance(held, BaseLibSVM) and hasattr(held, "support_"):
            _check_vectors(held)
        elif sparse.issparse(held) and held.format in ("csr", "csc"):
            try:
                held.check_format(full_check=True)
            except ValueError as error:
                raise ModelFileError(f"a sparse matrix of the model is damaged: {error}") from error


def _check_vectors(machine: BaseLibSVM) -> None:
    """Raise ModelFileError if the lengths of a support vector machine's arrays do not agree."""
    counts, vectors, weights = machine._n_support, machine.support_vectors_, machine._dual_coef_
    many, classes = len(machine.support_), len(counts)
    pairs = classes * (classes - 1) // 2
    classifies = machine._impl in ("c_svc", "nu_svc")
    by_pair = (machine._intercept_, machine.intercept_, machine._probA, machine._probB)
    _require(
        sparse.issparse(vectors) == sparse.issparse(weights) == bool(machine._sparse)
        and np.all(counts >= 0)
        and (counts.sum() if classifies else counts[0]) == many
        and classes == (len(machine.classes_) if classifies else 2)
        and (weights.data.size if machine._sparse else weights.size) == (classes - 1) * many
        and weights.shape == machine.dual_coef_.shape == (classes - 1, many)
        and [len(values) for values in by_pair[:2]] == [pairs, pairs]
        and all(len(values) in (0, pairs) for values in by_pair[2:])
        and np.all((machine.support_ >= 0) & (machine.support_ < machine.shape_fit_[0]))
        and (
            vectors.shape == (many, machine.n_features_in_)
            or (machine.kernel == "precomputed" and vectors.shape == (0, 0))
        ),
        "the arrays of a support vector machine of the model do not fit each other",
    )


def _is_valid_tree(left: Any, right: Any, feature: Any, inner: Any, features: Any) -> bool:
    """Return whether each inner node has children after it and a feature that exists."""
    here = np.flatnonzero(inner)
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    behind = (children > np.tile(here, 2)) & (children < len(left))
    known = (feature[inner] >= 0) & (feature[inner] < (features or 0))
    return bool(behind.all() and known.all())


def _require(holds: Any, what: str = _TREE) -> None:
    if not holds:
        raise ModelFileError(f"{what}; the file is damaged or malicious.")


def _held_objects(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object inside another one, with the estimator it belongs to."""
    seen: set[int] = set()
    left = [(None, root)]
    while left:
        holder, held = left.pop()
        yield holder, held  # for every holder: each has its own number of features
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, dict):
            left.extend((holder, value) for value in held.values())
        elif isinstance(held, list | tuple | set):
            left.extend((holder, value) for value in held)
        elif isinstance(held, np.ndarray) and held.dtype == object:
            left.extend((holder, value) for value in held.ravel())
        elif isinstance(getattr(held, "__dict__", None), dict) and not isinstance(held, type):
            owner = held if hasattr(held, "n_features_in_") else holder
            left.extend((owner, value) for value in vars(held).values())


# The types that a model file may contain besides those that skops considers safe, which are the
# public estimators of scikit-learn: the private parts that these hold, and those of skrub's table
# encoders. None of them runs code from a file, whatever its arguments; for that reason
# functions are listed one by one.
_SCIKIT_LEARN = (
    "calibration._CalibratedClassifier",
    "calibration._SigmoidCalibration",
    "compose._column_transformer.make_column_selector",
    "ensemble._hist_gradient_boosting.predictor.TreePredictor",  # validated by check_arrays
    "metrics._scorer._PassthroughScorer",
    "model_selection._split.StratifiedKFold",
    "neural_network._stochastic_optimizers.AdamOptimizer",
    "neural_network._stochastic_optimizers.SGDOptimizer",
    "tree._tree.Tree",  # validated by check_arrays
    "utils._bunch.Bunch",
    "utils.validation.check_array",
)
_SKRUB = (
    "_apply_to_cols.ApplyToCols",
    "_apply_to_each_col.ApplyToEachCol",
    "_apply_to_sub_frame.ApplyToSubFrame",
    "_check_input.CheckInputDataFrame",
    "_clean_categories.CleanCategories",
    "_clean_null_strings.CleanNullStrings",
    "_dataframe._common.is_any_date",
    "_dataframe._common.is_bool",
    "_dataframe._common.is_categorical",
    "_dataframe._common.is_duration",
    "_dataframe._common.is_float",
    "_dataframe._common.is_integer",
    "_dataframe._common.is_numeric",
    "_dataframe._common.is_string",
    "_datetime_encoder.DatetimeEncoder",
    "_datetime_encoder._CircularEncoder",
    "_datetime_encoder._SplineEncoder",
    "_drop_uninformative.DropUninformative",
    "_duration_to_float.DurationToFloat",
    "_gap_encoder.GapEncoder",
    "_minhash_encoder.MinHashEncoder",
    "_select_cols.DropCols",
    "_select_cols.SelectCols",
    "_similarity_encoder.SimilarityEncoder",
    "_squashing_scaler.SquashingScaler",
    "_squashing_scaler._MinMaxScaler",
    "_string_encoder.StringEncoder",
    "_table_vectorizer.Cleaner",
    "_table_vectorizer.PassThrough",
    "_table_vectorizer.ShortReprDict",
    "_table_vectorizer.TableVectorizer",
    "_table_vectorizer._created_by_predicate",
    "_to_categorical.ToCategorical",
    "_to_datetime.ToDatetime",
    "_to_float.ToFloat",
    "_to_str.ToStr",
    "_utils.LRUDict",
    "_utils.PassThrough",
    "selectors._base.All",
    "selectors._base.And",
    "selectors._base.Cols",
    "selectors._base.Filter",
    "selectors._base.Inv",
    "selectors._base.Or",
    "selectors._base.Sub",
    "selectors._base.XOr",
    "selectors._selectors._cardinality_below",
)
_OTHERS = (
    "builtins.object",  # the dtype of string columns
    "functools.partial",  # of functions on this list
    "numpy.dtype",
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    "scipy.interpolate._bsplines.BSpline",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
)

ALLOWED = frozenset(
    [*(f"sklearn.{n}" for n in _SCIKIT_LEARN), *(f"skrub.{n}" for n in _SKRUB), *_OTHERS]
)

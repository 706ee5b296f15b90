"""Parts of scikit-learn and skrub as skops files and back, without running anything from them."""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from setpoint._internal.imports import need
from setpoint.errors import ModelFileError
from setpoint.saving.integrity import check

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


_SCIKIT_LEARN = (
    "calibration._CalibratedClassifier",
    "calibration._SigmoidCalibration",
    "compose._column_transformer.make_column_selector",
    "ensemble._hist_gradient_boosting.predictor.TreePredictor",  # checked by integrity.check
    "metrics._scorer._PassthroughScorer",
    "model_selection._split.StratifiedKFold",
    "neural_network._stochastic_optimizers.AdamOptimizer",
    "neural_network._stochastic_optimizers.SGDOptimizer",
    "tree._tree.Tree",  # checked by integrity.check
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
    "builtins.object",  # the dtype of columns of texts
    "functools.partial",  # of functions that are allowed themselves
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

# DOC of model_files.allowed: The types that a model file may hold besides those that skops itself takes for safe.
#
# skops knows all public estimators of scikit-learn. Here are the inner parts that fitted ones hold,
# and those of skrub's encoders of tables. None of them runs what a file says, whatever arguments it
# is given; functions are named one by one for that reason.
#

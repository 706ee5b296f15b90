"""The types that a model file may hold besides those that skops itself takes for safe.

skops knows all public estimators of scikit-learn. Here are the inner parts that fitted ones hold,
and those of skrub's encoders of tables. None of them runs what a file says, whatever arguments it
is given; functions are named one by one for that reason.
"""

from __future__ import annotations

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

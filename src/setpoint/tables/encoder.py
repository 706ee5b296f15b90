"""Encoding of columns of all kinds as features: one dense matrix of numbers.

An encoder is a ``ColumnTransformer`` of scikit-learn's and skrub's classes, without custom
functions, so that it can be saved and loaded without executing code from a file. Its input is what
:meth:`Schema.check` returns, and each row's features depend on that row alone.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from setpoint._internal.imports import OptionalModule
from setpoint.errors import SchemaError
from setpoint.explain.column_summary import ColumnSummary
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema

skrub = OptionalModule("skrub", "cli", "encoding tables")

TEXT_FEATURES = 200
FEW_LEVELS = 40  # categories with more are encoded by their letters
TREE_LEVELS = 255  # the most that scikit-learn's boosted trees accept
CATEGORIES = ("categories", "categories_filled")  # the steps that know levels by name
_CATEGORY_FEATURES = 30
_FEWEST_MARKED, _LEAST_MARKED = 20, 0.01  # rows, and fraction of rows
HUGE = 1e38  # close to the largest 32-bit float
_BUCKETS = 2**15  # for the n-grams of a text


def make_encoder(
    schema: Schema,
    *,
    text_features: int = TEXT_FEATURES,
    for_trees: bool = False,
    random_state: int = 0,
) -> Any:
    """Return an unfitted transformer for the columns of a schema.

    For linear models and networks all features are finite and of similar scale: numbers are
    squashed, so that outliers and infinities do not dominate; missing ones are imputed, and marked
    if they were frequent enough in training; categories have one feature for each level, or
    features from their letters if there are many; dates are split into their components. For trees,
    missing values stay NaN, numbers stay unchanged, and categories of up to 255 levels become
    integers from 0 on: the first :func:`tree_categories` features.

    Texts become TF-IDF of character n-grams, reduced by a truncated SVD. The n-grams are hashed, so
    that no text is stored with the model.

    Parameters
    ----------
    schema : Schema
        The columns. If it was ``counted`` on the rows that fit the encoder, missing values are
        marked in columns that miss at least 20 values and 1 %.
    text_features : int
        The number of features of a text column.
    for_trees : bool
        Whether the features are for trees.
    random_state : int
        Seed of the truncated SVD.
    """
    if text_features < 1:
        raise SchemaError(f"text_features must be at least 1, not {text_features}.")
    few, many = _by_levels(schema, TREE_LEVELS if for_trees else FEW_LEVELS)
    steps = _tree_steps(schema, few) if for_trees else _linear_steps(schema, few)
    strings = skrub.StringEncoder(_CATEGORY_FEATURES, random_state=random_state)
    steps += [(f"letters_{i}", strings, name) for i, name in enumerate(many)]
    text = _text(text_features, random_state)
    steps += [(f"text_{i}", text, c.name) for i, c in enumerate(schema.of_kind("text"))]
    return ColumnTransformer(steps, sparse_threshold=0.0)


def tree_categories(schema: Schema) -> int:
    """Return the number of categories, which are the first features for trees."""
    return len(_by_levels(schema, TREE_LEVELS)[0])


def fit_encoder(encoder: Any, frame: Any) -> Any:
    """Fit an encoder on checked rows, and return it."""
    with warnings.catch_warnings():
        # Columns that are all missing in these rows, and texts too few for a full SVD.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", message="The matrix shape is", category=UserWarning)
        warnings.filterwarnings("ignore", message="Skipping features", category=UserWarning)
        try:
            return encoder.fit(frame)
        except ValueError as error:
            raise SchemaError(f"the columns cannot be encoded: {error}") from error


def encode(encoder: Any, frame: Any) -> NDArray[np.float32]:
    """Return the features of checked rows: finite, or for trees NaN where missing."""
    features = np.clip(encoder.transform(frame), -HUGE, HUGE)  # only trees get such numbers
    return np.ascontiguousarray(features, dtype=np.float32)


def side_by_side(*encoders: Any) -> Any:
    """Return one encoder with the features of several fitted ones."""
    return FeatureUnion([(f"part_{i}", encoder) for i, encoder in enumerate(encoders)])


def encoder_parts(encoder: Any) -> list[Any]:
    """Return the ColumnTransformers of which an encoder consists."""
    if isinstance(encoder, FeatureUnion):
        return [part for _, part in encoder.transformer_list]
    return [encoder]


def summaries_of(schema: Schema, checked: Any) -> tuple[ColumnSummary, ...]:
    """Return a summary of each column of checked training rows.

    Of categories with many values, only frequent values are kept.
    """
    few, _ = _by_levels(schema, FEW_LEVELS)
    return tuple(
        ColumnSummary.of(c.name, c.kind, checked[c.name], every_level=c.name in few)
        for c in schema.columns
    )


def feature_names(encoder: Any) -> list[str]:
    """Return a readable name for each feature of a fitted encoder."""
    if isinstance(encoder, FeatureUnion):
        return [name for part in encoder_parts(encoder) for name in feature_names(part)]
    names: list[str] = []
    for step, transformer, columns in encoder.transformers_:
        where = encoder.output_indices_[step]
        if step.startswith("text_"):  # hashed n-grams have no names
            names += [f"{columns}_{i}" for i in range(where.stop - where.start)]
        elif transformer == "passthrough":
            names += columns
        elif step != "remainder":
            inputs = [columns] if isinstance(columns, str) else columns
            names += map(str, transformer.get_feature_names_out(inputs))
    return names


def _by_levels(schema: Schema, most: int) -> tuple[list[str], list[str]]:
    """Return the categories with fewer than ``most`` levels, and the others."""
    columns = schema.of_kind("category")
    few = [c.name for c in columns if c.levels is not None and c.levels < most]
    return few, [c.name for c in columns if c.name not in few]


def _linear_steps(schema: Schema, few: list[str]) -> list[tuple[str, Any, Any]]:
    def filled(strategy: str, marked: bool, *before: Any) -> Any:
        filler = SimpleImputer(strategy=strategy, add_indicator=marked, keep_empty_features=True)
        return make_pipeline(*before, filler)

    def of(kind: str, marked: bool) -> list[str]:
        return [c.name for c in schema.of_kind(kind) if _marked(c) is marked]

    squash = skrub.SquashingScaler()
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    common = SimpleImputer(missing_values="", strategy="most_frequent")
    rare = [c.name for c in schema.of_kind("category") if c.name in few and _rarely_missing(c)]
    times = skrub.DatetimeEncoder(add_weekday=True, periodic_encoding="circular")
    steps: list[tuple[str, Any, Any]] = [
        ("numbers", filled("median", True, squash), of("number", True)),
        ("numbers_filled", filled("median", False, squash), of("number", False)),
        ("booleans", filled("most_frequent", True), of("boolean", True)),
        ("booleans_filled", filled("most_frequent", False), of("boolean", False)),
        ("categories", levels, [name for name in few if name not in rare]),
        ("categories_filled", make_pipeline(common, levels), rare),
    ]
    steps = [step for step in steps if step[2]]
    for i, column in enumerate(schema.of_kind("date")):
        steps.append((f"date_{i}", filled("median", _marked(column), times, squash), column.name))
    return steps


def _rarely_missing(column: Column) -> bool:
    """Whether a column was missing in too few rows to learn from that.

    A feature that is 1 in one row of thousands becomes very large when standardized, and its weight
    follows that row's label. Later it would decide all rows in which the column is missing.
    """
    if column.absent is None:  # not counted
        return False
    missing, rows = column.absent
    return missing < max(_FEWEST_MARKED, _LEAST_MARKED * rows)


def _marked(column: Column) -> bool:
    """Whether missing values are marked by a feature; not if few are present, or few missing."""
    few_there = column.absent is not None and column.absent[1] - column.absent[0] < _FEWEST_MARKED
    return not _rarely_missing(column) and not few_there


def _tree_steps(schema: Schema, few: list[str]) -> list[tuple[str, Any, Any]]:
    levels = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, dtype=np.float64
    )
    numbers = [c.name for c in schema.of_kind("number", "boolean")]
    steps = [("categories", levels, few), ("numbers", "passthrough", numbers)]
    steps = [step for step in steps if step[2]]
    times = skrub.DatetimeEncoder(add_weekday=True)
    dates = schema.of_kind("date")
    return steps + [(f"date_{i}", times, column.name) for i, column in enumerate(dates)]


def _text(features: int, random_state: int) -> Any:
    pieces = HashingVectorizer(
        n_features=_BUCKETS,
        analyzer="char_wb",
        ngram_range=(3, 4),
        alternate_sign=False,
        norm=None,
        dtype=np.float32,
    )
    return make_pipeline(
        pieces,
        TfidfTransformer(sublinear_tf=True),
        TruncatedSVD(features, random_state=random_state),
    )

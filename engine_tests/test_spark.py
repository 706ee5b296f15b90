"""Spark gives the scores and decisions of setpoint, through ``mlflow.pyfunc.spark_udf``."""

import os
import sys
from decimal import Decimal

import mlflow
import numpy as np
import pandas as pd
import pytest
from payments import GOAL, arrays, payments
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, struct
from sklearn.linear_model import LogisticRegression

import setpoint.saving.mlflow
from setpoint import SetpointBand
from setpoint.tables import fit_table


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def table(rows):
    """Return rows with a column of whole days."""
    return rows.assign(day=rows["when"].dt.normalize().dt.date)


NEW = table(payments(300, seed=1).drop(columns="fraud")).assign(id=range(300))


@pytest.fixture(scope="module")
def model():
    return fit_table(table(payments()), "fraud", GOAL, model="hgb", random_state=0).model


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "a model"
    setpoint.saving.mlflow.save_model(model, path)
    return str(path)


def in_spark(spark, frame):
    """Return a data frame of Spark in which missing values are null."""
    return spark.createDataFrame(frame.astype(object).where(frame.notna(), None)).repartition(3)


def scored(rows, function, *columns):
    found = rows.withColumn("found", function(*columns)).select("id", "found.*").toPandas()
    return found.sort_values("id", ignore_index=True)


def same(found, expected):
    expected = expected.reset_index(drop=True)
    assert list(found) == ["id", *expected]
    pd.testing.assert_frame_equal(found[list(expected)], expected, check_dtype=False, rtol=1e-12)


def test_all_kinds_of_columns_by_the_names_of_the_signature(spark, path, model):
    rows = in_spark(spark, NEW)
    types = dict(rows.dtypes)
    assert types["items"] == "bigint"
    assert (types["when"], types["day"], types["known"]) == ("timestamp", "date", "boolean")
    function = mlflow.pyfunc.spark_udf(spark, path, env_manager="local")
    same(scored(rows, function), model.predict(NEW, ignore_extra=True))


def test_a_struct_in_any_order_with_columns_that_the_model_does_not_know(spark, path, model):
    rows = in_spark(spark, NEW)
    function = mlflow.pyfunc.spark_udf(spark, path, env_manager="local")
    found = scored(rows, function, struct(*sorted(rows.columns, reverse=True)))
    same(found, model.predict(NEW, ignore_extra=True))


def test_whole_numbers_that_are_missing_in_some_batches_and_decimals(spark, path, model):
    frame = NEW.astype({"items": object, "amount due": object})
    frame.loc[frame.index[:100:7], "items"] = None
    present = frame["amount due"].notna()
    frame.loc[present, "amount due"] = [Decimal(f"{v:.2f}") for v in frame["amount due"][present]]
    rows = in_spark(spark, frame)
    assert dict(rows.dtypes)["amount due"].startswith("decimal")
    function = mlflow.pyfunc.spark_udf(spark, path, env_manager="local")
    expected = NEW.astype({"items": "float64"})
    expected.loc[expected.index[:100:7], "items"] = np.nan
    same(scored(rows, function), model.predict(expected, ignore_extra=True))


def test_no_rows_and_a_single_decision(spark, path, model):
    rows = in_spark(spark, NEW)
    function = mlflow.pyfunc.spark_udf(spark, path, env_manager="local")
    assert scored(rows.where("id < 0"), function).empty
    alarms = rows.where(function().getField("alarm")).count()
    assert alarms == model.predict(NEW, ignore_extra=True)["alarm"].sum()
    assert 0 < alarms < len(NEW)


def test_a_missing_column_is_named(spark, path):
    rows = in_spark(spark, NEW.drop(columns="country"))
    function = mlflow.pyfunc.spark_udf(spark, path, env_manager="local")
    with pytest.raises(PythonException, match="'country'"):
        scored(rows, function, struct(*rows.columns))


def test_a_band_of_columns_without_names(spark, tmp_path):
    X, y = arrays()
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.8"
    band = SetpointBand(LogisticRegression(), goal, random_state=0).fit(X, y)
    setpoint.saving.mlflow.save_model(band, tmp_path / "band")
    rows = spark.createDataFrame(pd.DataFrame(X, columns=list("abcd")).assign(id=range(len(X))))
    function = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "band"), env_manager="local")
    expected = {"score": band.positive_scores(X), "decision": band.predict(X)}
    same(scored(rows, function, *map(col, "abcd")), pd.DataFrame(expected))

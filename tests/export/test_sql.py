"""DuckDB computes the same scores and decisions as the model; other dialects can be parsed."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from setpoint import (
    ModelSearch,
    SetpointBand,
    SetpointClassifier,
    SetpointMultilabel,
    SetpointThreshold,
    load,
)
from setpoint.errors import SqlError
from setpoint.estimators.stacking import Member, StackedModels
from setpoint.export.sql import export_sql, sql_statement
from setpoint.export.sql import trees as sql_trees
from setpoint.export.sql.features import largest_below
from setpoint.tables import fit_table
from setpoint.tables.encoder import encode, fit_encoder, make_encoder, tree_categories
from setpoint.tables.goal_columns import segments_of
from setpoint.tables.model import TableModel
from setpoint.tables.schema import Schema
from sql_tables import ODD, in_duckdb, odd_table

TRAIN, NEW = odd_table(800), odd_table(1500, seed=1, new=True).drop(columns="class")
OTHERS = ("postgres", "bigquery", "snowflake")
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def quietly(function, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def table_model(estimator, frame=TRAIN, wrapper=SetpointThreshold, goal="max f1", **parameters):
    """Fit a classifier to the columns of a table, in the way that setpoint fit does."""
    for_trees = isinstance(estimator, HistGradientBoostingClassifier)
    rows = frame.drop(columns="class")
    schema = Schema.of(rows)
    checked = schema.check(rows)
    schema = schema.counted(checked)
    encoder = fit_encoder(make_encoder(schema, for_trees=for_trees), checked)
    if for_trees:
        estimator.set_params(categorical_features=list(range(tree_categories(schema))) or None)
    if estimator == "linear":
        classifier = SetpointClassifier(goal, solver="cross_entropy", random_state=0)
    else:
        classifier = wrapper(estimator, goal, cv=0.5, random_state=0)
    classifier.set_params(**parameters)
    y, X = (frame["class"] == "bad").to_numpy(), encode(encoder, checked)
    named = {}
    if parameters.get("thresholds") == "per group":
        named["segments"] = {"region": segments_of(frame["region"])}
    if parameters.get("decision") == "expected_value":
        named["amounts"] = {"price": frame["price"].to_numpy()}
    quietly(classifier.fit, X, y, **named)
    return TableModel(schema, encoder, classifier, "class", "it's ok", "bad")


@pytest.fixture(scope="module")
def linear():
    return table_model("linear")


@pytest.fixture(scope="module")
def logistic():
    return table_model(LOGISTIC)


def hgb(**parameters):
    return HistGradientBoostingClassifier(max_iter=12, random_state=0, **parameters)


def compared(model, rows=NEW, exact=True):
    """Return the largest difference of scores, after checking all columns of the result."""
    found = in_duckdb(sql_statement(model), rows)
    expected = quietly(model.predict, rows)
    assert list(found.columns) == [*rows.columns, *expected.columns]
    for name in rows.columns:
        assert found[name].isna().tolist() == rows[name].isna().tolist()
    if exact:
        assert found["score"].tolist() == expected["score"].tolist()
    decided = [name for name in expected.columns if name != "score"]
    assert (found[decided] == expected[decided]).all(axis=None)
    assert found[decided].nunique().min() > 1
    return np.abs(found["score"] - expected["score"]).max()


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [
        hgb(),
        RandomForestClassifier(8, min_samples_leaf=5, random_state=0),
        ExtraTreesClassifier(8, min_samples_leaf=5, random_state=0),
        DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_trees_have_the_same_scores_bit_for_bit(estimator):
    compared(table_model(estimator))


def test_a_linear_model_is_computed_in_64_bits_from_the_same_32_bit_features(linear):
    assert compared(linear, exact=False) < 2e-6
    classifier = linear.classifier
    features = classifier.standardizer_.transform(linear.features(NEW)).astype(np.float64)
    weight = classifier.module_.weight.detach().double().numpy().ravel()
    logits = features @ weight + float(classifier.module_.bias.detach())
    expected = logits - float(np.float32(classifier.logit_threshold_))
    found = in_duckdb(sql_statement(linear), NEW)["score"]
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


def test_logistic_regression_is_computed_in_64_bits_from_the_same_32_bit_features(logistic):
    assert compared(logistic, exact=False) < 2e-6
    scaler, regression = (step for _, step in logistic.classifier.estimator_.steps)
    features = scaler.transform(logistic.features(NEW)).astype(np.float64)
    expected = features @ regression.coef_.ravel().astype(np.float64)
    expected += float(regression.intercept_[0]) - logistic.classifier.threshold_
    found = in_duckdb(sql_statement(logistic), NEW)["score"]
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_linear_models_of_tables_have_the_same_scores(model):
    fitted = quietly(fit_table, TRAIN, "class", "max f1", positive="bad", model=model).model
    assert compared(fitted, exact=False) < 1e-9


def test_a_linear_model_that_auto_chose_has_the_same_scores(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(3, 1.5, (1500, 4)), columns=list("abcd"))
    frame["kind"] = rng.choice(list("xyz"), len(frame))
    logit = np.log(frame[list("abcd")]) @ [1, -1, 0.5, 0.2] + (frame["kind"] == "x") - 2
    frame["class"] = rng.random(len(frame)) < 1 / (1 + np.exp(-logit))
    fitted = quietly(fit_table, frame, "class", "max f1", model="auto", time_limit=1e-6)
    assert fitted.model.facts["model"] == "auto (logistic)"
    rows = frame.drop(columns="class")
    assert compared(fitted.model, rows, exact=False) < 1e-9
    fitted.model.save(tmp_path / "model")
    assert compared(load(tmp_path / "model"), rows, exact=False) < 1e-9


def test_probabilities_decide_by_expected_value():
    frame = TRAIN.assign(price=np.random.default_rng(0).lognormal(3, 1, len(TRAIN)))
    goal = "min cost(fp=5, fn=price)"
    model = table_model(hgb(), frame, goal=goal, decision="expected_value")
    rows = NEW.assign(price=np.random.default_rng(1).lognormal(3, 1, len(NEW)))
    assert compared(model, rows, exact=False) < 1e-9
    rows.loc[:2, "price"] = [np.nan, -1.0, np.inf]  # refused by Python
    found = in_duckdb(sql_statement(model), rows)
    assert found.loc[:2, ["score", "alarm", "predicted"]].isna().all(axis=None)
    assert found.loc[3:].notna()["score"].all()


def test_segments_have_thresholds_of_their_own():
    rng = np.random.default_rng(5)
    names = ["north", "it's", "tiny", None]
    frame = odd_table(1600)
    frame["region"] = rng.choice(names, len(frame), p=[0.4, 0.3, 0.01, 0.29])
    goal = "max recall s.t. precision >= 0.5 for each region"
    model = table_model(hgb(), frame, goal=goal, thresholds="per group")
    assert len(set(model.classifier.segment_thresholds_.thresholds.values())) > 2
    rows = NEW.assign(region=rng.choice([*names, " north", "new"], len(NEW)))
    compared(model, rows)


REGIONS = {
    "whole numbers": [10, 20, 30],
    "floats": [10.0, 2.5, 0.1],
    "booleans": [True, False],
    "large numbers": [2**60 + 1, 2**60 + 3, 7],
    "texts": ["10", "007", "True"],
}


def with_thresholds_by_region(region, seed=5):
    """Return a model with a threshold for each region, whose rows differ in how likely they are."""
    frame = odd_table(1600, seed=seed)
    frame["region"] = region
    goal = "max recall s.t. precision >= 0.4 for each region"
    return table_model(hgb(), frame, goal=goal, thresholds="per group")


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("missing", [False, True])
def test_segments_are_compared_as_python_writes_them(kind, missing):
    rng = np.random.default_rng(5)

    def column(n, more=()):
        drawn = rng.choice(np.array([*REGIONS[kind], *more], dtype=object), n)
        if missing:
            drawn[rng.random(n) < 0.3] = None
        found = pd.Series(drawn)
        numeric = kind in ("floats", "whole numbers") or (kind == "large numbers" and not missing)
        if kind == "booleans":
            return found.astype("boolean")
        return pd.to_numeric(found) if numeric else found

    model = with_thresholds_by_region(column(1600))
    assert len(set(model.classifier.segment_thresholds_.thresholds.values())) > 1
    more = {"floats": [4.5, 1e20], "whole numbers": [99], "texts": ["10.0", "true"]}.get(kind, ())
    rows = NEW.assign(region=column(len(NEW), more))
    compared(model, rows)
    if kind == "whole numbers":
        compared(model, rows.assign(region=rows["region"].astype("float64")))


@pytest.mark.parametrize(
    ("region", "rows"),
    [
        (np.array([10.0, 20.0, 30.5]), np.array([10.0, 20.0, 30.5, 7.25])),
        (np.array([True, False]), np.array([True, False])),
        (np.array(["a", " a", "b"]), np.array(["a", " a", "b", "c", "a "])),
        (np.array([1, 2, 3]), np.array([1, 2, 3, 4])),
    ],
    ids=["floats", "booleans", "texts", "integers"],
)
def test_segments_of_arrays_are_compared_as_python_writes_them(region, rows):
    goal = "max recall s.t. precision >= 0.5 for each region"
    clf = SetpointThreshold(hgb(), goal, thresholds="per group", cv=0.5, random_state=0)
    own = RNG.choice(region, len(X))
    quietly(clf.fit, X, Y, segments={"region": own})
    assert len(set(clf.segment_thresholds_.thresholds.values())) > 1
    own = RNG.choice(rows, len(X))
    found = in_duckdb(
        sql_statement(clf), pd.DataFrame(X, columns=["f0", "f1", "f2"]).assign(region=own)
    )
    expected = clf.positive_scores(X, segments={"region": own})
    assert np.allclose(found["score"], expected, rtol=0, atol=1e-12)
    assert found["alarm"].tolist() == (expected > 0).tolist()
    frame = pd.DataFrame(X, columns=["f0", "f1", "f2"]).assign(region=own).head(3)
    frame["region"] = frame["region"].astype(object)
    frame.loc[1, "region"] = None  # refused by Python
    found = in_duckdb(sql_statement(clf), frame)
    assert found["alarm"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pd.to_datetime(["2024-01-01", "2024-02-01"]), "'region' holds dates"),
        (np.array(["1.50", "2.50"], dtype=object), "'1.50' in 'region' is written like a text"),
    ],
    ids=["dates", "numbers as texts"],
)
@pytest.mark.parametrize("known", [True, False])
def test_segments_that_sql_writes_in_another_way_are_refused(values, why, known):
    rng = np.random.default_rng(0)
    region = pd.Series(rng.choice(values, 1600))
    if known:
        with pytest.raises(SqlError, match=why):
            sql_statement(with_thresholds_by_region(region))
        return
    goal = "max recall s.t. precision >= 0.5 for each region"
    clf = SetpointThreshold(hgb(), goal, thresholds="per group", cv=0.5, random_state=0)
    quietly(clf.fit, X, Y, segments={"region": segments_of(region[: len(X)])})
    if "dates" in why:
        with pytest.raises(SqlError, match=why):
            sql_statement(clf)
    else:
        sql_statement(clf)  # these are texts


def test_a_review_band_has_three_decisions():
    goal = "min review_rate s.t. precision(alarm) >= 0.8, npv(clear) >= 0.9"
    model = table_model(hgb(), wrapper=SetpointBand, goal=goal)
    compared(model)
    assert set(in_duckdb(sql_statement(model), NEW)["decision"]) == {"alarm", "review", "clear"}


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE"])
def test_booleans_may_be_numbers_of_which_nan_is_missing(kind):
    import duckdb

    name = ODD[3]
    model = table_model(hgb(), TRAIN[[name, "whole", "class"]])
    rows = NEW[[name, "whole"]].tail(200)
    expected = model.predict(rows)["score"].tolist()
    missing = "'NaN'" if kind == "DOUBLE" else "NULL"
    cast = f'CAST(COALESCE(CAST("{name}" AS INT)::VARCHAR, {missing}) AS {kind})'
    with duckdb.connect() as database:
        database.register("given", rows)
        database.execute(f'CREATE TABLE rows AS SELECT * REPLACE ({cast} AS "{name}") FROM given')
        found = database.sql(sql_statement(model)).to_arrow_table().to_pandas()
    assert found["score"].tolist() == expected
    assert "AS TEXT), '[.]0*$', ''), 'NaN') AS BOOLEAN)" in sql_statement(model, dialect="postgres")


def test_times_in_a_zone_have_its_hours_and_days():
    rng = np.random.default_rng(0)

    def rows(n):
        when = pd.Timestamp("2023-12-25", tz="UTC") + pd.to_timedelta(rng.integers(0, 3e7, n), "s")
        frame = pd.DataFrame({"when": when.tz_convert("America/New_York"), "x": rng.random(n)})
        return frame.assign(**{"class": np.where(frame["when"].dt.hour < 6, "bad", "it's ok")})

    model = table_model(hgb(), rows(600))
    found = rows(800).drop(columns="class")
    expected = model.predict(found)
    scored = in_duckdb(sql_statement(model), found.assign(when=found["when"].dt.tz_convert("UTC")))
    assert scored["score"].tolist() == expected["score"].tolist()


def test_infinite_thresholds_decide_all_rows(logistic):
    for threshold in (np.inf, -np.inf):
        logistic.classifier.threshold_, before = threshold, logistic.classifier.threshold_
        try:
            found = in_duckdb(sql_statement(logistic), NEW)
        finally:
            logistic.classifier.threshold_ = before
        assert found["alarm"].unique().tolist() == [threshold < 0]


# --- arrays --------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
Y = RNG.random(500) < 0.3
X = np.column_stack(
    [RNG.standard_normal(500) + Y, RNG.lognormal(size=500), RNG.integers(0, 6, 500)]
)


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        ("linear", 1e-9),
        (LOGISTIC, 1e-9),
        (LogisticRegression(), 1e-9),
        (hgb(categorical_features=[2]), 0),
        (RandomForestClassifier(5, random_state=0), 0),
        (DecisionTreeClassifier(max_depth=5), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("positive", [0, 1])
def test_classifiers_of_arrays_take_columns(estimator, tolerance, positive):
    if estimator == "linear":
        clf = SetpointClassifier(solver="cross_entropy", pos_label=positive, random_state=0)
    else:
        clf = SetpointThreshold(estimator, cv=0.5, pos_label=positive, random_state=0)
    quietly(clf.fit, X, Y.astype(int))
    new = np.concatenate([X * 1.01, X[:, [1, 0, 2]] + [0, 0, 0.5]])
    found = in_duckdb(sql_statement(clf), pd.DataFrame(new, columns=["f0", "f1", "f2"]))
    expected = clf.positive_scores(new) - getattr(clf, "threshold_", 0.0)
    assert np.abs(found["score"] - expected).max() <= tolerance
    assert found["predicted"].tolist() == clf.predict(new).tolist()


@pytest.mark.parametrize(("labels", "positive"), [([0, 1], 1), (["yes", "no"], "no")])
@pytest.mark.parametrize("method", ["auto", "predict_proba"])
def test_a_chosen_model_that_is_trained_for_the_goal(labels, positive, method):
    models = {"linear": SetpointClassifier("max f1", random_state=0)}
    clf = SetpointThreshold(
        ModelSearch(models), "max f1", random_state=0, pos_label=positive, response_method=method
    )
    y = np.where(Y, positive, next(label for label in labels if label != positive))
    quietly(clf.fit, X, y)
    new = pd.DataFrame(X * 1.01, columns=["f0", "f1", "f2"])
    found = in_duckdb(sql_statement(clf), new)
    expected = clf.positive_scores(X * 1.01) - clf.threshold_
    assert np.abs(found["score"] - expected).max() < 1e-9
    assert found["predicted"].tolist() == clf.predict(X * 1.01).tolist()


def test_stacks_are_refused():
    search = ModelSearch({"line": LOGISTIC, "trees": hgb()})
    clf = quietly(SetpointThreshold(search, "max f1", random_state=0).fit, X, Y)
    stack = [Member("line", LOGISTIC.fit(X, Y)), Member("trees", hgb().fit(X, Y))]
    clf.estimator_ = StackedModels(stack, np.ones(2))
    with pytest.raises(SqlError, match="a stack of several models.* --model hgb"):
        sql_statement(clf)


def test_a_chosen_forest_of_text_labels_is_refused():
    search = ModelSearch({"forest": RandomForestClassifier(5, random_state=0)})
    clf = SetpointThreshold(search, "max f1", random_state=0, pos_label="yes")
    quietly(clf.fit, X, np.where(Y, "yes", "no"))
    with pytest.raises(SqlError, match="'forest', chosen .* for labels other than 0 and 1.*ONNX"):
        sql_statement(clf)


def test_columns_without_a_name_are_refused():
    frame = TRAIN[["whole", "class"]].rename(columns={"whole": ""})
    model = quietly(fit_table, frame, "class", "max f1", positive="bad", model="hgb").model
    with pytest.raises(SqlError, match="the column '' has no name.* Name it.*: --drop ''"):
        sql_statement(model)


@pytest.mark.parametrize(
    ("estimator", "tolerance"), [(LOGISTIC, 1e-9), (hgb(), 0)], ids=["logistic", "trees"]
)
@pytest.mark.parametrize(("labels", "positive"), [(["no", "yes"], "yes"), (["yes", "no"], "no")])
@pytest.mark.parametrize("method", ["auto", "predict_proba"])
def test_a_chosen_model_may_have_labels_of_any_kind(
    estimator, tolerance, labels, positive, method, tmp_path
):
    rows = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = SetpointThreshold(
        ModelSearch({"one": estimator}), cv=2, pos_label=positive, response_method=method,
        random_state=0,
    )  # fmt: skip
    quietly(clf.fit, rows, np.where(Y, *labels[::-1]))
    clf.save(tmp_path / "model")
    for one in (clf, load(tmp_path / "model")):
        found = in_duckdb(sql_statement(one), rows)
        expected = one.positive_scores(rows) - one.threshold_
        assert np.abs(found["score"] - expected).max() <= max(tolerance, 1e-15)
        assert found["predicted"].tolist() == one.predict(rows).tolist()


def test_columns_of_arrays_have_the_names_of_features():
    names = [ODD[0], "Setpoint_score", "ORDER"]
    clf = quietly(SetpointThreshold(hgb(), random_state=0).fit, pd.DataFrame(X, columns=names), Y)
    rows = pd.DataFrame(X, columns=names)
    found = in_duckdb(sql_statement(clf), rows)
    assert list(found.columns) == [*names, "score", "alarm", "predicted"]
    assert found["predicted"].tolist() == clf.predict(rows).tolist()


def test_rows_without_a_score_have_no_decision():
    clf = quietly(SetpointThreshold(LOGISTIC, random_state=0).fit, X, Y)
    rows = pd.DataFrame(X[:3], columns=["f0", "f1", "f2"])
    rows.loc[1, "f0"] = None
    found = in_duckdb(sql_statement(clf), rows)
    assert found[["score", "alarm", "predicted"]].isna().any(axis=1).tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
@pytest.mark.parametrize("positive", [0, 1])
def test_rows_with_missing_or_infinite_features_have_no_score(method, positive):
    clf = SetpointThreshold(
        LOGISTIC, cv=0.5, pos_label=positive, response_method=method, random_state=0
    )
    quietly(clf.fit, X, Y.astype(int))
    rows = pd.DataFrame(X[:6], columns=["f0", "f1", "f2"])
    rows.loc[1, "f0"] = None
    rows.loc[2, "f1"] = np.nan
    rows.loc[3] = [np.inf, np.inf, -np.inf]
    for threshold in (clf.threshold_, np.inf, -np.inf):
        clf.threshold_ = threshold
        found = in_duckdb(sql_statement(clf), rows)
        for name in ("score", "alarm", "predicted"):
            assert found[name].isna().tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
def test_probabilities_of_large_logits_are_those_of_python(method):
    clf = SetpointThreshold(LOGISTIC, cv=0.5, response_method=method, random_state=0)
    quietly(clf.fit, X, Y)
    rows = np.concatenate([X[:5], X[:5] * [1e4, 1, 1], X[:5] * [1e6, 1, 1]])
    found = in_duckdb(sql_statement(clf), pd.DataFrame(rows, columns=["f0", "f1", "f2"]))
    expected = clf.positive_scores(rows) - clf.threshold_
    assert np.allclose(found["score"], expected, rtol=1e-12, atol=1e-9)
    assert found["predicted"].tolist() == clf.predict(rows).tolist()


# --- the statement -------------------------------------------------------------------------------


def test_splits_of_32_bit_floats_are_exact_in_64_bits():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-46, 40, 3000)
    thresholds = np.concatenate([sizes, -sizes, [0.0, 1.0, 3.4e38, -3.5e38]])
    with np.errstate(over="ignore"):
        around = thresholds.astype(np.float32).astype(np.float64)
        for threshold in np.concatenate([thresholds, around[np.isfinite(around)]]):
            cut = largest_below(threshold)
            assert np.float32(cut) <= threshold
            assert np.float32(np.nextafter(cut, np.inf)) > threshold


@pytest.mark.parametrize("estimator", [LOGISTIC, hgb()], ids=["logistic", "hgb"])
def test_other_columns_of_the_table_may_have_the_names_of_helper_columns(estimator):
    import duckdb

    model = table_model(estimator)
    statement = sql_statement(model)
    helpers = set(re.findall(r"\bsetpoint_\w+", statement))
    assert {"setpoint_score", "setpoint_row", "setpoint_1"} <= helpers
    more = pd.DataFrame(1e6, index=NEW.index, columns=sorted(helpers - {"setpoint_rows"}))
    rows = pd.concat([NEW, more], axis=1)
    found = in_duckdb(statement, rows)
    expected = in_duckdb(statement, NEW)
    pd.testing.assert_frame_equal(found[expected.columns], expected)
    assert list(found.columns) == [*rows.columns, "score", "alarm", "predicted"]
    assert (found["setpoint_score"] == 1e6).all()
    with pytest.raises(duckdb.BinderException):  # it hides the table
        in_duckdb(statement, NEW.assign(setpoint_rows=1))


def test_tables_may_have_the_names_of_helper_tables(logistic):
    for table in ("setpoint_1", "setpoint_2", '"setpoint_1"'):
        statement = sql_statement(logistic, table=table)
        found = in_duckdb(statement, NEW, table.strip('"'))
        assert found["score"].tolist() == in_duckdb(sql_statement(logistic), NEW)["score"].tolist()
        assert "WITH setpoint1_1 AS" in statement


@pytest.mark.parametrize("dialect", OTHERS)
def test_other_dialects_parse_and_read_the_same_columns(dialect, linear):
    import sqlglot
    from sqlglot import exp

    for model in (linear, table_model(hgb())):
        (tree,) = sqlglot.parse(sql_statement(model, dialect=dialect, table="a.b"), dialect=dialect)
        alias = "setpoint_rows"
        read = {c.name for c in tree.find_all(exp.Column) if c.table == alias}
        assert read == set(NEW.columns)
        assert [e.alias_or_name for e in tree.selects[-3:]] == ["score", "alarm", "predicted"]
        texts = {c.this for c in tree.find_all(exp.Literal) if c.is_string}
        assert {"it's ok", "it's", "back\\slash"} <= texts
        assert f"a.b AS {alias}" in [t.sql(dialect=dialect) for t in tree.find_all(exp.Table)]


def test_the_header_is_a_comment_whatever_it_holds(logistic):
    logistic.classifier.goal_, before = (
        "max f1\n; DROP TABLE rows; \u2028*/ x",
        logistic.classifier.goal_,
    )
    try:
        text = sql_statement(logistic)
    finally:
        logistic.classifier.goal_ = before
    header, _, body = text.partition("\n\n")
    assert all(
        line.startswith("-- ") for line in re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", header)
    )
    assert body.startswith("WITH ")
    assert text == sql_statement(logistic).replace(
        "Goal: max f1", "Goal: max f1\n-- ; DROP TABLE rows; \n-- */ x"
    )


def test_the_header_names_goal_threshold_certificate_and_digest(tmp_path):
    import hashlib

    goal = "max recall s.t. precision >= 0.3"
    clf = SetpointThreshold(hgb(), goal, confidence=0.9, random_state=0)
    quietly(clf.fit, X, Y)
    export_sql(clf, tmp_path / "model.sql", dialect="postgres", table='"my table"')
    text = (tmp_path / "model.sql").read_text()
    header, _, body = text.partition("\n\n")
    assert f"-- Goal: {goal}\n" in header
    assert f"-- Threshold: {clf.threshold_!r}" in header
    for line in [*str(clf.certificate_).splitlines(), *str(clf.operating_point_).splitlines()]:
        assert f"-- {line}" in header
    assert hashlib.sha256(body.encode()).hexdigest() in header
    assert 'FROM "my table" AS' in body
    assert text == sql_statement(clf, dialect="postgres", table='"my table"')


@pytest.mark.parametrize(
    "table", ["", "a b", "rows; DROP TABLE x", 'a"b', '"a', "a..b", "(SELECT 1)", "a\n"]
)
def test_other_texts_than_names_of_tables_are_refused(table, logistic):
    with pytest.raises(SqlError, match="is not the name of a table"):
        sql_statement(logistic, table=table)


@pytest.mark.parametrize("dialect", ["duckdb", *OTHERS])
@pytest.mark.parametrize("table", ["a--b", "a-", "-a", "a.b--c", "my-table-- x", "a.-b"])
def test_names_of_tables_hold_no_comment(table, dialect, logistic):
    with pytest.raises(SqlError, match="is not the name of a table"):
        sql_statement(logistic, dialect=dialect, table=table)


def test_a_dash_is_part_of_a_plain_name_in_bigquery_alone(logistic):
    text = sql_statement(logistic, dialect="bigquery", table="my-project-2.sales.payments")
    assert "FROM my-project-2.sales.payments AS setpoint_rows" in text
    with pytest.raises(SqlError, match=r"in quotes: sales\.`2024\$x`"):
        sql_statement(logistic, dialect="bigquery", table="sales.2024$x")
    for dialect in ("duckdb", "postgres", "snowflake"):
        with pytest.raises(SqlError, match='in quotes: a\\."my-table"'):
            sql_statement(logistic, dialect=dialect, table="a.my-table")
        text = sql_statement(logistic, dialect=dialect, table='a."my--table"')
        assert 'FROM a."my--table" AS' in text
    scores = in_duckdb(sql_statement(logistic, table='"my-table"'), NEW, "my-table")["score"]
    assert scores.tolist() == in_duckdb(sql_statement(logistic), NEW)["score"].tolist()


# --- refusals ------------------------------------------------------------------------------------


def test_unknown_dialects_suggest_the_nearest(logistic):
    with pytest.raises(SqlError, match="Did you mean 'postgres'"):
        sql_statement(logistic, dialect="postgresql")


def test_columns_that_sql_cannot_encode_are_named():
    n = len(TRAIN)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(n)]
    for column, why in (
        (texts, "'odd' holds texts"),
        ([f"code{i % 50}" for i in range(n)], "'odd' has many different values"),
        ([f"€{i}.50" for i in range(n)], "'odd' holds numbers that are written like"),
        (pd.Categorical(rng.integers(0, 3, n)), "'odd' holds categories that are not texts"),
        (pd.to_timedelta(rng.integers(0, 99, n), "s"), "'odd' holds durations"),
    ):
        frame = TRAIN[["whole", "class"]].assign(odd=column)
        with pytest.raises(SqlError, match=why) as caught:
            sql_statement(table_model(LOGISTIC, frame))
        assert "--drop odd" in str(caught.value)
    frame = TRAIN[["whole", "class"]].assign(WHOLE=rng.random(n))
    model = table_model(LOGISTIC, frame)
    with pytest.raises(SqlError, match="'whole' and 'WHOLE' differ only in case"):
        sql_statement(model)
    assert '"WHOLE"' in sql_statement(model, dialect="postgres")


def test_classifiers_that_sql_cannot_compute_are_refused():
    network = SetpointClassifier(model="mlp", solver="cross_entropy", random_state=0)
    for classifier, why in (
        (network, "a network cannot be exported"),
        (
            SetpointThreshold(GradientBoostingClassifier(n_estimators=2)),
            "GradientBoostingClassifier",
        ),
        (SetpointThreshold(make_pipeline(MinMaxScaler(), LogisticRegression())), "MinMaxScaler"),
        (SetpointMultilabel(LogisticRegression()), "SetpointMultilabel"),
    ):
        labels = np.column_stack([Y, ~Y]) if isinstance(classifier, SetpointMultilabel) else Y
        quietly(classifier.fit, X, labels)
        with pytest.raises(SqlError, match=why):
            sql_statement(classifier)


def test_more_trees_than_a_statement_has_room_for_are_refused(monkeypatch):
    clf = quietly(SetpointThreshold(hgb(), random_state=0).fit, X, Y)
    monkeypatch.setattr(sql_trees, "MOST_LEAVES", 20)
    with pytest.raises(SqlError, match=r"12 trees with \d+ leaves.*max_leaf_nodes"):
        sql_statement(clf)
    monkeypatch.undo()
    monkeypatch.setattr(sql_trees, "MOST_DEPTH", 2)
    with pytest.raises(SqlError, match="room for .* a depth of 2"):
        sql_statement(clf)
    monkeypatch.undo()
    rng = np.random.default_rng(0)
    forest = RandomForestClassifier(40, random_state=0)
    big = SetpointThreshold(forest, cv=0.5, random_state=0)
    quietly(big.fit, rng.random((2500, 3)), rng.random(2500) > 0.5)
    sql_statement(big)
    for dialect in ("bigquery", "snowflake"):
        with pytest.raises(SqlError, match="accepts 1,000,000; fit fewer or smaller trees"):
            sql_statement(big, dialect=dialect)

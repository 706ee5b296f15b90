"""Models of tables that are read in pieces."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from setpoint.data.parquet import Roles
from setpoint.data.splits import TEST
from setpoint.data.table_reader import TableFile
from setpoint.errors import SchemaError, SetpointError, SplitError, TargetError
from setpoint.estimators import stream_fitting as fitting
from setpoint.tables import stream_fitting, stream_rows, stream_survey
from setpoint.tables.stream_fitting import fit_streamed
from setpoint.tables.stream_rows import CachedRows, TableRows
from setpoint.training import Stochastic
from table_folders import plain, without_values, write

GOAL = "max f1"
CERTIFIABLE = "max recall s.t. precision >= 0.1"
SMALL = Stochastic(
    outer_iterations=1, inner_iterations=3, batch_size=256, rows=2000, restarts=0, proximity=(0.0,),
    relaxed=False, start="given",
)  # fmt: skip


@pytest.fixture(autouse=True)
def small_solver(monkeypatch):
    monkeypatch.setattr(fitting, "_solver_of", lambda solver: SMALL)


@pytest.fixture(scope="session")
def messy(table, tmp_path_factory):
    """A folder of a messy table; a column of numbers and texts cannot be in such files."""
    frame = table.drop(columns="mixed")
    where = tmp_path_factory.mktemp("messy")
    return frame, write(frame, where / "data", endings=("parquet", "arrow", "parquet"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write(plain(), tmp_path_factory.mktemp("plain") / "data")


def read_folder(folder):
    return pd.concat(
        [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))], ignore_index=True
    )


@pytest.mark.parametrize(
    ("column", "empty"),
    [("amount", 0), ("amount", 2), ("code", 0), ("code", 1), ("when", 2), ("empty", 1)],
)
def test_a_column_without_values_in_a_file_has_the_type_of_the_others(tmp_path, column, empty):
    frame = plain().assign(empty=True)
    rows = [range(240), range(240, 360), range(360, 800)]
    changed = without_values(frame, column, rows[empty])
    known = TableFile(write(frame, tmp_path / "known"))
    files = TableFile(write(changed, tmp_path / "data", endings=("parquet", "arrow", "parquet")))
    assert files.types == known.types
    assert files.widest_types() == known.widest_types()
    pieces = list(files.pieces(files.names, 1000))
    assert {piece.batch.schema.field(column).type for piece in pieces} == {known.types[column]}
    found = pd.concat([piece.frame() for piece in pieces], ignore_index=True)
    assert found[column].isna().tolist() == changed[column].isna().tolist()
    seen = stream_survey.survey(files, files.names, Roles("bad"), 0)
    assert seen.sample.schema.field(column).type == known.types[column]


def test_a_column_without_values_in_all_files_is_like_that_of_one_table(tmp_path):
    frame = without_values(plain().assign(void=None), "void", range(800))
    fitted = fit_streamed(write(frame, tmp_path), "bad", GOAL, drop=["when", "customer"])
    assert any("'void' is missing in every row" in note for note in fitted.notes)
    assert "void" not in fitted.model.schema.names


@pytest.mark.parametrize("column", ["amount", "code"])
def test_a_file_without_values_trains_and_tests_like_any_other(tmp_path, column):
    frame = without_values(plain(), column, range(360, 800))
    fitted = fit_streamed(write(frame, tmp_path), "bad", GOAL, drop=["when", "customer"])
    assert column in fitted.model.schema.names
    scores = fitted.model.scores(frame.iloc[fitted.test.rows])
    np.testing.assert_allclose(fitted.test.scores, scores, atol=1e-4)


@pytest.mark.parametrize(
    ("column", "role"), [("customer", "group"), ("when", "time"), ("label", "target")]
)
def test_labels_groups_and_times_of_a_file_without_values_are_missing(tmp_path, column, role):
    frame = plain().assign(label=lambda f: np.where(f["bad"], "yes", "no"))
    folder = write(without_values(frame, column, range(240)), tmp_path)
    with pytest.raises(SetpointError, match=rf"'{column}' in row 1 of .*0.parquet is missing"):
        fit_streamed(folder, goal=GOAL, **{"target": "bad", role: column})


@pytest.mark.parametrize("role", ["target", "group", "time"])
def test_a_column_in_names_of_folders_cannot_be_used(tmp_path, role):
    write(plain(), tmp_path / "day=5")
    with pytest.raises(SchemaError, match=r"'day'.* names of folders.* into the files"):
        fit_streamed(tmp_path, goal=GOAL, **{"target": "bad", role: "day"})


def test_numbers_of_other_sizes_are_the_same(tmp_path):
    folder = write(plain(), tmp_path)
    changed = plain(60).assign(amount=np.arange(60, dtype=np.int16))
    changed.to_parquet(folder / "9.parquet", index=False)
    files = TableFile(folder)
    found = stream_survey.survey(files, files.names, Roles("bad"), 0)
    assert sum(found.labels.values()) == files.rows == 860
    assert found.piece(folder).frame()["amount"].tail(60).tolist() == list(range(60))


# --- rows -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(messy):
    _, folder = messy
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_solver_of", lambda solver: SMALL)
        drop = ["account", "when", "customer"]
        return fit_streamed(
            folder, "outcome", GOAL, positive="fraud", drop=drop, text_features=9, keep_in=folder
        )


def source_of(model, folder, **roles):
    roles = Roles("outcome", negative="fine", positive="fraud", **roles)
    width = model.classifier.n_features_in_
    return TableRows(TableFile(folder), roles, model.schema, model.encoder, width)


def test_rows_are_the_models_features_in_every_shard(messy, fitted):
    frame, folder = messy
    model = fitted.model
    kinds = {column.kind for column in model.schema.columns}
    assert kinds == {"number", "boolean", "category", "text", "date"}
    wanted = model.features(frame)
    source = source_of(model, folder)
    found = np.full_like(wanted, np.nan)
    for shard in range(3):
        for block, again in zip(source.blocks(shard, 3), source.blocks(shard, 3), strict=True):
            assert torch.equal(block.X, again.X)
            found[block.number] = block.X.numpy()
            labels = frame["outcome"].to_numpy()[block.number] == "fraud"
            np.testing.assert_array_equal(block.positive, labels)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_groups_and_times_come_with_the_rows(messy, fitted):
    frame, folder = messy
    source = source_of(fitted.model, folder, group="customer", time="when")
    blocks = list(source.blocks())
    assert torch.cat([b.unit for b in blocks]).tolist() == frame["customer"].tolist()
    times = torch.cat([b.time for b in blocks])
    assert times.tolist() == (frame["when"].astype("datetime64[us]").astype("int64")).tolist()


def test_a_fingerprint_knows_files_columns_and_roles(messy, fitted, tmp_path):
    frame, folder = messy
    mine = source_of(fitted.model, folder).fingerprint()
    assert source_of(fitted.model, folder).fingerprint() == mine
    assert source_of(fitted.model, folder, group="customer").fingerprint() != mine
    changed = write(frame.assign(ratio=0.5), tmp_path)
    assert source_of(fitted.model, changed).fingerprint() != mine


def test_checkpoints_recognise_roles_by_the_text_of_version_0_1():
    text = "Roles(target='y', group='g', time=None, negative=False, positive=True)"
    assert repr(Roles("y", "g")) == repr(Roles("y", "g", weight="w", label_note="...")) == text


def test_cached_rows_are_the_same(messy, fitted, tmp_path):
    _, folder = messy
    source = source_of(fitted.model, folder, time="when")
    with CachedRows(source, tmp_path) as cached:
        next(cached.blocks(0, 2))  # a pass that was not finished is of no use
        list(cached.blocks(0, 2))
        source._block = None  # from here on everything comes from the disk
        again = list(cached.blocks(0, 2))
    fresh = list(source_of(fitted.model, folder, time="when").blocks(0, 2))
    assert len(again) == len(fresh) > 0
    for a, b in zip(again, fresh, strict=True):
        for field in ("X", "positive", "weight", "number", "unit", "time"):
            assert torch.equal(getattr(a, field), getattr(b, field))
    assert cached.fingerprint() == source.fingerprint()
    assert list(tmp_path.iterdir()) == []  # they have no names


def test_a_full_disk_does_not_stop_training(messy, fitted, tmp_path, monkeypatch):
    _, folder = messy
    cached = CachedRows(source_of(fitted.model, folder), tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stream_rows.np, "save", full)
    for _ in range(2):
        rows = sum(len(block) for block in cached.blocks())
        assert rows == TableFile(folder).rows
    assert not stream_rows.has_room(tmp_path, 10**15, 100)
    assert not stream_rows.has_room(tmp_path / "nowhere", 1, 1)


# --- fitting --------------------------------------------------------------------------------------


def test_a_messy_table_becomes_a_model_like_any_other(messy, fitted):
    frame, _ = messy
    model, tested = fitted.model, fitted.test
    assert model.facts["rows"] == len(frame)
    assert 0.12 < len(tested.rows) / len(frame) < 0.28
    assert model.facts["test rows"] + model.facts["training rows"] == len(frame)
    np.testing.assert_array_equal(tested.y, frame["outcome"].to_numpy()[tested.rows] == "fraud")
    np.testing.assert_allclose(tested.scores, model.scores(frame.iloc[tested.rows]), atol=1e-4)
    point = fitted.test_point
    assert point.tp == (tested.y & (tested.scores > 0)).sum()
    assert point.fp == (~tested.y & (tested.scores > 0)).sum()
    assert any("'empty' is missing in every row" in note for note in fitted.notes)
    assert model.classifier.checkpoint is None
    assert not hasattr(model.classifier, "feature_names_in_")
    alarms = pickle.loads(pickle.dumps(model)).predict(frame)["predicted"]
    assert set(alarms) <= {"fine", "fraud"}


def test_test_rows_do_not_affect_training(folder, tmp_path):
    """Other values in them give the same model."""
    frame = read_folder(folder)
    drop = ["when", "customer"]
    first = fit_streamed(folder, "bad", GOAL, drop=drop)
    rows = first.test.rows
    changed = frame.copy()
    changed.loc[rows, "amount"] = changed.loc[rows, "amount"] * 3 + 1
    again = fit_streamed(write(changed, tmp_path), "bad", GOAL, drop=drop)
    np.testing.assert_array_equal(again.test.rows, rows)
    a, b = (f.model.classifier.module_.state_dict() for f in (first, again))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert first.model.classifier.logit_threshold_ == again.model.classifier.logit_threshold_


def test_groups_stay_in_one_split(folder):
    fitted = fit_streamed(
        folder, "bad", CERTIFIABLE, drop=["when"], group="customer", confidence=0.5
    )
    frame = read_folder(folder)
    inside = set(frame["customer"][fitted.test.rows])
    outside = set(frame["customer"].drop(fitted.test.rows))
    assert inside
    assert not inside & outside
    assert fitted.model.certificate is not None
    assert fitted.model.certificate.one_per_group
    assert fitted.model.facts["certifying rows"] > 100
    counts = pd.Series(fitted.test.groups).value_counts()
    assert sorted(counts) == sorted(frame["customer"][fitted.test.rows].value_counts())


def test_the_newest_rows_test(folder):
    fitted = fit_streamed(
        folder, "bad", CERTIFIABLE, drop=["customer"], time="when", confidence=0.5
    )
    frame = read_folder(folder)
    newest = frame["when"].sort_values().index[-160:]
    assert set(fitted.test.rows) == set(newest)
    assert fitted.model.facts["certifying rows"] == round(0.3 * 640)
    assert "when" not in fitted.model.schema.names
    assert not any("rows of all times" in note for note in fitted.notes)


def test_too_few_new_positives_have_a_note(tmp_path):
    frame = plain()
    hours = (frame["when"] - frame["when"].min()) / pd.Timedelta(hours=1)
    frame.loc[(hours > 450) & (hours < 640), "bad"] = False
    fitted = fit_streamed(write(frame, tmp_path), "bad", GOAL, drop=["customer"], time="when")
    assert any("rows of all times" in note for note in fitted.notes)
    assert set(fitted.test.rows) == set(np.flatnonzero(hours >= 640))


@pytest.mark.parametrize("certified", [False, True])
@pytest.mark.parametrize("test", [0.0, 0.25])
def test_sets_by_time_are_in_order_and_of_their_fractions(test, certified):
    times = np.random.default_rng(0).permutation(1000).astype(float)
    split = stream_survey.split_rule(times, test, certified, 0)
    validation, certification, test_since = split.since
    left = 1000 * (1 - test)
    assert test_since == (1000 - 1000 * test if test else np.inf)
    if certified:
        assert certification == round(left * 0.7)
        left = certification
    assert validation == pytest.approx(0.75 * left, abs=1)
    assert split.has_validation


def test_rows_of_one_time_cannot_be_split_by_time():
    with pytest.raises(SplitError, match="the same time"):
        stream_survey.split_rule(np.zeros(10), 0.2, False, 0)
    # Most rows have the same time: they are training rows; validation rows are drawn at random.
    found = stream_survey.split_rule(np.r_[np.zeros(90), 1:11], 0.5, False, 0)
    assert found.since == (1.0, 1.0, 1.0)
    assert not found.has_validation


def test_columns_are_learnt_from_a_sample(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_survey, "SAMPLED", 200)
    fitted = fit_streamed(folder, "bad", GOAL, drop=["when", "customer"])
    told = next(note for note in fitted.notes if "random sample" in note)
    count = int(told.split()[8].replace(",", ""))
    assert 120 < count < 280
    # A value that the sample did not show is told with its file and row.
    frame = read_folder(folder)
    files = TableFile(folder)
    seen = stream_survey.survey(files, files.names, Roles("bad"), 0).number
    row = next(i for i in range(500, 800) if i not in seen)
    frame.loc[row, "code"] = "seven"
    broken = write(frame, tmp_path)
    with pytest.raises(SchemaError, match=r"2\.parquet does not fit.*'code'.*'seven' in row ") as e:
        fit_streamed(broken, "bad", GOAL, drop=["when", "customer"])
    assert f"row {row - 360 + 1:,}" in str(e.value)


def test_without_test_rows_there_is_no_test(folder):
    fitted = fit_streamed(folder, "bad", GOAL, drop=["when", "customer"], test=0)
    assert fitted.test is None
    assert fitted.test_point is None
    assert fitted.model.facts["test rows"] == 0


def test_too_many_test_rows_are_counted_and_not_stored(folder, monkeypatch):
    monkeypatch.setattr(stream_fitting, "MOST_TESTED", 10)
    fitted = fit_streamed(folder, "bad", GOAL, drop=["when", "customer"])
    assert fitted.test is None
    _, _, P, N = fitted.test_point.counts
    assert P + N == fitted.model.facts["test rows"] > 10


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "hgb"}, SetpointError, "'hgb' needs the whole table in memory"),
        ({"group": "customer", "time": "when"}, SetpointError, "name only one of them"),
        ({"time": "code"}, SplitError, "'code' cannot be the time"),
        ({"target": "badd"}, SchemaError, "Did you mean 'bad'"),
        ({"target": "code"}, TargetError, "3 distinct values"),
        ({"target": "customer"}, TargetError, "distinct values"),
        ({"positive": "yes"}, TargetError, "does not occur"),
        ({"test": 0.2, "target": "rare"}, SplitError, "none of them is positive"),
    ],
)
def test_options_that_cannot_be_streamed_raise_an_error(tmp_path, options, error, message):
    frame = plain().assign(rare=lambda f: np.arange(len(f)) < 2)
    options = {"target": "bad", **options}
    with pytest.raises(error, match=message):
        fit_streamed(write(frame, tmp_path), goal=GOAL, **options)


@pytest.mark.parametrize(
    ("column", "message"),
    [("label", "label 'label' in row 1[,.]? ?.*missing"), ("customer", "'customer' in row")],
)
def test_missing_labels_and_groups_are_found(tmp_path, column, message):
    frame = plain().assign(label=lambda f: np.where(f["bad"], "yes", "no"))
    frame.loc[360, column] = None  # the first row of the last file
    folder = write(frame.drop(columns="bad"), tmp_path)
    with pytest.raises(SetpointError, match="missing") as caught:
        fit_streamed(folder, "label", GOAL, group="customer", drop=["when"])
    assert "in row 1 of" in str(caught.value)
    assert "2.parquet" in str(caught.value)


def test_the_fraction_of_test_rows(folder):
    files, roles = TableFile(folder), Roles("bad")
    split = stream_survey.split_rule(None, 0.3, True, 5)
    _, counts = stream_survey.final_split(files, roles, split, 0.3, 5)
    assert counts.sum() == 800
    assert abs(counts[TEST].sum() / 800 - 0.3) < 0.05
    assert counts[TEST, 1] == pytest.approx(0.3 * counts[:, 1].sum(), rel=0.4)

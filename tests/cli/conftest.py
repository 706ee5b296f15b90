import pytest
from cli_tables import DROPPED, certified_model, fit_arguments, later, payments

from setpoint.cli import main


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Tables to train on and to score, as CSV and as Parquet."""
    folder = tmp_path_factory.mktemp("tables")
    for name, seed in (("train", 0), ("new", 1)):
        payments(seed=seed).to_csv(folder / f"{name}.csv", index=False)
        payments(seed=seed).to_parquet(folder / f"{name}.parquet", index=False)
    return folder


@pytest.fixture(scope="session")
def model(files, tmp_path_factory):
    """A model on disk, made by the command."""
    out = tmp_path_factory.mktemp("models") / "fraud"
    assert main(fit_arguments(files, out, "--quiet")) == 0
    return out


@pytest.fixture(scope="session")
def certified(tmp_path_factory):
    """A model with a certificate of precision."""
    return certified_model(tmp_path_factory.mktemp("m"), "max recall s.t. precision >= 0.5")


@pytest.fixture(scope="session")
def certified_recall(tmp_path_factory):
    """A model with a certificate of recall."""
    return certified_model(tmp_path_factory.mktemp("m"), "max precision s.t. recall >= 0.5")


@pytest.fixture
def rows(tmp_path):
    """A file of labelled rows that the models can score."""
    return later(tmp_path / "rows.csv")


@pytest.fixture
def write_rows(tmp_path):
    """Write labelled rows, by default those that the models can score, to a file of any name."""

    def write(frame=None, name="rows.csv"):
        frame = payments(seed=1).drop(columns=DROPPED) if frame is None else frame
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


@pytest.fixture
def no_work(monkeypatch):
    """Fail if a command begins its work."""

    def work(*given, **named):
        raise AssertionError("the work had begun")

    for place in ("tables.fitting.fit_table", "data.table_reader.read_table",
                  "cli.predict.load_table_model", "cli.demo.run"):  # fmt: skip
        monkeypatch.setattr(f"setpoint.{place}", work)

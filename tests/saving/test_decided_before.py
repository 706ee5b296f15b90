"""Review bands and models of several labels that were saved before decide the same.

``write_decisions.py`` wrote the files once.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from packaging.version import Version

from setpoint import ModelFileError, load
from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.multilabel import MultilabelCertificate
from setpoint.cli.app import main
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.multilabel import SetpointMultilabel

FIXTURES = Path(__file__).parent / "fixtures" / "decisions"
WRITTEN_WITH = "1.9.1"  # scikit-learn
CLASSES = {
    "band": (SetpointBand, BandCertificate),
    "labels": (SetpointMultilabel, MultilabelCertificate),
}
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.ModelVersionWarning")


@pytest.fixture(params=sorted(CLASSES))
def name(request):
    try:
        load(FIXTURES / request.param / "model.zip")
    except ModelFileError:
        if Version(sklearn.__version__) < Version(WRITTEN_WITH):
            pytest.skip("scikit-learn cannot read objects of later versions")
        raise
    return request.param


def check_decisions(name, found):
    expected = pd.read_csv(FIXTURES / name / "decided.csv")
    assert list(found.columns) == list(expected.columns)
    for column in expected:
        if column.endswith("score"):
            np.testing.assert_allclose(found[column], expected[column], rtol=1e-5, atol=1e-5)
        else:
            assert found[column].tolist() == expected[column].tolist()


def test_a_loaded_model_decides_the_same(name):
    model = load(FIXTURES / name / "model.zip")
    check_decisions(name, model.predict(model.read(FIXTURES / name / "rows.csv")))


def test_its_certificate_is_of_the_same_kind(name):
    model = load(FIXTURES / name / "model.zip")
    classifier, certificate = CLASSES[name]
    assert type(model.classifier) is classifier
    assert type(model.certificate) is certificate
    assert model.certificate.certified
    assert "Assumptions:" in str(model.certificate)


def test_the_command_decides_the_same(name, tmp_path):
    folder, out = FIXTURES / name, tmp_path / "decided.parquet"
    words = ["predict", folder / "model.zip", folder / "rows.csv", "--out", out, "--quiet"]
    assert main(list(map(str, words))) == 0
    check_decisions(name, pd.read_parquet(out))

import pytest

from setpoint import SetpointError
from setpoint.paper import datasets


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(SetpointError) as caught:
        datasets.load("mura")
    assert str(caught.value).startswith("there is no data set 'mura' with features; there are ")
    assert "creditcard, ade, eyepacs." in str(caught.value)
    assert "load_mura_images" in str(caught.value)


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_names_reach_their_loaders(folder, name):
    with pytest.raises(datasets.MissingDataError, match=name):
        datasets.load(name)


def test_the_loader_is_looked_up_when_called(monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "mine", lambda: "loaded")
    assert datasets.load("mine") == "loaded"


def test_everything_promised_is_there():
    assert all(hasattr(datasets, name) for name in datasets.__all__)

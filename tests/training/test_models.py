import pytest
import torch

from setpoint import SetpointError
from setpoint.training.models import build, check, is_linear, logits_of, mlp


def test_the_papers_mlp_has_three_layers():
    layers = [m for m in mlp(28).modules() if isinstance(m, torch.nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(28, 100), (100, 100), (100, 1)]


def test_names_factories_and_modules():
    assert is_linear(build("linear", 3))
    assert not is_linear(build("mlp", 3))
    assert build(lambda d: torch.nn.Linear(d, 1), 7).in_features == 7
    own = torch.nn.Linear(3, 1)
    copy = build(own, 3)
    assert copy is not own
    assert torch.equal(copy.weight, own.weight)


@pytest.mark.parametrize("model", ["forest", 3])
def test_unknown_models_raise(model):
    with pytest.raises(SetpointError, match="is not 'linear', 'mlp'"):
        build(model, 3)


def test_a_factory_must_return_a_module():
    with pytest.raises(SetpointError, match="returned dict"):
        build(lambda d: {}, 3)


@pytest.mark.parametrize("outputs", [2, 5])
def test_a_model_must_return_one_logit(outputs):
    X = torch.zeros(5, 3)
    with pytest.raises(SetpointError, match=rf"one logit per row.*it returned \(5, {outputs}\)"):
        logits_of(torch.nn.Linear(3, outputs), X)
    assert logits_of(torch.nn.Linear(3, 1), X).shape == (5,)
    assert logits_of(torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0)), X).shape == (
        5,
    )


def squeezed(n_features):
    class Squeezed(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X).squeeze()

    return Squeezed(n_features, 1)


def test_a_model_that_ends_in_squeeze_takes_one_row():
    assert logits_of(squeezed(3), torch.zeros(1, 3)).shape == (1,)


def test_lazy_layers_come_into_being():
    module = torch.nn.LazyLinear(1)
    check(module, torch.zeros(4, 3))
    assert module.weight.shape == (1, 3)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (torch.nn.Linear(4, 1), "cannot take rows of 3 features"),
        (torch.nn.Linear(3, 1).requires_grad_(False), "any trainable parameter"),
        (torch.nn.Flatten(), "one logit per row"),
        (torch.nn.BatchNorm2d(3), "cannot take rows of 3 features"),
    ],
)
def test_models_that_cannot_be_trained_raise(module, expected):
    with pytest.raises(SetpointError, match=expected):
        check(module, torch.zeros(4, 3))


def test_a_model_without_parameters_raises():
    class Sum(torch.nn.Module):
        def forward(self, X):
            return X.sum(1)

    with pytest.raises(SetpointError, match="any trainable parameter"):
        check(Sum(), torch.zeros(4, 3))

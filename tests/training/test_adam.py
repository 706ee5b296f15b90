import torch

from setpoint.training.adam import MatrixAdam


def gradients(count):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 4, generator=generator) for _ in range(count)]


def test_it_steps_as_torch_does():
    ours, theirs = torch.ones(3, 4), torch.ones(3, 4)
    adam, optimizer = MatrixAdam(ours), torch.optim.Adam([theirs], lr=0.1)
    for i, gradient in enumerate(gradients(20)):
        optimizer.param_groups[0]["lr"] = rate = 0.1 / (1 + i)
        theirs.grad = gradient
        optimizer.step()
        adam.step(gradient, rate)
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_it_continues_from_given_moments():
    whole, parts = torch.ones(3, 4), torch.ones(3, 4)
    adam = MatrixAdam(whole)
    before = MatrixAdam(parts)
    first, second = gradients(10)[:5], gradients(10)[5:]
    for gradient in first:
        before.step(gradient, 0.1)
    after = MatrixAdam(parts, before.first, before.second, len(first))
    for gradient in second:
        after.step(gradient, 0.1)
    for gradient in first + second:
        adam.step(gradient, 0.1)
    assert torch.equal(whole, parts)

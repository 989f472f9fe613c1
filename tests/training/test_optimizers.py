"""Test the optimizers of fleets against torch.optim."""

import pytest
import torch

from genlabel.training import SGD, Adam
from genlabel.training.optimizers import Optimizer, resolve_optimizer

RULES: list[Optimizer] = [Adam(), Adam(betas=(0.5, 0.9), milestones=(0.3,)), SGD(), SGD(momentum=0.0, decay=0.5)]


@pytest.mark.parametrize("optimizer", RULES, ids=repr)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_equals_torch_optim_with_a_multi_step_schedule(optimizer: Optimizer, weight_decay: float) -> None:
    """Twelve epochs of one step on a quadratic, two learning rates at once, against one torch.optim run each."""
    epochs, rates = 12, [0.1, 0.01]
    start = torch.randn(1, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theta = start[None].repeat(1, 2, 1)
    state = optimizer.start(theta)
    for epoch in range(epochs):
        grad = 2 * (theta - 1.0) + weight_decay * theta
        lr = torch.tensor(rates, dtype=torch.float64)[:, None] * optimizer.factor(epoch, epochs)
        optimizer.step(theta, grad, state, lr, epoch + 1)
    for c, rate in enumerate(rates):
        param = torch.nn.Parameter(start.clone())
        update = optimizer.for_network([param], rate, weight_decay)
        milestones = [int(share * epochs) for share in optimizer.milestones]
        schedule = torch.optim.lr_scheduler.MultiStepLR(update, milestones, gamma=optimizer.decay)
        for _ in range(epochs):
            update.zero_grad()
            ((param - 1.0) ** 2).sum().backward()
            update.step()
            schedule.step()
        torch.testing.assert_close(theta[:, c], param.detach(), rtol=1e-12, atol=1e-12)


def test_the_first_epoch_has_the_full_rate_and_bad_schedules_raise() -> None:
    assert SGD().factor(0, 1) == 1.0
    assert [SGD().factor(epoch, 4) for epoch in range(4)] == pytest.approx([1.0, 1.0, 0.1, 0.01])
    with pytest.raises(ValueError, match=r"decay=0\.0"):
        Adam(milestones=(0.5,), decay=0.0)
    with pytest.raises(ValueError, match="milestones=30"):
        SGD(milestones=(30,))


def test_names_are_resolved_and_unknown_names_raise() -> None:
    assert resolve_optimizer("adam") == Adam()
    assert resolve_optimizer("sgd") == SGD()
    assert resolve_optimizer(SGD(momentum=0.5)) == SGD(momentum=0.5)
    with pytest.raises(ValueError, match="optimizer='adamw'"):
        resolve_optimizer("adamw")

"""Two processes with halves of a batch learn the density of the joined batch, through DistributedDataParallel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from genlabel import GenLabelMixup
from genlabel.mixing import MixParams

SETTINGS: dict[str, Any] = {"num_classes": 3, "gamma": 0.5, "statistics": "clean", "beta": 0.7}


def batches() -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    for p in network.parameters():
        p.data = torch.randn(p.shape, generator=generator, dtype=torch.float64)
    return network, torch.randn(4, 20, 5, generator=generator).double(), torch.randint(3, (4, 20), generator=generator)


def train(network: nn.Module, mixup: GenLabelMixup, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    identity = MixParams(torch.arange(len(x[0])), torch.ones(len(x[0]), dtype=torch.float64))
    for points, labels in zip(x, y, strict=True):
        optimizer.zero_grad()
        batch = mixup.apply_draw(points, labels, identity)
        batch.loss(network(batch.x)).backward()
        optimizer.step()


def train_half(rank: int) -> dict[str, Any]:
    network, x, y = batches()
    wrapped = nn.parallel.DistributedDataParallel(network)
    mixup = GenLabelMixup(wrapped, **SETTINGS)
    half = slice(10 * rank, 10 * rank + 10)
    train(wrapped, mixup, x[:, half], y[:, half])
    return {"density": mixup.density.state_dict(), "lam": mixup.draw(5).lam}


def test_two_processes_learn_the_density_of_the_joined_batch(in_two_processes: Callable[..., Any]) -> None:
    first, second = in_two_processes(train_half)
    network, x, y = batches()
    alone = GenLabelMixup(network, **SETTINGS)
    train(network, alone, x, y)
    for name in ("mean", "variance", "weight"):
        learned = first["density"][name]
        torch.testing.assert_close(learned, second["density"][name], rtol=0.0, atol=0.0)
        torch.testing.assert_close(learned, alone.density.state_dict()[name], rtol=1e-6, atol=1e-6)
    assert first["density"]["mean"].dtype == torch.float64
    assert not torch.equal(first["lam"], second["lam"])


def join_uneven(rank: int, made_of: str) -> dict[str, Any]:
    network, x, y = batches()
    wrapped = nn.parallel.DistributedDataParallel(network)
    mixup = GenLabelMixup(
        wrapped if made_of == "wrapper" else network, num_classes=3, gamma=0.0 if made_of == "gamma=0" else 0.5
    )
    try:
        with wrapped.join():
            for t in range(2 + rank):
                batch = mixup.mix(x[t], y[t])
                batch.loss(wrapped(batch.x)).backward()
    except RuntimeError as error:
        return {"message": str(error)}
    return {"message": "finished"}


@pytest.mark.parametrize("made_of", ["network", "wrapper", "gamma=0"])
def test_uneven_inputs_are_refused_where_a_density_learns(made_of: str, in_two_processes: Callable[..., Any]) -> None:
    for result in in_two_processes(join_uneven, made_of=made_of):
        assert ("finished" if made_of == "gamma=0" else "drop_last") in result["message"]

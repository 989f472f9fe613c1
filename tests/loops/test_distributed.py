"""Two processes with halves of a batch learn the density of the joined batch, through DistributedDataParallel."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from genlabel import GenLabelMixup
from genlabel.mixing import Mix

SETTINGS: dict[str, Any] = {"n_classes": 3, "gamma": 0.5, "statistics": "clean", "beta": 0.7}


def batches() -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    for p in network.parameters():
        p.data = torch.randn(p.shape, generator=generator, dtype=torch.float64)
    return network, torch.randn(4, 20, 5, generator=generator).double(), torch.randint(3, (4, 20), generator=generator)


def train(network: nn.Module, mixup: GenLabelMixup, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    still = Mix(torch.arange(len(x[0])), torch.ones(len(x[0]), dtype=torch.float64))
    for points, labels in zip(x, y, strict=True):
        optimizer.zero_grad()
        mixup.loss(network(mixup.mix_with(points, labels, still))).backward()
        optimizer.step()


def one_rank(port: str, folder: str, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    network, x, y = batches()
    wrapped = nn.parallel.DistributedDataParallel(network)
    mixup = GenLabelMixup(wrapped, **SETTINGS)
    half = slice(10 * rank, 10 * rank + 10)
    train(wrapped, mixup, x[:, half], y[:, half])
    torch.save((mixup.density.state_dict(), mixup.draw(5).lam), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_learn_the_density_of_the_joined_batch(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, str(port), str(tmp_path)]
    ranks = [subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
    said = [process.communicate(timeout=120)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], "\n".join(said)
    network, x, y = batches()
    alone = GenLabelMixup(network, **SETTINGS)
    train(network, alone, x, y)
    (first, lam), (second, other) = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    for name in ("mean", "variance", "weight"):
        torch.testing.assert_close(first[name], second[name], rtol=0.0, atol=0.0)
        torch.testing.assert_close(first[name], alone.density.state_dict()[name], rtol=1e-6, atol=1e-6)
    assert first["mean"].dtype == torch.float64
    assert not torch.equal(lam, other)


if __name__ == "__main__":
    one_rank(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""A file from which a training run goes on: weights, optimiser, what the labeler has learned, generators, losses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._atomic_io import atomic_write
from genlabel._distributed import rank_and_world_size
from genlabel._validation import check_count

RUN = ("losses", "rng")
"""What a file keeps beside the states of the parts."""
FREE = {"params", "lr", "fused", "foreach", "capturable"}
"""Of an optimiser, what may differ: the rate is set anew in each epoch, and how it is computed is the machine's."""


class Stateful(Protocol):
    """Anything whose state can be told and set, as that of a module."""

    def state_dict(self) -> Any:
        """Tensors, numbers, texts, lists and dictionaries of them."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Set the state."""


@final
class Checkpoint:
    """Where a run keeps its state after each epoch, to go on if it is stopped; on a CPU bit for bit.

    The file holds tensors, numbers and texts alone: `torch.load(path, weights_only=True)` reads it. It is written
    beside and moved into place, so that a run that is killed meanwhile leaves the former one whole.

    Parameters
    ----------
    path : path
    also : dict of name -> Stateful
        What has a state beside the network, the labeler and the optimiser: batches that are drawn at random, say.
    every : int
        Epochs from one file to the next; the last epoch is always kept.

    Examples
    --------
    >>> import tempfile
    >>> from genlabel.training.networks import MLP
    >>> from genlabel.training import train_network
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = train_network(MLP(1, 2, seed=0), [(x, y)], epochs=3, checkpoint=f"{folder}/run.pt")
    ...     both = train_network(MLP(1, 2, seed=1), [(x, y)], epochs=5, checkpoint=f"{folder}/run.pt")
    >>> bool((both[:3] == first).all()), len(both)
    (True, 5)
    """

    def __init__(
        self, path: str | os.PathLike[str], also: Mapping[str, Stateful] | None = None, every: int = 1
    ) -> None:
        self.path, self.also, self.every = Path(path), dict(also or {}), check_count("every", every)

    def load(
        self,
        learned: Mapping[str, nn.Module],
        update: torch.optim.Optimizer,
        rng: np.random.Generator,
        device: torch.device,
    ) -> list[Tensor]:
        """Set the state of a run that was stopped, and return the losses of its epochs; none if there is no file."""
        if not self.path.exists():
            return []
        kept = self._read(device)
        parts: dict[str, Stateful] = {**learned, **self.also, "optimizer": update}
        if set(kept) != {*parts, *RUN}:
            raise ValueError(
                f"{self.path} keeps {_names(kept)}, but this run has {_names({*parts, *RUN})}; remove the file, or "
                "go on with what made it"
            )
        for name, part in parts.items():
            try:
                part.load_state_dict(_for_this_run(update, kept[name]) if part is update else kept[name])
            except (RuntimeError, ValueError, KeyError) as error:
                short = " ".join(str(error).split())[:200]
                raise ValueError(f"{self.path} is of another run: its {name} does not fit ({short})") from error
        if (
            rank_and_world_size()[1] == 1
        ):  # each process draws by itself, but the file has the generator of the first alone
            read_generator(rng, kept["rng"])
        return list(kept["losses"].to(device).unbind())

    def save(
        self,
        learned: Mapping[str, nn.Module],
        update: torch.optim.Optimizer,
        rng: np.random.Generator,
        losses: list[Tensor],
        last: bool = False,
    ) -> None:
        """Keep the state after an epoch."""
        if not last and len(losses) % self.every:
            return
        if rank_and_world_size()[0] > 0:
            return
        parts: dict[str, Stateful] = {**learned, **self.also, "optimizer": update}
        kept = {name: part.state_dict() for name, part in parts.items()}
        kept |= {"losses": torch.stack(losses), "rng": write_generator(rng)}
        save_whole(kept, self.path)

    def _read(self, device: torch.device) -> dict[str, Any]:
        try:
            kept = torch.load(self.path, map_location=device, weights_only=True)
        except Exception as error:  # torch's own words are long, and advise to trust the file
            why = error if isinstance(error, OSError) else type(error).__name__
            raise ValueError(f"{self.path} cannot be read as a checkpoint ({why}); remove it to begin anew") from error
        if not isinstance(kept, dict) or "losses" not in kept:
            raise ValueError(f"{self.path} is no checkpoint of a run; name another file, or remove it")
        return kept


def save_whole(kept: Any, path: str | os.PathLike[str]) -> None:
    """Write tensors and plain values to a file of torch's, whole or not at all.

    They go through the memory: of a full disk, torch itself says nothing that could be understood.
    """
    content = BytesIO()
    torch.save(kept, content)
    atomic_write(path, content.getbuffer())


def write_generator(rng: np.random.Generator) -> str:
    """The state of a generator as text.

    >>> rng = np.random.default_rng(0)
    >>> text = write_generator(rng)
    >>> first = rng.random()
    >>> read_generator(rng, text)
    >>> rng.random() == first
    True
    """
    return json.dumps(rng.bit_generator.state)


def read_generator(rng: np.random.Generator, text: str) -> None:
    """Set the state of a generator."""
    rng.bit_generator.state = json.loads(text)


def _for_this_run(update: torch.optim.Optimizer, kept: dict[str, Any]) -> dict[str, Any]:
    """The state of an optimiser under this run's settings, which torch would replace by those of the file."""
    groups = update.state_dict()["param_groups"]
    for own, other in zip(groups, kept["param_groups"], strict=True):
        names = sorted((own.keys() | other.keys()) - FREE)
        apart = [name for name in names if own.get(name) != other.get(name)]
        if own.keys() - FREE != other.keys() - FREE:
            raise ValueError(f"it has {_names(other.keys() - FREE)} in the file, {_names(own.keys() - FREE)} here")
        if apart:
            raise ValueError(f"{apart[0]} is {other[apart[0]]!r} in the file, {own[apart[0]]!r} here")
    return {**kept, "param_groups": groups}


def _names(parts: Any) -> str:
    return ", ".join(sorted(parts))

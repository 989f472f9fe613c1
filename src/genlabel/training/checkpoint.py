"""Checkpoints: a file with weights, optimizer, labeler, generator and losses, from which a run resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor

from genlabel._atomic_io import atomic_write
from genlabel._runtime import rank_and_world_size
from genlabel._validation import check_count

IGNORED_OPTIONS = {"params", "lr", "fused", "foreach", "capturable"}
"""Options of an optimizer that may differ from the file: each epoch sets the rate, the others depend on the machine."""


class Stateful(Protocol):
    """Object whose state can be read and set, like a module."""

    def state_dict(self) -> Any:
        """Return tensors, numbers and strings, in lists and dictionaries."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Set the state."""


@final
class Checkpoint:
    """File with the state of a run after each epoch, from which it resumes; on a CPU bit for bit.

    The file holds tensors, numbers and strings only: `torch.load(path, weights_only=True)` reads it. It is replaced
    atomically, so that a run that is killed while writing leaves the previous file.

    Parameters
    ----------
    path : path
    also : dict of name -> Stateful
        Further objects with a state, such as batches that are drawn at random.
    every : int
        Epochs from one file to the next; the last epoch is always saved.

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

    def load(self, parts: Mapping[str, Stateful], rng: np.random.Generator, device: torch.device) -> list[Tensor]:
        """Load the state of a stopped run, and return the losses of its epochs; none if there is no file."""
        if not self.path.exists():
            return []
        try:
            saved = torch.load(self.path, map_location=device, weights_only=True)
        except Exception as error:  # torch's message is long, and advises to trust the file
            reason = error if isinstance(error, OSError) else type(error).__name__
            raise ValueError(f"{self.path} cannot be read as a checkpoint ({reason}); remove it to restart") from error
        if not isinstance(saved, dict) or "losses" not in saved:
            raise ValueError(f"{self.path} is not a checkpoint of a run; choose another path, or remove it")
        parts = {**self.also, **parts}
        names = {*parts, "losses", "rng"}
        if set(saved) != names:
            raise ValueError(
                f"{self.path} has the parts {', '.join(sorted(saved))}, but this run has {', '.join(sorted(names))}; "
                "remove the file, or resume the run that wrote it"
            )
        for name, part in parts.items():
            try:
                own = _with_own_options(part, saved[name]) if isinstance(part, torch.optim.Optimizer) else saved[name]
                part.load_state_dict(own)
            except (RuntimeError, ValueError, KeyError) as error:
                reason = " ".join(str(error).split())[:200]
                message = f"{self.path} is of another run: its {name} does not fit ({reason}); use another path"
                raise ValueError(message) from error
        if rank_and_world_size()[1] == 1:  # several processes have a generator each, but the file has one
            rng.bit_generator.state = json.loads(saved["rng"])
        return list(saved["losses"].to(device).unbind())

    def save(
        self, parts: Mapping[str, Stateful], rng: np.random.Generator, losses: list[Tensor], last: bool = False
    ) -> None:
        """Save the state after an epoch."""
        if (not last and len(losses) % self.every) or rank_and_world_size()[0] > 0:
            return
        state = {name: part.state_dict() for name, part in {**self.also, **parts}.items()}
        state |= {"losses": torch.stack(losses), "rng": json.dumps(rng.bit_generator.state)}
        save_atomically(state, self.path)


def _with_own_options(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """Return a saved state with the options of this run, which loading would replace; raise if they differ."""
    groups = optimizer.state_dict()["param_groups"]
    for own, in_file in zip(groups, saved["param_groups"], strict=True):
        for name in sorted((own.keys() | in_file.keys()) - IGNORED_OPTIONS):
            if name not in own or name not in in_file or own[name] != in_file[name]:
                raise ValueError(f"{name} is {in_file.get(name)!r} in the file, {own.get(name)!r} in this run")
    return {**saved, "param_groups": groups}


def save_atomically(values: Any, path: str | os.PathLike[str]) -> None:
    """Save tensors and plain values with torch, completely or not at all.

    The file is made in memory first: if the disk is full, torch's own error is incomprehensible.
    """
    content = BytesIO()
    torch.save(values, content)
    atomic_write(path, content.getbuffer())

"""How the steps of a network are computed: in which precision, compiled or not, as one CUDA graph or kernel by kernel.

What a step computes is the loop's affair (`loop.py`); here it is only made fast. On a CPU a step is plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar, final

import torch
from torch import Tensor, nn

from genlabel._distributed import all_reduce_sum, rank_and_world_size
from genlabel._validation import check_choice
from genlabel.mixing import BatchInfo, MixParams
from genlabel.training.networks import StagedNetwork

P = ParamSpec("P")
R = TypeVar("R")

PRECISIONS = {"float32": None, "bf16": torch.bfloat16}
WARMUP_STEPS = 3
"""Steps of a kind that are computed kernel by kernel before they are captured."""

SHAPES = 64
"""How many kinds of a region are compiled before the rest is computed kernel by kernel."""


@final
@dataclass(frozen=True)
class CompileConfig:
    """How steps are computed; the default is plainly.

    Examples
    --------
    >>> CompileConfig(precision="bf16").precision
    'bf16'
    """

    precision: str = "float32"
    """Of the convolutions and matrix products: "float32", or "bf16" (autocast; weights and labels stay float32)."""
    compiled: bool = False
    """Whether mixing, labels and loss are compiled, and the regions of the network (`StagedNetwork.regions`), each
    shape of a block once."""
    graphs: bool = False
    """Whether a whole step (forward, labels, backward, update) is one CUDA graph; needs a GPU."""
    channels_last: bool = False
    """Whether images and weights lie in memory channel by channel, as convolutions in bf16 want them."""

    def __post_init__(self) -> None:
        """Check the precision."""
        check_choice("precision", self.precision, PRECISIONS)

    def prepare(self, network: StagedNetwork) -> None:
        """Bring the network into form: memory format, compiled regions."""
        device = next(network.parameters()).device
        if self.graphs and device.type != "cuda":
            raise ValueError(f"graphs=True needs a GPU, but the network is on {device}; move it, or leave graphs False")
        if self.channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.compiled:
            for region in network.regions:
                region.compile(dynamic=False)

    def compile(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, compiled where that is asked for."""
        return torch.compile(function, dynamic=False) if self.compiled else function

    def arithmetic(self, device: torch.device) -> AbstractContextManager[Any]:
        """The context in which the network is run."""
        dtype = PRECISIONS[self.precision]
        return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def resolve_acceleration(acceleration: CompileConfig | str | None, network: StagedNetwork) -> CompileConfig:
    """Return how to compute: None is plainly, "auto" all that the device of the network offers.

    >>> from genlabel.training.networks import LeNet5
    >>> resolve_acceleration("auto", LeNet5())
    CompileConfig(precision='float32', compiled=False, graphs=False, channels_last=False)
    """
    if isinstance(acceleration, CompileConfig):
        return acceleration
    if acceleration is None:
        return CompileConfig()
    check_choice("acceleration", acceleration, ["auto"], also="None, or an Acceleration such as Acceleration('bf16')")
    like = next(network.parameters())
    if not like.is_cuda or like.dtype != torch.float32:
        return CompileConfig()
    fast = torch.cuda.is_bf16_supported(including_emulation=False) and bool(network.regions)
    return CompileConfig("bf16" if fast else "float32", compiled=True, graphs=True, channels_last=fast)


class StepInputs(NamedTuple):
    """A batch as a step needs it: tensors on the device of the network."""

    x: Tensor
    """Points (n, ...), not mixed."""
    labels: Tensor
    """Their class indices (n,) or soft labels (n, k)."""
    weight: Tensor
    """Weights in the loss (n,), of sum 1."""
    draw: MixParams
    """How they are mixed; the depth is a plain number."""
    info: BatchInfo = BatchInfo()

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors in it."""
        given = (self.x, self.labels, self.weight, self.draw.partner, self.draw.lam, self.draw.box)
        return [value for value in given if value is not None]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What steps have in common that can share a graph."""
        return (int(self.draw.depth), *(tuple(value.shape) for value in self.tensors))

    def copy(self) -> StepInputs:
        """The same with tensors of its own."""
        x, labels, weight, partner, lam = (value.clone() for value in self.tensors[:5])
        box = None if self.draw.box is None else self.draw.box.clone()
        return StepInputs(x, labels, weight, MixParams(partner, lam, int(self.draw.depth), box))


class _Captured(NamedTuple):
    graph: Any
    inputs: StepInputs
    loss: Tensor


@final
class Stepper:
    """A step of training: the loss of a batch, its gradients, the update of the weights.

    With graphs, steps of a kind (the same shapes, mixed at the same depth) are captured once, and replayed: a step is
    then one launch. The first few of a kind, and those whose batch says more than its tensors, are plain.

    Parameters
    ----------
    loss : callable (Ready) -> Tensor
    update : torch.optim.Optimizer
    graphs : bool
    """

    def __init__(
        self, loss: Callable[[StepInputs], Tensor], update: torch.optim.Optimizer, graphs: bool = False
    ) -> None:
        self._loss, self._update, self._graphs = loss, update, graphs
        self._seen: dict[Any, int] = {}
        self._captured: dict[Any, _Captured] = {}

    def __call__(self, batch: StepInputs) -> Tensor:
        """Take a step, and return its loss."""
        if not self._graphs or batch.info != BatchInfo():
            return self._plain(batch)
        kind = batch.kind
        if kind not in self._captured:
            self._seen[kind] = self._seen.get(kind, 0) + 1
            if self._seen[kind] <= WARMUP_STEPS:
                return self._beside(batch)
            self._captured[kind] = self._capture(batch)
        known = self._captured[kind]
        for held, value in zip(known.inputs.tensors, batch.tensors, strict=True):
            held.copy_(value, non_blocking=True)
        known.graph.replay()
        return known.loss.clone()

    def _plain(self, batch: StepInputs) -> Tensor:
        self._update.zero_grad(set_to_none=True)
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        average_over_ranks(self._update)
        self._update.step()
        return loss.detach()

    def _beside(self, batch: StepInputs) -> Tensor:
        """A plain step on a stream of its own, as a capture wants it beforehand."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._plain(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _capture(self, batch: StepInputs) -> _Captured:
        """Record a step; nothing is computed."""
        inputs, graph = batch.copy(), torch.cuda.CUDAGraph()
        self._update.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = self._plain(inputs)
        return _Captured(graph, inputs, loss)


def average_over_ranks(update: torch.optim.Optimizer) -> None:
    """Average the gradients over the processes of a distributed run, in one message."""
    ranks = rank_and_world_size()[1]
    if ranks == 1:
        return
    grads = [p.grad for group in update.param_groups for p in group["params"] if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads])
    flat = all_reduce_sum(flat) / ranks
    for grad, part in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))


@contextmanager
def frozen_batchnorm_stats(network: nn.Module) -> Iterator[None]:
    """Inside, batch normalisation uses the statistics of its batch as in training, but does not remember them.

    >>> norm = nn.BatchNorm1d(1)
    >>> with frozen_batchnorm_stats(norm):
    ...     out = norm(torch.tensor([[1.0], [3.0]]))
    >>> norm.running_mean
    tensor([0.])
    """
    tracking = [part for part in network.modules() if getattr(part, "track_running_stats", False)]
    for part in tracking:
        setattr(part, "track_running_stats", False)  # noqa: B010
    try:
        yield
    finally:
        for part in tracking:
            setattr(part, "track_running_stats", True)  # noqa: B010


@contextmanager
def cudnn_autotune(acceleration: CompileConfig) -> Iterator[None]:
    """Inside, cuDNN tries its algorithms for the shapes that come again, and every shape of a region is compiled."""
    with ExitStack() as stack:
        if acceleration.graphs:
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True))
        if acceleration.compiled:
            from torch import _dynamo

            stack.enter_context(_dynamo.config.patch(recompile_limit=SHAPES))
        yield

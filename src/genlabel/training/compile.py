"""Execution of training steps: precision, compilation, CUDA graphs, distributed averaging; by default, plain steps.

`loop.py` defines what a step computes; this module only makes it fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum, rank_and_world_size
from genlabel._validation import check_choice
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo
from genlabel.training.networks import StagedNetwork

P = ParamSpec("P")
R = TypeVar("R")

PRECISIONS = {"float32": None, "bf16": torch.bfloat16}
WARMUP_STEPS = 3
"""Steps of a kind that run eagerly before they are captured in a graph."""
MAX_COMPILED_SHAPES = 64
"""Input shapes for which a region is compiled before it runs eagerly."""


@final
@dataclass(frozen=True)
class CompileConfig:
    """Execution of training steps; the default is plain float32, eager.

    Examples
    --------
    >>> CompileConfig(precision="bf16").precision
    'bf16'
    """

    precision: str = "float32"
    """Precision of convolutions and products: "float32", or "bf16" (autocast; weights and labels stay float32)."""
    compiled: bool = False
    """If True, compile mixing, labels, loss and the regions of the network (`StagedNetwork.regions`)."""
    graphs: bool = False
    """If True, capture each step (forward, labels, backward, update) as one CUDA graph; needs a GPU."""
    channels_last: bool = False
    """If True, store images and weights in channels-last format, which convolutions in bf16 prefer."""

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)

    def prepare(self, network: StagedNetwork) -> None:
        """Set the memory format of a network, and compile its regions."""
        device = next(network.parameters()).device
        if self.graphs and device.type != "cuda":
            raise ValueError(f"graphs=True needs a GPU, but the network is on {device}; move it or set graphs=False")
        if self.channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.compiled:
            for region in network.regions:
                region.compile(dynamic=False)

    def compile(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, compiled if `compiled` is set."""
        return torch.compile(function, dynamic=False) if self.compiled else function

    def autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the context in which the network runs."""
        dtype = PRECISIONS[self.precision]
        return nullcontext() if dtype is None else torch.autocast(device.type, dtype)


def resolve_compile_config(config: CompileConfig | str | None, network: StagedNetwork) -> CompileConfig:
    """Return a config as given, the default for None, or for "auto" everything that the network's device supports."""
    if isinstance(config, CompileConfig):
        return config
    if config is None:
        return CompileConfig()
    check_choice("compile_config", config, ["auto"], also="None, or a CompileConfig such as CompileConfig('bf16')")
    like = next(network.parameters())
    if not like.is_cuda or like.dtype != torch.float32:
        return CompileConfig()
    bf16 = torch.cuda.is_bf16_supported(including_emulation=False) and bool(network.regions)
    return CompileConfig("bf16" if bf16 else "float32", compiled=True, graphs=True, channels_last=bf16)


class StepInputs(NamedTuple):
    """Batch as a step needs it: tensors on the device of the network."""

    x: Tensor
    """Points (n, ...), not mixed."""
    labels: Tensor
    """Class indices (n,) or soft labels (n, k)."""
    weight: Tensor
    """Weights in the loss (n,), of sum 1."""
    draw: MixParams
    """Draw that mixes them; the depth is an int."""
    info: BatchInfo = BatchInfo()

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the batch."""
        return [self.x, self.labels, self.weight, *self.draw.row_fields().values()]

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key of steps that can share a graph: depth and shapes."""
        return (int(self.draw.depth), *(tuple(value.shape) for value in self.tensors))

    def clone(self) -> StepInputs:
        """Return the same with copied tensors."""
        fields = {name: value.clone() for name, value in self.draw.row_fields().items()}
        draw = self.draw._replace(depth=int(self.draw.depth), **fields)
        return StepInputs(self.x.clone(), self.labels.clone(), self.weight.clone(), draw)


@final
class Stepper:
    """Training step: the loss of a batch, its gradients, the update of the weights.

    With graphs, steps of a kind (same shapes, mixed at the same depth) are captured once and replayed, so that a step
    is one launch. The first few of a kind, and those whose batch has a `BatchInfo`, run eagerly.
    """

    def __init__(
        self, loss: Callable[[StepInputs], Tensor], optimizer: torch.optim.Optimizer, graphs: bool = False
    ) -> None:
        self._loss, self._optimizer, self._graphs = loss, optimizer, graphs
        self._counts = Counter[Any]()
        self._captured: dict[Any, tuple[Any, StepInputs, Tensor]] = {}
        """CUDA graph of each kind of step, with the tensors that it reads and the loss that it writes."""

    def __call__(self, batch: StepInputs) -> Tensor:
        """Take a step, and return its loss."""
        if not self._graphs or batch.info != BatchInfo():
            return self._eager_step(batch)
        kind = batch.kind
        if kind not in self._captured:
            self._counts[kind] += 1
            if self._counts[kind] <= WARMUP_STEPS:  # on a side stream, which a capture requires beforehand
                stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    loss = self._eager_step(batch)
                torch.cuda.current_stream().wait_stream(stream)
                return loss
            inputs, graph = batch.clone(), torch.cuda.CUDAGraph()
            self._optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):  # records the step without computing it
                loss = self._eager_step(inputs)
            self._captured[kind] = graph, inputs, loss
        graph, inputs, loss = self._captured[kind]
        for buffer, value in zip(inputs.tensors, batch.tensors, strict=True):
            buffer.copy_(value, non_blocking=True)
        graph.replay()
        return loss.clone()

    def _eager_step(self, batch: StepInputs) -> Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if (world_size := rank_and_world_size()[1]) > 1:  # average the gradients of all processes, in one message
            params = [p for group in self._optimizer.param_groups for p in group["params"]]
            grads = [p.grad for p in params if p.grad is not None]
            flat = all_reduce_sum(torch.cat([grad.flatten() for grad in grads])) / world_size
            for grad, values in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
                grad.copy_(values.view_as(grad))
        self._optimizer.step()
        return loss.detach()


@contextmanager
def frozen_batchnorm_stats(network: nn.Module) -> Iterator[None]:
    """Use batch statistics in batch normalization, as in training, without updating the running statistics."""
    tracking: list[Any] = [module for module in network.modules() if getattr(module, "track_running_stats", False)]
    for module in tracking:
        module.track_running_stats = False
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True


@contextmanager
def cudnn_autotune(config: CompileConfig) -> Iterator[None]:
    """Let cuDNN benchmark its algorithms, and regions be compiled for every shape, as the config allows."""
    with ExitStack() as stack:
        if config.graphs:
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True))
        if config.compiled:
            from torch import _dynamo

            stack.enter_context(_dynamo.config.patch(recompile_limit=MAX_COMPILED_SHAPES))
        yield

"""Optimizers of arXiv Tables 10-12, for one network (torch.optim) and for a fleet (one flat tensor)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._validation import check_choice, check_interval, check_positive


class Optimizer(ABC):
    """Base class of update rules, frozen dataclasses, with a multi-step decay of the learning rate.

    NOTE[PAPER]: the paper names the multi-step decay but not its steps: the rate is multiplied by `decay` at
    each of the `milestones`, fractions of all epochs.
    """

    milestones: tuple[float, ...]
    decay: float

    @abstractmethod
    def for_network(
        self, params: Iterable[nn.Parameter], lr: float, weight_decay: float, captured: bool = False
    ) -> torch.optim.Optimizer:
        """Return the same rule from torch.optim; `captured` if a CUDA graph holds its steps."""

    @abstractmethod
    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return zero state for a fleet's flat parameters (groups, candidates, size)."""

    @abstractmethod
    def step(self, theta: Tensor, grad: Tensor, state: Sequence[Tensor], lr: Tensor, t: int) -> None:
        """Update `theta` in place at step `t` (from 1), with a rate for each candidate, lr (candidates, 1).

        `grad` is overwritten.
        """

    def __post_init__(self) -> None:
        check_positive("decay", self.decay, "1 is no decay")
        for fraction in self.milestones:
            check_interval("milestones", fraction, 0.0, 1.0, "they are fractions of the epochs")

    @final
    def factor(self, epoch: int, epochs: int) -> float:
        """Return the factor on the learning rate in `epoch` (from 0) of `epochs`."""
        return self.decay ** sum(epoch >= max(1, int(fraction * epochs)) for fraction in self.milestones)


@final
@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with weight decay as an L2 term (arXiv Table 11: clean runs on OpenML).

    >>> theta, rule = torch.ones(1, 1, 1), Adam()
    >>> rule.step(theta, torch.full((1, 1, 1), 50.0), rule.start(theta), lr=torch.tensor([[0.1]]), t=1)
    >>> round(theta.item(), 4)  # the first step is as long as the rate, whatever the gradient
    0.9
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    milestones: tuple[float, ...] = ()
    decay: float = 0.1

    def for_network(
        self, params: Iterable[nn.Parameter], lr: float, weight_decay: float, captured: bool = False
    ) -> torch.optim.Optimizer:
        """Return `torch.optim.Adam` with these settings."""
        options = {"betas": self.betas, "eps": self.eps, "capturable": captured, **_rate_options(lr, captured)}
        return torch.optim.Adam(params, weight_decay=weight_decay, **options)

    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the first and second moments."""
        return torch.zeros_like(theta), torch.zeros_like(theta)

    def step(self, theta: Tensor, grad: Tensor, state: Sequence[Tensor], lr: Tensor, t: int) -> None:
        """Compute theta -= lr m_hat / (sqrt(v_hat) + eps), in few passes over memory."""
        first, second = state
        b1, b2 = self.betas
        first.lerp_(grad, 1.0 - b1)
        second.mul_(b2).addcmul_(grad, grad, value=1.0 - b2)
        rate = lr / (1.0 - b1**t)
        torch.sqrt(second, out=grad).mul_(-1.0 / ((1.0 - b2**t) ** 0.5 * rate)).add_(-self.eps / rate)
        theta.addcdiv_(first, grad)


@final
@dataclass(frozen=True)
class SGD(Optimizer):
    """SGD with momentum and multi-step decay (arXiv Table 10: synthetic datasets; Table 12: robust runs).

    >>> theta, rule = torch.ones(1, 1, 1), SGD()
    >>> state, lr = rule.start(theta), torch.tensor([[0.1]])
    >>> for t in (1, 2):
    ...     rule.step(theta, torch.ones(1, 1, 1), state, lr, t)
    >>> round(theta.item(), 4)  # 1 - 0.1 - 0.1 * (0.9 + 1)
    0.71
    >>> [round(rule.factor(epoch, epochs=100), 3) for epoch in (0, 50, 75)]
    [1.0, 0.1, 0.01]
    """

    momentum: float = 0.9
    milestones: tuple[float, ...] = (0.5, 0.75)
    decay: float = 0.1

    def for_network(
        self, params: Iterable[nn.Parameter], lr: float, weight_decay: float, captured: bool = False
    ) -> torch.optim.Optimizer:
        """Return `torch.optim.SGD` with these settings."""
        options = {"momentum": self.momentum, **_rate_options(lr, captured)}
        return torch.optim.SGD(params, weight_decay=weight_decay, **options)

    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the momentum buffer."""
        return (torch.zeros_like(theta),)

    def step(self, theta: Tensor, grad: Tensor, state: Sequence[Tensor], lr: Tensor, t: int) -> None:
        """Compute theta -= lr v, v = momentum v + grad."""
        (velocity,) = state
        velocity.mul_(self.momentum).add_(grad)
        theta.sub_(torch.mul(velocity, lr, out=grad))


def _rate_options(lr: float, captured: bool) -> dict[str, Any]:
    """Return the learning rate; for a CUDA graph, as a tensor that each replay reads, with fused kernels."""
    return {"lr": torch.tensor(lr, device="cuda"), "fused": True} if captured else {"lr": lr}


def resolve_optimizer(optimizer: str | Optimizer) -> Optimizer:
    """Return the optimizer named "adam" or "sgd", or the given one."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    known: dict[str, Optimizer] = {"adam": Adam(), "sgd": SGD()}
    check_choice("optimizer", optimizer, known, also="an Optimizer such as SGD(momentum=0.9)")
    return known[optimizer]

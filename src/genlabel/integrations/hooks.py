"""Forward hooks: capture the features of a layer in a pass through any network, and mix the output of a layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, final

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from genlabel.mixing import Mixer, MixParams


class HookTarget(NamedTuple):
    """Module of a network, with the side on which a hook is registered."""

    module: nn.Module
    name: str
    is_input: bool
    """True for the module's input, False for its output."""


def unwrap(network: nn.Module) -> nn.Module:
    """Return the network inside `DistributedDataParallel` and `torch.compile`.

    >>> import torch
    >>> network = nn.Linear(2, 2)
    >>> unwrap(torch.compile(network, backend="eager")) is network
    True
    """
    if isinstance(network, nn.DataParallel):
        raise TypeError("network is a DataParallel, whose copies share one hook; use DistributedDataParallel")
    if isinstance(network, nn.parallel.DistributedDataParallel):
        return unwrap(network.module)
    inner = getattr(network, "_orig_mod", None)
    return network if inner is None else unwrap(inner)


def find_layer(network: nn.Module, name: str | None, num_classes: int) -> HookTarget:
    """Return the output of the named module, or the input of the last `nn.Linear` with `num_classes` outputs.

    Parameters
    ----------
    network : Module
    name : str or None
        Dotted name, as in `network.named_modules()`.
    num_classes : int

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> find_layer(network, None, 3).name, find_layer(network, "1", 3).is_input
    ('2', False)
    """

    def shorten(names: list[str]) -> str:
        shown = [repr(name) for name in names if name]
        return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") or "none"

    modules = dict(network.named_modules())
    if name is not None:
        if name not in modules or not name:
            raise ValueError(f"layer {name!r} is not in the network; its modules are {shorten(list(modules))}")
        return HookTarget(modules[name], name, is_input=False)
    linear = [found for found, module in modules.items() if isinstance(module, nn.Linear)]
    heads = [found for found in linear if modules[found].out_features == num_classes]
    if not heads:
        raise ValueError(
            f"the network has no nn.Linear with {num_classes} outputs ({shorten(linear)} are linear); name the layer "
            "whose output is the features, such as feature_layer='avgpool'"
        )
    return HookTarget(modules[heads[-1]], heads[-1], is_input=True)


def pool_features(h: Tensor) -> Tensor:
    """Return features (n, d): the mean over pixels of images (n, d, h, w), or over tokens of sequences (n, t, d).

    >>> import torch
    >>> pool_features(torch.ones(2, 3, 4, 4)).shape, pool_features(torch.ones(2, 5, 3)).shape
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """
    if h.ndim == 4:
        return h.mean((2, 3))
    if h.ndim == 3:
        return h.mean(1)
    if h.ndim == 2:
        return h
    raise ValueError(
        f"the layer's output has shape {tuple(h.shape)}; features are (n, d), (n, t, d) or (n, d, h, w): name another"
    )


def _idle(module: nn.Module, args: Any, output: Any = None) -> None:
    """Do nothing: the hook in a copy of the network."""


def _make_idle() -> Callable[..., None]:
    return _idle


class _Hook(ABC):
    """Base class of hooks that are active for one pass; in a copy of the network, they are idle."""

    def __init__(self, target: HookTarget, root: nn.Module) -> None:
        self.target, self.root = target, root
        self.is_active, self.count = False, 0
        module = target.module
        register = module.register_forward_pre_hook if target.is_input else module.register_forward_hook
        self._handle: RemovableHandle = register(self)

    @final
    def __call__(self, module: nn.Module, args: Any, output: Any = None) -> Any:
        if not self.is_active:
            return None
        self.count += 1
        return self._receive(args[0] if self.target.is_input else output)

    @abstractmethod
    def _receive(self, values: Any) -> Any:
        """Process the module's input or output."""

    def deactivate(self) -> None:
        """Ignore further passes."""
        self.is_active = False

    def remove(self) -> None:
        """Remove the hook from the network."""
        self.deactivate()
        self._handle.remove()

    def __deepcopy__(self, memo: Any) -> Callable[..., None]:
        return _idle

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _make_idle, ()


@final
class FeatureHook(_Hook):
    """Hook that captures the features of a layer in one pass of the network.

    Parameters
    ----------
    target : HookTarget
    root : Module
        Network that contains it.

    Examples
    --------
    >>> import torch
    >>> network = nn.Sequential(nn.ReLU(), nn.Linear(2, 3))
    >>> hook = FeatureHook(find_layer(network, None, 3), network)
    >>> with torch.no_grad():
    ...     hook.features_of(torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])
    """

    features: Tensor | None = None
    after: MixHook | None = None

    def _receive(self, values: Any) -> None:
        if self.after is not None and self.after.count == 0:
            raise RuntimeError(
                f"the features of layer {self.target.name!r} come before {self.after.target.name!r}, after which the "
                "batch is mixed; name a later feature_layer, or earlier mix_layers"
            )
        self.features = pool_features(_first_tensor(values)).detach()

    def activate(self, after: MixHook | None = None) -> None:
        """Capture the features of the next pass, which must come after those of the mixed layer."""
        self.is_active, self.count, self.features, self.after = True, 0, None, after

    def take(self) -> Tensor:
        """Return the captured features (n, d), and deactivate."""
        self.deactivate()
        name = self.target.name
        if self.features is None:
            raise RuntimeError(
                f"the layer {name!r} has not run since the batch was mixed: call scores = network(mixup.mix(x, y)) "
                "first, with the network in training mode. If you did, name a layer that the pass uses, or call "
                "torch.compiler.reset() if the network was compiled before it had hooks"
            )
        if self.count > 1:
            raise RuntimeError(
                f"the layer {name!r} ran {self.count} times since the batch was mixed: name one that runs once a "
                "pass, and compute the loss before the network sees another batch"
            )
        features, self.features = self.features, None
        return features

    def features_of(self, x: Tensor) -> Tensor:
        """Return the features of a batch, by a pass of its own."""
        self.activate()
        try:
            self.root(x)
        finally:
            self.deactivate()
        return self.take()


@final
class MixHook(_Hook):
    """Hook that mixes the output of a layer, or its first tensor if it has several (as in a transformer).

    Parameters
    ----------
    target : HookTarget
    root : Module
        Network that contains it.
    mixer : Mixer

    Examples
    --------
    >>> import torch
    >>> from genlabel.mixing import Mixup
    >>> network = nn.Sequential(nn.ReLU(), nn.Identity())
    >>> hook = MixHook(HookTarget(network[0], "0", is_input=False), network, Mixup())
    >>> hook.activate(MixParams(torch.tensor([1, 0]), torch.tensor([0.25, 1.0])))
    >>> network(torch.tensor([[-4.0], [4.0]]))
    tensor([[3.], [4.]])
    """

    def __init__(self, target: HookTarget, root: nn.Module, mixer: Mixer) -> None:
        super().__init__(target, root)
        self.mixer = mixer
        self.draw: MixParams | None = None

    def _receive(self, values: Any) -> Any:
        if self.draw is None or not self.root.training:  # mixed for training, but never passed before an evaluation
            return None
        if self.count > 1:
            raise RuntimeError(
                f"the layer {self.target.name!r} ran twice since the batch was mixed, and would mix it twice: name one "
                "that runs once a pass, and compute the loss before the network sees another batch"
            )
        mixed = self.mixer.mix(_first_tensor(values), self.draw)
        return mixed if isinstance(values, Tensor) else type(values)((mixed, *values[1:]))

    def activate(self, draw: MixParams) -> None:
        """Mix the next pass."""
        self.is_active, self.count, self.draw = True, 0, draw

    def check(self) -> None:
        """Raise unless it has mixed a pass, and deactivate."""
        if self.is_active and self.count == 0:
            raise RuntimeError(
                f"the layer {self.target.name!r}, after which the batch is mixed, has not run: call "
                "scores = network(mixup.mix(x, y)) first. If you did, name a layer that the pass uses, or call "
                "torch.compiler.reset() if the network was compiled before it had hooks"
            )
        self.deactivate()


def _first_tensor(values: Any) -> Tensor:
    """Return a tensor, or the first of several."""
    tensor = values[0] if isinstance(values, tuple | list) and values else values
    if not isinstance(tensor, Tensor):
        raise TypeError(f"the layer's output is a {type(values).__name__}; name one with a tensor, or a tuple of them")
    return tensor

"""Features of a layer, caught as a batch passes through any network, and mixing after a layer: both by hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from genlabel.mixing import Mixer, MixParams


class Layer(NamedTuple):
    """A module of a network, and which side of it is meant."""

    module: nn.Module
    name: str
    before: bool
    """Whether its input is meant, not its output."""


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
    inside = getattr(network, "_orig_mod", None)
    return network if inside is None else unwrap(inside)


def find_layer(network: nn.Module, name: str | None, num_classes: int) -> Layer:
    """Return the layer whose features are meant: the output of a named one, or the input of the last linear one.

    Parameters
    ----------
    network : Module
    name : str or None
        A dotted name, as in `network.named_modules()`; None is the last `nn.Linear` with `num_classes` outputs.
    num_classes : int

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> find_layer(network, None, 3).name, find_layer(network, "1", 3).before
    ('2', False)
    """
    modules = dict(network.named_modules())
    if name is not None:
        if name not in modules or not name:
            raise ValueError(f"feature_layer={name!r} is not in the network; its modules are {_some(list(modules))}")
        return Layer(modules[name], name, before=False)
    heads = [found for found, module in modules.items() if isinstance(module, nn.Linear)]
    fitting = [found for found in heads if modules[found].out_features == num_classes]
    if not fitting:
        raise ValueError(
            f"the network has no nn.Linear with {num_classes} outputs ({_some(heads)} are linear); name the layer "
            "whose output is the features, such as feature_layer='avgpool'"
        )
    return Layer(modules[fitting[-1]], fitting[-1], before=True)


def pool_features(h: Tensor) -> Tensor:
    """Return features (n, d): images (n, d, h, w) are averaged over their pixels, sequences (n, t, d) over their parts.

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
    raise ValueError(f"the layer gives {tuple(h.shape)}; features are (n, d), (n, t, d) or (n, d, h, w): name another")


def _idle(module: nn.Module, args: Any, output: Any = None) -> None:
    """What a hook is in a copy of the network."""


def _make_idle() -> Callable[..., None]:
    return _idle


class _Tap(ABC):
    """A hook that is open or closed; in a copy of the network, by deepcopy or pickle, it does nothing."""

    def __init__(self, layer: Layer, root: nn.Module) -> None:
        self.layer, self.root = layer, root
        self.is_open, self.count = False, 0
        register = layer.module.register_forward_pre_hook if layer.before else layer.module.register_forward_hook
        self._handle: RemovableHandle = register(self)

    @final
    def __call__(self, module: nn.Module, args: Any, output: Any = None) -> Any:
        """Called by the layer."""
        if not self.is_open:
            return None
        self.count += 1
        return self._seen(args[0] if self.layer.before else output)

    @abstractmethod
    def _seen(self, values: Any) -> Any:
        """Take what passes."""

    def close(self) -> None:
        """Let everything pass."""
        self.is_open = False

    def remove(self) -> None:
        """Take the hook off the network."""
        self.close()
        self._handle.remove()

    def __deepcopy__(self, memo: Any) -> Callable[..., None]:
        return _idle

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _make_idle, ()


@final
class FeatureHook(_Tap):
    """Catch the features of a layer in one pass of the network.

    Parameters
    ----------
    layer : Layer
    root : Module
        The network that it is in.

    Examples
    --------
    >>> import torch
    >>> network = nn.Sequential(nn.ReLU(), nn.Linear(2, 3))
    >>> tap = FeatureHook(find_layer(network, None, 3), network)
    >>> with torch.no_grad():
    ...     tap.features_of(torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])
    """

    features: Tensor | None = None
    after: MixHook | None = None

    def _seen(self, values: Any) -> None:
        if self.after is not None and self.after.count == 0:
            raise RuntimeError(
                f"the features of layer {self.layer.name!r} come before {self.after.layer.name!r}, after which the "
                "batch is mixed; name a later layer, or earlier ones in mix_layers="
            )
        self.features = pool_features(_first(values)).detach()

    def open(self, after: MixHook | None = None) -> None:
        """Catch the features of the next pass, which come after those of the layer that is mixed."""
        self.is_open, self.count, self.features, self.after = True, 0, None, after

    def take(self) -> Tensor:
        """Return the features (n, d) that were caught, and close."""
        self.close()
        name = self.layer.name
        if self.features is None:
            raise RuntimeError(
                f"the layer {name!r} has not run since the batch was mixed: call scores = network(mixup.mix(x, y)) "
                "first, with the network in training mode; if it was, the layer is not on its way (name another), or "
                "the network was compiled before it had hooks (torch.compiler.reset())"
            )
        if self.count > 1:
            raise RuntimeError(
                f"the layer {name!r} ran {self.count} times since the batch was mixed: name one that runs once a "
                "pass, and ask for the loss before the network sees another batch"
            )
        features, self.features = self.features, None
        return features

    def features_of(self, x: Tensor) -> Tensor:
        """Pass a batch through the network for its features alone."""
        self.open()
        try:
            self.root(x)
        finally:
            self.close()
        return self.take()


@final
class MixHook(_Tap):
    """Mix the output of a layer, or that of the first of several (the hidden states of a transformer, say).

    Parameters
    ----------
    layer : Layer
    root : Module
        The network that it is in.
    mixer : Mixer

    Examples
    --------
    >>> import torch
    >>> from genlabel.mixing import Mixup
    >>> network = nn.Sequential(nn.ReLU(), nn.Identity())
    >>> tap = MixHook(Layer(network[0], "0", before=False), network, Mixup())
    >>> tap.open(MixParams(torch.tensor([1, 0]), torch.tensor([0.25, 1.0])))
    >>> network(torch.tensor([[-4.0], [4.0]]))
    tensor([[3.], [4.]])
    """

    def __init__(self, layer: Layer, root: nn.Module, mixer: Mixer) -> None:
        super().__init__(layer, root)
        self.mixer = mixer
        self.draw: MixParams | None = None

    def _seen(self, values: Any) -> Any:
        if self.draw is None or not self.root.training:  # a batch that was mixed, and given up, before an evaluation
            return None
        if self.count > 1:
            raise RuntimeError(
                f"the layer {self.layer.name!r} ran twice since the batch was mixed, and would mix it twice: name one "
                "that runs once a pass, and ask for the loss before the network sees another batch"
            )
        mixed = self.mixer.mix(_first(values), self.draw)
        return mixed if isinstance(values, Tensor) else type(values)((mixed, *values[1:]))

    def open(self, draw: MixParams) -> None:
        """Mix the next pass."""
        self.is_open, self.count, self.draw = True, 0, draw

    def check(self) -> None:
        """Raise unless it has mixed a pass, and close."""
        if self.is_open and self.count == 0:
            raise RuntimeError(
                f"the layer {self.layer.name!r}, after which the batch is mixed, has not run: call "
                "scores = network(mixup.mix(x, y)) first; if it was, the layer is not on its way (name another), or "
                "the network was compiled before it had hooks (torch.compiler.reset())"
            )
        self.close()


def _first(values: Any) -> Tensor:
    """The tensor, or the first of several."""
    found = values[0] if isinstance(values, tuple | list) and values else values
    if not isinstance(found, Tensor):
        raise TypeError(f"the layer gives a {type(values).__name__}; name one that gives a tensor, or a tuple of them")
    return found


def _some(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names if name]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") or "none"

"""Forward hooks: watch the passes of any network, capture the features of a layer, and mix the output of a layer."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from genlabel._runtime import rank_and_world_size
from genlabel.mixing import Mixer, MixParams


class HookTarget(NamedTuple):
    """Module of a network, with the side on which a hook is registered."""

    module: nn.Module
    name: str
    is_input: bool
    """True for the module's input, False for its output."""


def unwrap(network: nn.Module) -> nn.Module:
    """Return the network inside `DistributedDataParallel` and `torch.compile`.

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


def find_layer(network: nn.Module, name: str | None, num_classes: int, input_of: str | None = None) -> HookTarget:
    """Return the output of the named module, or the input of the last `nn.Linear` with `num_classes` outputs.

    With `input_of`, return the input of that module. Names are dotted, as in `network.named_modules()`.

    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> find_layer(network, None, 3).name, find_layer(network, "1", 3).is_input
    ('2', False)
    """
    modules = dict(network.named_modules())
    named = name if input_of is None else input_of
    if named is not None:
        if named not in modules or not named:
            raise ValueError(f"layer {named!r} is not in the network; its modules are {reprlib.repr([*modules][1:])}")
        return HookTarget(modules[named], named, is_input=input_of is not None)
    outputs = {key: module.out_features for key, module in modules.items() if isinstance(module, nn.Linear)}
    heads = [key for key, size in outputs.items() if size == num_classes]
    if not heads:
        raise ValueError(
            f"the network has no nn.Linear with {num_classes} outputs (those that it has: {reprlib.repr(outputs)}); "
            "set num_classes to the outputs of the network, or name the layer whose output is the features, such as "
            "feature_layer='avgpool'"
        )
    return HookTarget(modules[heads[-1]], heads[-1], is_input=True)


def pool_features(h: Tensor) -> Tensor:
    """Return features (n, d): the mean over pixels of images (n, d, h, w), or over tokens of sequences (n, t, d).

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


class _IdleHook:
    """Hook in a copy of a network, which does nothing."""

    def __call__(self, *args: Any) -> None:
        return None


class _Hook(ABC):
    """Base class of hooks that are active for one pass; in a copy of the network, they are idle."""

    def __init__(self, target: HookTarget, root: nn.Module) -> None:
        self.target, self.root = target, root
        self.is_active, self.count = False, 0
        module = target.module
        register = module.register_forward_pre_hook if target.is_input else module.register_forward_hook
        self._handle = register(self, with_kwargs=True)

    @final
    def __call__(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any = None) -> Any:
        if not self.is_active:
            return None
        self.count += 1
        if self.target.is_input:
            tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
            return self._receive(next(tensors, None))
        return self._receive(output)

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

    def __reduce__(self) -> tuple[type[_IdleHook], tuple[()]]:
        return _IdleHook, ()

    def _never_ran(self) -> RuntimeError:
        return RuntimeError(
            f"the layer {self.target.name!r} has not run since the batch was mixed: call network(batch.x) first, with "
            "the network in training mode; a call of network.forward does not run hooks. If you did, name a layer that "
            "the pass uses, or call torch.compiler.reset() if the network was compiled before it had hooks"
        )

    def _ran_twice(self) -> RuntimeError:
        return RuntimeError(
            f"the layer {self.target.name!r} ran {self.count} times since the batch was mixed; name one that runs once "
            "in a pass"
        )


@final
class PassHook:
    """Hook that knows whether a network has seen the points of the last mixed batch, and nothing since.

    >>> network = nn.Linear(2, 3)
    >>> hook, x = PassHook(network), torch.rand(1, 2)
    >>> hook.reset()
    >>> _ = network(x)
    >>> hook.check(x)
    """

    def __init__(self, root: nn.Module) -> None:
        self.count = 0
        """Passes since the last batch was mixed; 2 stands for two or more."""
        self.inputs: tuple[Any, ...] | None = ()
        """Inputs of the first pass; None once they are checked."""
        self.is_joining = False
        """True if the pass was in the context `DistributedDataParallel.join()`."""
        self._handle = root.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Receive the inputs of a pass."""
        if self.count == 0:
            self.count, self.inputs = 1, (*args, *kwargs.values())
        else:
            self.count = 2
        if not torch.compiler.is_compiling() and rank_and_world_size()[1] > 1:
            wrapper = getattr(nn.parallel.DistributedDataParallel, "_active_ddp_module", None)  # during its forward
            join = getattr(wrapper, "_join_config", None)
            self.is_joining = join is not None and join.enable

    def reset(self) -> None:
        """Wait for the pass of a new batch."""
        self.count, self.inputs, self.is_joining = 0, (), False

    def check(self, x: Tensor) -> None:
        """Raise unless the network had one pass since the batch was mixed, over its points `x`."""
        if self.count == 0:
            raise RuntimeError(
                "the network has not run since the batch was mixed: call batch.loss(network(batch.x)), with the "
                "network itself; calls of network.forward, or of its parts, do not run its hooks. If you did, call "
                "torch.compiler.reset(), because the network was compiled before it had hooks"
            )
        if self.count > 1:
            raise RuntimeError(
                "the network has seen other points since it saw batch.x; compute the loss, or batch.target(), directly "
                "after the pass, and mix each batch anew"
            )
        if self.inputs is not None and not any(same_memory(value, x) for value in self.inputs):
            raise RuntimeError(
                "the network has not seen batch.x but other points; call network(batch.x), and assign batch.x if it is "
                "transformed after mixing"
            )
        self.inputs = None

    def remove(self) -> None:
        """Remove the hook from the network."""
        self.reset()
        self._handle.remove()

    def __reduce__(self) -> tuple[type[_IdleHook], tuple[()]]:
        return _IdleHook, ()


def same_memory(value: Any, x: Tensor) -> bool:
    """Return True if a value is the tensor x, or a view of the same memory.

    >>> x = torch.rand(2, 3)
    >>> same_memory(x.flatten(), x), same_memory(x.clone(), x), same_memory(x[:1], x[1:]), same_memory(None, x)
    (True, False, False, False)
    """
    if value is x:
        return True
    return isinstance(value, Tensor) and value.numel() == x.numel() and value.data_ptr() == x.data_ptr()


@final
class FeatureHook(_Hook):
    """Hook that captures the features of a layer in one pass of the network `root` that contains it.

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
        if self.features is None:
            raise self._never_ran()
        if self.count > 1:
            raise self._ran_twice()
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

    >>> from genlabel.mixing import Mixup
    >>> network = nn.Sequential(nn.ReLU(), nn.Identity())
    >>> hook = MixHook(HookTarget(network[0], "0", is_input=False), network)
    >>> hook.activate(Mixup(), MixParams(torch.tensor([1, 0]), torch.tensor([0.25, 1.0])))
    >>> network(torch.tensor([[-4.0], [4.0]]))
    tensor([[3.], [4.]])
    """

    mixer: Mixer | None = None
    draw: MixParams | None = None

    def _receive(self, values: Any) -> Any:
        if self.mixer is None or self.draw is None or not self.root.training:  # an evaluation before the pass
            return None
        if self.count > 1:  # it would mix the batch twice
            raise self._ran_twice()
        mixed = self.mixer.mix(_first_tensor(values), self.draw)
        return mixed if isinstance(values, Tensor) else type(values)((mixed, *values[1:]))

    def activate(self, mixer: Mixer, draw: MixParams) -> None:
        """Mix the next pass."""
        self.is_active, self.count, self.mixer, self.draw = True, 0, mixer, draw

    def check(self) -> None:
        """Raise unless it has mixed a pass, and deactivate."""
        if self.is_active and self.count == 0:
            raise self._never_ran()
        self.deactivate()


def _first_tensor(values: Any) -> Tensor:
    """Return a tensor, or the first of several."""
    tensor = values[0] if isinstance(values, tuple | list) and values else values
    if not isinstance(tensor, Tensor):
        raise TypeError(f"the layer's values are a {type(tensor).__name__}; name one with a tensor, or a tuple of them")
    return tensor


@final
class NetworkHooks:
    """All hooks on a network: of its passes, of its features, and of the layers after which it is mixed.

    Parameters
    ----------
    network : Module
    mixed : mapping of int to HookTarget
        Layer of each depth of mixing above 0.
    features : HookTarget or None

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 3))
    >>> hooks = NetworkHooks(network, {}, find_layer(network, None, 3))
    >>> hooks.expect(captures_features=True)
    >>> _ = network(x := torch.rand(2, 4))
    >>> hooks.check(x)
    >>> torch.equal(hooks.features.take(), x)
    True
    """

    def __init__(self, network: nn.Module, mixed: Mapping[int, HookTarget], features: HookTarget | None) -> None:
        self.passes = PassHook(network)
        self.mixed = {depth: MixHook(target, network) for depth, target in mixed.items()}
        # It is registered last, and receives the mixed output of a layer that both use.
        self.features = None if features is None else FeatureHook(features, network)

    def expect(
        self, mixer: Mixer | None = None, draw: MixParams | None = None, captures_features: bool = False
    ) -> None:
        """Wait for the next pass, which is mixed in a layer if the draw has a depth; earlier ones no longer count."""
        self.passes.reset()
        for hook in self._layer_hooks():
            hook.deactivate()
        mix_hook = None
        if mixer is not None and draw is not None and draw.depth:
            mix_hook = self.mixed[draw.depth]
            mix_hook.activate(mixer, draw)
        if captures_features and self.features is not None:
            self.features.activate(after=mix_hook)

    def check(self, x: Tensor) -> None:
        """Raise unless the network had one pass since, over the points x, and mixed it where it was to be mixed."""
        self.passes.check(x)
        for hook in self.mixed.values():
            hook.check()

    def remove(self) -> None:
        """Remove the hooks from the network."""
        self.passes.remove()
        for hook in self._layer_hooks():
            hook.remove()

    def _layer_hooks(self) -> list[_Hook]:
        return [*self.mixed.values(), *([] if self.features is None else [self.features])]

"""Settings of GenLabelMixup that may change while a network trains: each is checked when it is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from genlabel._validation import check_choice, check_count, check_interval, warn
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.checks import check_mixer, make_labeler
from genlabel.integrations.hooks import HookTarget, find_layer
from genlabel.integrations.teacher import Teacher
from genlabel.labeling import Labeler, LinearLabel, OnlineGenLabel
from genlabel.mixing import Mixer, RandomChoice

LABEL_DEFAULTS: dict[str, Any] = {"max_gamma": 0.5, "top_k": 2, "same_class": "relabel", "warmup_steps": 0}


def _label_setting(name: str, doc: str, check: Callable[[Any], object]) -> Any:
    """Return a property that is a parameter of the labeler of the density."""

    def read(self: MixupSettings) -> Any:
        return None if self._label_params is None else self._label_params[name]

    def write(self: MixupSettings, value: Any) -> None:
        check(value)
        if self._label_params is None:
            raise ValueError(f"{name}={value!r} has no effect on labeler={self.labeler!r}; set it there")
        if name in self.labeler.get_params():
            self.labeler.set_params(**{name: value})
        self._label_params[name] = value

    return property(read, write, doc=doc)


class MixupSettings(nn.Module):
    """Base class of GenLabelMixup: the settings that may change, and refusal of changes to the others."""

    density: ClassDensity | OnlineGaussianDensity | nn.Module | None
    teacher: Teacher | None
    feature_layer: str | None
    input_of: str | None
    mix_layers: tuple[str, ...]
    num_classes: int
    multi_label: bool
    _network: tuple[nn.Module, ...]
    _gamma: Tensor
    """Weight of the generative label, a buffer: a compiled or captured step sees a new value."""
    _gamma_value: float | str | None
    _label_params: dict[str, Any] | None
    """Parameters of the labeler of the density; None with a labeler of one's own."""
    _labeler: Labeler
    _captured: tuple[object, ...] | None
    """Kind of labels in a CUDA graph, which cannot change."""

    max_gamma = _label_setting(
        "max_gamma",
        'Largest weight of "auto".',
        lambda v: check_interval("max_gamma", v, 0.0, 1.0, "0 is mixup"),
    )
    top_k = _label_setting(
        "top_k", "Number of classes that share a generative label.", lambda v: v is None or check_count("top_k", v)
    )
    same_class = _label_setting(
        "same_class", "Label of a pair of one class.", lambda v: check_choice("same_class", v, ["relabel", "keep"])
    )
    warmup_steps = _label_setting(
        "warmup_steps", "Steps over which gamma grows from 0.", lambda v: check_count("warmup_steps", v, low=0)
    )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting; raise for one that would have no effect."""
        is_setting = not name.startswith("_") and name != "training"
        if is_setting and "_draws" in self.__dict__ and not hasattr(type(self), name):
            names = [key for key, entry in vars(MixupSettings).items() if isinstance(entry, property) and entry.fset]
            raise AttributeError(f"{name} cannot be set later; settings that may change are {', '.join(names)}")
        super().__setattr__(name, value)

    @property
    def network(self) -> nn.Module | None:
        """Network that is trained, unwrapped."""
        return self._network[0] if self._network else None

    @property
    def labeler(self) -> Labeler:
        """Rule of the labels: a labeler of one's own, or that of the density; mixup's until gamma is above 0."""
        return self._labeler

    @property
    def gamma(self) -> float | str | None:
        """Weight of the generative label, or "auto"; None with a labeler of one's own."""
        return self._gamma_value

    @gamma.setter
    def gamma(self, value: float | str) -> None:
        if self._label_params is None:
            raise ValueError(f"gamma={value!r} has no effect on labeler={self.labeler!r}; set it there")
        if isinstance(value, str):
            check_choice("gamma", value, ["auto"], also="a number from 0 to 1")
            if not isinstance(self.density, OnlineGaussianDensity):
                raise ValueError("gamma='auto' needs a density that learns during training; this one is fitted")
        else:
            value = check_interval("gamma", value, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if value and self.multi_label:
            raise ValueError(f"gamma={value!r}: with multi_label=True, labels are those of mixup; pass gamma=0")
        if value and isinstance(self._labeler, LinearLabel):
            labeler = make_labeler(self.density, self._gamma, **self._label_params)
            if labeler.update_source is not None and self.teacher is None:
                if self.network is None:
                    raise ValueError(
                        f"gamma={value!r} needs a network, a teacher or a fitted density; gamma=0 is mixup"
                    )
                find_layer(self.network, self.feature_layer, self.num_classes, self.input_of)
            self._labeler = labeler
        if not isinstance(value, str):
            self._gamma.fill_(value)
        if isinstance(self._labeler, OnlineGenLabel):
            self._labeler.set_params(gamma=value if isinstance(value, str) else self._gamma)
        self._gamma_value = value
        if self._captured not in (None, self.label_kind):
            message = f"gamma={value!r} does not change a CUDA graph that was captured with other labels; capture again"
            warn("captured", message, RuntimeWarning)

    @property
    def label_kind(self) -> tuple[object, ...]:
        """Kind of the labels: one graph of tensors serves all values of gamma of a kind."""
        return type(self._labeler), isinstance(self._gamma_value, str)

    @property
    def effective_gamma(self) -> Tensor:
        """Weight of the generative label in the last step, as a tensor: that of "auto", or grown by `warmup_steps`."""
        if isinstance(self._labeler, OnlineGenLabel):
            return torch.as_tensor(self._labeler.effective_gamma())
        return self._gamma.clone()

    @property
    def mixer(self) -> Mixer:
        """Mixer of the batches; a random choice, if a pair was given."""
        return self._mixer

    @mixer.setter
    def mixer(self, value: Mixer | Sequence[Mixer] | None) -> None:
        mixer = check_mixer(value, self.mix_layers)
        if self.network is None and mixer.max_depth:
            raise ValueError(f"{mixer!r} mixes inside a network; pass it: GenLabelMixup(network, ...)")
        self._mixer = mixer
        self._pair = mixer if isinstance(mixer, RandomChoice) and not isinstance(value, Mixer) else None
        if self._pair is not None:
            self.switch_prob = 0.5

    @property
    def switch_prob(self) -> float | None:
        """Probability of the second mixer of a pair; None without a pair."""
        return None if self._pair is None else self._switch_prob

    @switch_prob.setter
    def switch_prob(self, value: float) -> None:
        if self._pair is None:
            raise ValueError(
                f"switch_prob={value!r} has no effect on mixer={self.mixer!r}; pass a pair, such as "
                "mixer=(Mixup(), CutMix()), or set p of a RandomChoice"
            )
        self._switch_prob = check_interval("switch_prob", value, 0.0, 1.0, "0.5 draws both mixers equally often")
        self._pair.p = (1.0 - self._switch_prob, self._switch_prob)

    @property
    def prob(self) -> float:
        """Probability that a row is mixed."""
        return self._prob

    @prob.setter
    def prob(self, value: float) -> None:
        self._prob = check_interval("prob", value, 0.0, 1.0, "1 mixes every row")

    @property
    def off_step(self) -> int | None:
        """Number of mixed batches after which training continues without mixing; 0 ends it now."""
        return self._off_step

    @off_step.setter
    def off_step(self, value: int | None) -> None:
        self._off_step = None if value is None else check_count("off_step", value, low=0)

    @property
    def learns_from_pass(self) -> bool:
        """True if labels come from features of the network's own pass over the batch."""
        return self._labeler.update_source is not None and self.teacher is None

    def feature_target(self) -> HookTarget | None:
        """Return the layer of the features; None if labels never need it, or do not yet and none is found."""
        may_learn = self._label_params is not None and isinstance(self.density, OnlineGaussianDensity)
        if self.network is None or self.teacher is not None or not (may_learn or self.learns_from_pass):
            return None
        try:
            return find_layer(self.network, self.feature_layer, self.num_classes, self.input_of)
        except ValueError:
            if self.learns_from_pass or self.feature_layer is not None or self.input_of is not None:
                raise
            return None

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        target = self.feature_target()
        layer = None if target is None else f"{'input' if target.is_input else 'output'} of {target.name!r}"
        settings: dict[str, Any] = {
            "gamma": self.gamma,
            "max_gamma": self.max_gamma if isinstance(self.gamma, str) else None,
            "prob": self.prob,
            "switch_prob": self.switch_prob,
            "off_step": self.off_step,
            "mixer": self.mixer,
            "labeler": type(self.labeler).__name__,
            "features": layer,
        }
        return ", ".join(f"{name}={value}" for name, value in settings.items() if value is not None)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the module; the labeler sees the buffer of gamma where it is now."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        is_own = self._label_params is None
        if not (is_own or isinstance(self.gamma, str) or isinstance(self._labeler, LinearLabel)):
            self._labeler.set_params(gamma=self._gamma)
        return self

"""GenLabelMixup: mixup, manifold mixup or CutMix with generative labels (arXiv Alg. 3), for any training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import get_worker_info

from genlabel._arrays import one_hot
from genlabel._runtime import rank_and_world_size
from genlabel._validation import check_choice, check_count, check_interval, warn
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.batches import MixedBatch
from genlabel.integrations.checks import check_batch, check_density, check_labeler, check_mixer, make_labeler
from genlabel.integrations.hooks import FeatureHook, MixHook, PassHook, find_layer, make_teacher, unwrap
from genlabel.labeling import GenLabel, Labeler, LinearLabel, OnlineGenLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, RandomChoice
from genlabel.mixing.base import draw_to_device
from genlabel.training.compile import frozen_batchnorm_stats
from genlabel.training.loop import label_batch, num_observed

HAS_TRITON = find_spec("triton") is not None


@cache
def _compiled_labeling() -> Callable[..., Tensor]:
    """Return `observe_and_label` compiled, for all objects; compilation happens at the first call."""
    return torch.compile(observe_and_label, dynamic=False)


@final
class GenLabelMixup(nn.Module):
    """Mix a batch and label it by class densities, in two or three lines of any training loop.

    In a loop, features of the mixed batch are captured in the forward pass of the loss::

        batch = mixup.mix(x, y)
        loss = batch.loss(network(batch.x))

    Before the network, in the call shape of timm and torchvision, labels come from a fitted density or a teacher::

        x, target = mixup(x, y)

    Everything learned is in its `state_dict`; the network is not a submodule. Draw t on rank r depends only on
    (seed, r, t), so that a run resumed from a checkpoint sees the same pairs. In evaluation mode (its own, or the
    network's) nothing is mixed, captured or learned: `batch.x` is x, `batch.loss` the plain cross-entropy, and
    `mixup(x, y)` returns x and y as a matrix.

    Parameters
    ----------
    network : Module, optional
        Network that is trained, also wrapped in DistributedDataParallel or torch.compile.
    num_classes : int
    mixer : Mixer or pair of Mixer
        `Mixup()`, `ManifoldMixup(depths=...)` or `CutMix()`. With a pair, such as `(Mixup(0.8), CutMix())`, a batch is
        mixed by the second one with probability `switch_prob`.
    prob : float in [0, 1]
        Probability that a row is mixed; with one lam per batch, that a batch is. Rows that are not mixed keep lam 1.
    switch_prob : float in [0, 1]
    off_step : int or None
        Number of mixed batches after which training continues without mixing.
    feature_layer : str or None
        Module whose output is the features, averaged over pixels or tokens. None is the input of the last `nn.Linear`
        with `num_classes` outputs.
    input_of : str or None
        Module whose input is the features, such as a named head; instead of `feature_layer`.
    mix_layers : sequence of str
        Modules after which a manifold mixer mixes: depth d is `mix_layers[d]`, and "" is the input. Name whole stages
        or blocks: inside a residual block only one of two branches would be mixed, which no hook can detect.
    gamma : float in [0, 1] or "auto"
        Weight of the generative label; 0 is mixup. The network trains itself: far above 0.1, accuracy may fall. With
        "auto", the weight follows how well labels of the density predict nearly clean rows, whose classes are known
        (:class:`genlabel.densities.label_trust.LabelTrust`). It may be set at any time, as `prob`, `switch_prob` and
        `off_step` may.
    max_gamma : float in [0, 1]
        Largest weight with gamma="auto".
    top_k : int or None
        Number of classes that share a generative label (arXiv Alg. 3 has 2); None is all.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class unchanged.
    warmup_steps : int
        Steps over which gamma grows from 0; only for a density that learns during training.
    density : ClassDensity or OnlineGaussianDensity, optional
        Density fitted to flattened points, or one that learns; `OnlineGaussianDensity(**settings)` by default.
    labeler : Labeler, optional
        Another rule for the labels, such as `LogisticLabel()`; instead of gamma and a density.
    teacher : Module, "ema" or None
        Network whose features feed the densities: a module, "ema" (moving average of `network`, see
        :meth:`update_ema`), or None for the forward pass of `network` itself.
    decay : float
        Decay of the moving average.
    seed : int
    multi_label : bool
        If True, labels are (n, k) values in [0, 1], several per row; they are mixed linearly (gamma=0), and the loss is
        the binary cross-entropy.
    compiled : bool or None
        If True, compile the labeling by a density that learns (some seconds, once); None compiles on a GPU with Triton,
        where it takes a tenth of the kernels.
    **settings
        Parameters of the density: beta, statistics, covariance, margin, share, temperature.

    Examples
    --------
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    >>> mixup = GenLabelMixup(network, num_classes=10)
    >>> x, y = torch.rand(4, 1, 8, 8), torch.tensor([3, 1, 4, 1])
    >>> batch = mixup.mix(x, y)
    >>> loss = batch.loss(network(batch.x))
    >>> batch.target().sum(1)
    tensor([1., 1., 1., 1.])
    """

    _gamma: Tensor
    """Weight of the generative label, a buffer: a compiled or captured step sees a new value."""

    def __init__(
        self,
        network: nn.Module | None = None,
        *,
        num_classes: int,
        mixer: Mixer | Sequence[Mixer] | None = None,
        prob: float = 1.0,
        switch_prob: float = 0.5,
        off_step: int | None = None,
        feature_layer: str | None = None,
        input_of: str | None = None,
        mix_layers: Sequence[str] = ("",),
        gamma: float | str = 0.1,
        max_gamma: float = 0.5,
        top_k: int | None = 2,
        same_class: str = "relabel",
        warmup_steps: int = 0,
        density: ClassDensity | OnlineGaussianDensity | None = None,
        labeler: Labeler | None = None,
        teacher: nn.Module | str | None = None,
        decay: float = 0.999,
        seed: int = 0,
        multi_label: bool = False,
        compiled: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if multi_label and (gamma or labeler is not None):
            raise ValueError("with multi_label=True, labels are those of mixup; pass gamma=0")
        if settings and (density is not None or labeler is not None):
            raise ValueError(f"{', '.join(settings)} are settings of a new density; pass density= with them")
        if labeler is not None and (density is not None or teacher is not None):
            raise ValueError("labeler takes the place of density and teacher; pass it alone")
        if feature_layer is not None and input_of is not None:
            raise ValueError(
                f"feature_layer={feature_layer!r} and input_of={input_of!r} both name the features; pass one"
            )
        self.num_classes, self.compiled = check_count("num_classes", num_classes, low=2), compiled
        self.seed, self.mix_layers = check_count("seed", seed, low=0), tuple(mix_layers)
        self.feature_layer, self.input_of = feature_layer, input_of
        self.mixer = check_mixer(mixer, self.mix_layers)
        self.prob, self.switch_prob, self.off_step = prob, switch_prob, off_step
        self.multi_label = multi_label
        self._network = () if network is None else (unwrap(network),)  # in a tuple, so that it is no submodule
        self._wrapper = (network,)
        self._label_params: dict[str, Any] | None = None
        if labeler is None:
            self._label_params = {"top_k": top_k, "same_class": same_class, "warmup_steps": warmup_steps}
        self.max_gamma = check_interval("max_gamma", max_gamma, 0.0, 1.0, "0 is mixup")
        self.density = check_density(density, num_classes, settings)
        self.teacher = make_teacher(teacher, network, feature_layer, input_of, num_classes, decay)
        self.register_buffer("_gamma", torch.zeros(()), persistent=False)
        self._gamma_value: float | str | None = None
        self.labeler = LinearLabel() if labeler is None else check_labeler(labeler, network)
        if labeler is None:
            self.gamma = gamma
        if network is None and self.mixer.max_depth:
            raise ValueError(f"{self.mixer!r} mixes inside a network; pass it: GenLabelMixup(network, ...)")
        self._draws = 0
        self._last_targets: Tensor | None = None
        self._pass_hook: PassHook | None = None
        self._feature_hook: FeatureHook | None = None
        self._mix_hooks: dict[int, MixHook] = {}
        self.attach()

    @property
    def network(self) -> nn.Module | None:
        """Network that is trained, unwrapped."""
        return self._network[0] if self._network else None

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
            self._gamma.fill_(value)
        if value and isinstance(self.labeler, LinearLabel):
            labeler = make_labeler(self.density, self._gamma, **self._label_params)
            if self.network is None and self.teacher is None and labeler.update_source is not None:
                raise ValueError(f"gamma={value!r} needs a network, a teacher or a fitted density; gamma=0 is mixup")
            self.labeler = labeler
        if isinstance(self.labeler, OnlineGenLabel):
            gamma: Any = value if isinstance(value, str) else self._gamma
            self.labeler.set_params(gamma=gamma, max_gamma=self.max_gamma)
        self._gamma_value = value

    @property
    def effective_gamma(self) -> Tensor:
        """Weight of the generative label in the last step, as a tensor: that of "auto", or grown by `warmup_steps`."""
        if isinstance(self.labeler, OnlineGenLabel):
            return torch.as_tensor(self.labeler.effective_gamma())
        return self._gamma.clone()

    @property
    def prob(self) -> float:
        """Probability that a row is mixed."""
        return self._prob

    @prob.setter
    def prob(self, value: float) -> None:
        self._prob = check_interval("prob", value, 0.0, 1.0, "1 mixes every row")

    @property
    def switch_prob(self) -> float:
        """Probability of the second mixer of a pair."""
        return self._switch_prob

    @switch_prob.setter
    def switch_prob(self, value: float) -> None:
        self._switch_prob = check_interval("switch_prob", value, 0.0, 1.0, "0.5 draws both mixers equally often")
        if isinstance(self.mixer, RandomChoice):
            self.mixer.p = (1.0 - self._switch_prob, self._switch_prob)

    @property
    def is_mixing(self) -> bool:
        """True in training mode, of this module and of the network, before `off_step`."""
        is_on = self.off_step is None or self._draws < self.off_step
        return is_on and self.training and (self.network is None or self.network.training)

    @property
    def needs_forward_hook(self) -> bool:
        """True if labels come from features captured in the network's forward pass."""
        return self.labeler.update_source is not None and self.teacher is None

    def mix(self, x: Tensor, y: Tensor) -> MixedBatch:
        """Return the mixed batch, out of place: `batch.loss(network(batch.x))` is its loss.

        x (n, ...) is floating, y class indices (n,) or soft labels (n, k). If a hidden layer is drawn, `batch.x` are
        the points as given, which are mixed there.
        """
        self._check_batch(x, y)
        if self.network is None:
            raise RuntimeError("mix needs the network: GenLabelMixup(network, ...); without one, call mixup(x, y)")
        if self.is_mixing:
            return self.apply_draw(x, y, self.draw(len(x), x, y))
        self.attach()
        self._deactivate_hooks()
        return self._new_batch(x, y, None)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k), float32: for use before the network, as in timm's scripts."""
        batch = self.mix_before_pass(x, y)
        return batch.x, batch.target()

    def mix_before_pass(self, x: Tensor, y: Tensor) -> MixedBatch:
        """Return the mixed batch with its labels, which do not depend on the network's pass over it."""
        self._check_batch(x, y)
        if not self.is_mixing:
            return self._new_batch(x, y, None)
        if self.needs_forward_hook or self.mixer.max_depth:
            raise RuntimeError(
                "mixup(x, y) labels a batch before the network sees it, and mixes its input: use mix and loss, or pass "
                "density= (fitted), teacher= or gamma=0, and a mixer of the input"
            )
        draw = self.draw(len(x), x, y)
        if draw.weight is not None:
            raise RuntimeError(
                f"{self.mixer!r} weights the loss of the rows; use batch = mixup.mix(x, y) and batch.loss"
            )
        return self.apply_draw(x, y, draw)

    def draw(self, n: int, x: Tensor | None = None, y: Tensor | None = None) -> MixParams:
        """Draw how a batch of n rows is mixed: tensors on the device of its points x, or else of this module.

        A mixer that is `data_dependent` needs x and the labels y.
        """
        worker, (rank, world_size) = get_worker_info(), rank_and_world_size()
        if world_size == 1:
            rank = int(os.environ.get("RANK", "0"))
        key = [self.seed, rank, self._draws] + ([] if worker is None else [worker.seed])
        self._draws += 1
        rng = np.random.default_rng(key)
        drawn = self.mixer.draw(n, rng, x, y)
        if self.prob < 1.0:
            is_shared = bool((drawn.lam == drawn.lam[0]).all())  # one lam per batch: all rows are mixed, or none
            drawn = drawn.leave_unmixed(np.broadcast_to(rng.random(1 if is_shared else n) >= self.prob, n))
        return draw_to_device(drawn, self._gamma if x is None else x)

    def apply_draw(self, x: Tensor, y: Tensor, draw: MixParams) -> MixedBatch:
        """Mix a batch by a given draw: deterministic, unchecked, and without a graph break in `torch.compile`."""
        self.attach()
        self._deactivate_hooks()
        clean_features, points = None, x
        if self.labeler.update_source == "clean":
            clean_features = self._clean_features(x[: num_observed(self.labeler, len(x))])
        if draw.depth == 0 or self.labeler.needs_inputs or self.teacher is not None:
            points = self.mixer.mix(x, draw)
            if x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
                points = points.contiguous(memory_format=torch.channels_last)
        batch = self._new_batch(x, y, draw)
        if not draw.depth:
            batch.x = points
        batch.clean_features = clean_features
        if draw.depth:
            self._mix_hooks[draw.depth].activate(draw)
        if self._feature_hook is not None:
            self._feature_hook.activate(after=self._mix_hooks.get(draw.depth))
        elif self.teacher is not None and self.labeler.update_source is not None:
            batch.labels = self._label(self.teacher.features(points), batch)
        else:
            batch.labels = self._label(points.flatten(1).float(), batch)  # a labeler that does not learn
        return batch

    def labels_of(self, batch: MixedBatch, must_be_last: bool = True) -> Tensor:
        """Return the labels of a batch; those from features of the network are computed after its pass.

        With `must_be_last`, the network has seen the points of the batch, and no others since.
        """
        if batch.labels is not None and not must_be_last:
            return batch.labels
        if batch.draw is None and not must_be_last:
            return batch.targets
        if batch.targets is not self._last_targets:
            raise RuntimeError(
                "another batch has been mixed since; compute the loss of a batch before the next one is mixed, and mix "
                "each batch anew"
            )
        if batch.draw is not None and not self.is_mixing:
            raise RuntimeError(
                "the batch was mixed for training, and now is evaluation: call mixup.mix(x, y) there too, which mixes "
                "nothing, or use your own loss"
            )
        if self._pass_hook is not None:
            self._pass_hook.check(batch.x)
        if batch.draw is not None and batch.draw.depth:
            self._mix_hooks[batch.draw.depth].check()
        if batch.labels is None and batch.draw is not None and self._feature_hook is not None:
            batch.labels = self._label(self._feature_hook.take(), batch)
        return batch.targets if batch.labels is None else batch.labels

    def update_ema(self) -> None:
        """Move the averaged teacher towards the network; call it once after each step of the optimizer.

        If gradients are accumulated over several batches, call it after the last of them. The density learns from every
        batch: its `beta`, and `warmup_steps`, count batches.
        """
        if self.teacher is None or not self.teacher.is_average or self.network is None:
            raise RuntimeError("there is no moving average of the network; create one with teacher='ema'")
        self.teacher.update(self.network)

    def check(self) -> None:
        """Warn about labels that have collapsed or that are worse than those of mixup, and of an idle teacher.

        It waits for a GPU: call it once per epoch.
        """
        self.labeler.check()
        if self.teacher is not None and self.teacher.is_average and self._draws > 1 and not self.teacher.updates:
            message = (
                f"the moving average has not been updated in {self._draws} batches; call update_ema after each step"
            )
            warn("idle teacher", message, RuntimeWarning)

    def attach(self) -> None:
        """Register the hooks on the network, unless they are; the constructor does so."""
        if self.network is None:
            return
        if self._pass_hook is None:
            self._pass_hook = PassHook(self.network)
        for depth, name in enumerate(self.mix_layers):
            if name and depth not in self._mix_hooks:
                target = find_layer(self.network, name, self.num_classes)
                self._mix_hooks[depth] = MixHook(target, self.network, self.mixer)
        if self._feature_hook is None and self.needs_forward_hook:  # registered last: it receives the mixed output
            target = find_layer(self.network, self.feature_layer, self.num_classes, self.input_of)
            self._feature_hook = FeatureHook(target, self.network)

    def detach(self) -> None:
        """Remove the hooks from the network; `mix` registers them again."""
        for hook in (self._pass_hook, self._feature_hook, *self._mix_hooks.values()):
            if hook is not None:
                hook.remove()
        self._pass_hook, self._feature_hook, self._mix_hooks, self._last_targets = None, None, {}, None

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()

    def _check_batch(self, x: Tensor, y: Tensor) -> None:
        """Check a batch, and move to the device of its points."""
        is_choice = isinstance(self.mixer, RandomChoice)
        mixes_input = self.mixer.min_depth == 0 or self.labeler.needs_inputs or self.teacher is not None
        blends_input = mixes_input and (is_choice or self.mixer.linear)  # a choice that never blends is rare
        check_batch(x, y, self.num_classes, blends_input, self.multi_label)
        if x.device != self._gamma.device:
            self.to(x.device)
        join = getattr(self._wrapper[0], "_join_config", None)  # set by the context DistributedDataParallel.join()
        if join is not None and join.enable and self.labeler.update_source is not None:
            raise RuntimeError(
                "DistributedDataParallel.join() does not cover the densities, which all processes update together; use "
                "DistributedSampler(...) and drop_last=True, so that each process has the same number of batches"
            )

    def _new_batch(self, points: Tensor, y: Tensor, draw: MixParams | None) -> MixedBatch:
        """Return a batch, and wait for the network's pass over its points."""
        if self._pass_hook is not None:
            self._pass_hook.reset()
        self._last_targets = targets = self._as_targets(y, points.device)
        return MixedBatch(points, y, draw, self, targets, points)

    def _deactivate_hooks(self) -> None:
        for hook in (self._feature_hook, *self._mix_hooks.values()):
            if hook is not None:
                hook.deactivate()

    def _as_targets(self, y: Tensor, device: torch.device) -> Tensor:
        """Return labels (n, k) in float32, whatever the precision of x: in bfloat16, class 257 would be 256."""
        y = y.to(device, non_blocking=True)
        return one_hot(y.long(), self.num_classes, torch.float32) if y.ndim == 1 else y.to(torch.float32)

    @torch.no_grad()
    def _clean_features(self, x: Tensor) -> Tensor:
        """Return features of clean rows, by a pass of their own that leaves no trace in the network."""
        if self.teacher is not None:
            return self.teacher.features(x)
        assert self._feature_hook is not None
        with frozen_batchnorm_stats(self._feature_hook.root):
            return self._feature_hook.features_of(x)

    @torch.no_grad()
    def _label(self, features: Tensor, batch: MixedBatch) -> Tensor:
        """Return the labels of the mixed batch; a density that learns observes first (arXiv Alg. 3)."""
        assert batch.draw is not None
        compiled = features.is_cuda and HAS_TRITON if self.compiled is None else self.compiled
        learns = self.labeler.update_source is not None
        label = _compiled_labeling() if learns and compiled else observe_and_label
        clean, draw = batch.clean_features, batch.draw
        return label_batch(self.labeler, features, batch.targets, draw, None, clean, label).float()

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        settings: dict[str, Any] = {
            "gamma": self.gamma,
            "prob": self.prob,
            "off_step": self.off_step,
            "mixer": self.mixer,
        }
        layer = f"input of {self.input_of!r}" if self.input_of else self.feature_layer
        settings |= {"labeler": type(self.labeler).__name__, "features": layer}
        return ", ".join(f"{name}={value}" for name, value in settings.items() if value is not None)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the module; the labeler sees the buffer of gamma where it is now."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if isinstance(self.labeler, GenLabel | OnlineGenLabel) and isinstance(self.labeler.gamma, Tensor):
            self.labeler.gamma = self._gamma
        return self

    def get_extra_state(self) -> Tensor:
        """Return the number of draws, which determines all random numbers."""
        return torch.tensor(self._draws)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue with the draw of that number."""
        self._draws = int(state)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without hooks, which a copy registers on its own network, and without the last batch."""
        hooks: dict[str, Any] = {"_pass_hook": None, "_feature_hook": None, "_mix_hooks": {}}
        return {**self.__dict__, **hooks, "_last_targets": None, "_wrapper": (self.network,)}

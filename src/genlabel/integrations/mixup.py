"""GenLabelMixup: mixup, manifold mixup or CutMix with generative labels (arXiv Alg. 3), for any training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, Self, final

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.utils.data import default_collate, get_worker_info

from genlabel._arrays import one_hot
from genlabel._runtime import rank_and_world_size
from genlabel._validation import check_count, check_interval
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.batches import MixedBatch, check_batch
from genlabel.integrations.hooks import FeatureHook, MixHook, PassHook, find_layer, make_teacher, unwrap
from genlabel.labeling import GenLabel, Labeler, LinearLabel, OnlineGenLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, Mixup, RandomChoice
from genlabel.mixing.base import check_within_batch, draw_to_device
from genlabel.training.compile import frozen_batchnorm_stats
from genlabel.training.loop import label_batch, num_observed

HAS_TRITON = find_spec("triton") is not None
DENSITY_SETTINGS = ("beta", "covariance", "statistics", "margin", "share", "temperature")
"""Parameters of `OnlineGaussianDensity` that `GenLabelMixup` takes."""


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
    gamma : float in [0, 1]
        Weight of the generative label; 0 is mixup. The network trains itself: far above 0.1, accuracy may fall. It may
        be set at any time, as `prob`, `switch_prob` and `off_step` may.
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
        gamma: float = 0.1,
        top_k: int | None = 2,
        same_class: str = "relabel",
        warmup_steps: int = 0,
        density: ClassDensity | OnlineGaussianDensity | None = None,
        labeler: Labeler | None = None,
        teacher: nn.Module | str | None = None,
        decay: float = 0.999,
        seed: int = 0,
        compiled: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
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
        self.mixer = _check_mixer(mixer, self.mix_layers)
        self.prob, self.switch_prob, self.off_step = prob, switch_prob, off_step
        self._network = () if network is None else (unwrap(network),)  # in a tuple, so that it is no submodule
        self._label_params: dict[str, Any] | None = None
        if labeler is None:
            self._label_params = {"top_k": top_k, "same_class": same_class, "warmup_steps": warmup_steps}
        self.density = _check_density(density, num_classes, settings)
        self.teacher = make_teacher(teacher, network, feature_layer, input_of, num_classes, decay)
        self.register_buffer("_gamma", torch.zeros(()), persistent=False)
        self._gamma_value: float | None = None
        self.labeler = LinearLabel() if labeler is None else _check_labeler(labeler, network)
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
    def gamma(self) -> float | None:
        """Weight of the generative label; None with a labeler of one's own."""
        return self._gamma_value

    @gamma.setter
    def gamma(self, value: float) -> None:
        if self._label_params is None:
            raise ValueError(f"gamma={value!r} has no effect on labeler={self.labeler!r}; set it there")
        gamma = check_interval("gamma", value, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if gamma and isinstance(self.labeler, LinearLabel):
            labeler = _make_labeler(self.density, self._gamma, **self._label_params)
            if self.network is None and self.teacher is None and labeler.update_source is not None:
                raise ValueError(f"gamma={gamma:g} needs a network, a teacher or a fitted density; gamma=0 is mixup")
            self.labeler = labeler
        self._gamma_value = gamma
        self._gamma.fill_(gamma)

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
        check_batch(x, y, self.num_classes)
        if self.network is None:
            raise RuntimeError("mix needs the network: GenLabelMixup(network, ...); without one, call mixup(x, y)")
        if self.is_mixing:
            return self.apply_draw(x, y, self.draw(len(x), x, y))
        self.attach()
        self._deactivate_hooks()
        return self._new_batch(x, y, None)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k), float32: for use before the network, as in timm's scripts."""
        check_batch(x, y, self.num_classes)
        if not self.is_mixing:
            return x, self._as_targets(y, x.device)
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
        batch = self.apply_draw(x, y, draw)
        return batch.x, batch.target()

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
        if draw.depth == 0 or not self.needs_forward_hook:
            points = self.mixer.mix(x, draw)
            if x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
                points = points.contiguous(memory_format=torch.channels_last)
        batch = self._new_batch(x if draw.depth else points, y, draw)
        batch.clean_features = clean_features
        if draw.depth:
            self._mix_hooks[draw.depth].activate(draw)
        if self._feature_hook is not None:
            self._feature_hook.activate(after=self._mix_hooks.get(draw.depth))
        elif self.teacher is not None and self.labeler.update_source is not None:
            batch.labels = self._label(self.teacher.features(points), batch)
        else:
            batch.labels = self._label(points.flatten(1).float(), batch)
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
        """Move the averaged teacher towards the network; call it after the optimizer's step."""
        if self.teacher is None or not self.teacher.is_average or self.network is None:
            raise RuntimeError("there is no moving average of the network; create one with teacher='ema'")
        self.teacher.update(self.network)

    def check(self) -> None:
        """Warn (CollapseWarning) if the labels have collapsed; it waits for a GPU, so call it once per epoch."""
        self.labeler.check()

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

    def _new_batch(self, points: Tensor, y: Tensor, draw: MixParams | None) -> MixedBatch:
        """Return a batch, and wait for the network's pass over its points."""
        if self._pass_hook is not None:
            self._pass_hook.reset()
        self._last_targets = targets = self._as_targets(y, points.device)
        return MixedBatch(points, y, draw, self, targets)

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
        return {**self.__dict__, "_pass_hook": None, "_feature_hook": None, "_mix_hooks": {}, "_last_targets": None}


def _check_mixer(mixer: Mixer | Sequence[Mixer] | None, layers: Sequence[str]) -> Mixer:
    """Return the mixer, one for a pair; raise unless `layers` names a module for each of its depths."""
    given = [Mixup()] if mixer is None else [mixer] if isinstance(mixer, Mixer) else mixer
    if isinstance(given, str) or len(given) not in (1, 2) or not all(isinstance(one, Mixer) for one in given):
        raise TypeError(f"mixer={mixer!r} must be a Mixer such as Mixup(), ManifoldMixup() or CutMix(), or two of them")
    result = given[0] if len(given) == 1 else RandomChoice(given)
    check_within_batch(result)
    if not layers or layers[0] != "":
        raise ValueError(f"mix_layers={tuple(layers)!r} must begin with '', the input, which is depth 0 of the mixer")
    if result.max_depth >= len(layers):
        raise ValueError(
            f"{result!r} mixes at depth {result.max_depth}, but mix_layers={tuple(layers)!r} names {len(layers) - 1}; "
            "name one module per depth: mix_layers=('', 'layer1', 'layer2')"
        )
    return result


def _check_density(
    density: ClassDensity | OnlineGaussianDensity | None, k: int, settings: dict[str, Any]
) -> ClassDensity | OnlineGaussianDensity:
    """Return a density of k classes, or a new one with the given settings."""
    if density is None:
        unknown = [name for name in settings if name not in DENSITY_SETTINGS]
        if unknown:
            hint = "; alpha is a parameter of the mixer: mixer=Mixup(alpha=0.2)" if "alpha" in unknown else ""
            raise TypeError(
                f"{', '.join(unknown)} is no parameter of GenLabelMixup, nor of its density, whose parameters are "
                f"{', '.join(DENSITY_SETTINGS)}{hint}"
            )
        return OnlineGaussianDensity(k, **settings)
    if isinstance(density, OnlineGaussianDensity):
        if density.num_classes != k:
            raise ValueError(f"the density has num_classes={density.num_classes}, but num_classes={k}")
        return density
    check_is_fitted(density, "classes_")
    if not np.array_equal(density.classes_, np.arange(k)):
        raise ValueError(f"the density has the classes {density.classes_.tolist()}; it must be 0 to {k - 1}")
    return density


def _check_labeler(labeler: Labeler, network: nn.Module | None) -> Labeler:
    """Return a labeler of the user's own; one that learns needs the features of a network."""
    if not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be a Labeler, such as LinearLabel() or LogisticLabel()")
    if labeler.update_source is not None and network is None:
        raise ValueError(f"labeler={labeler!r} learns from features; pass the network: GenLabelMixup(network, ...)")
    return labeler


def _make_labeler(
    density: ClassDensity | OnlineGaussianDensity, gamma: Any, top_k: int | None, same_class: str, warmup_steps: int
) -> Labeler:
    """Return the labeler of a density."""
    if isinstance(density, OnlineGaussianDensity):
        return OnlineGenLabel(density, gamma, top_k, same_class, warmup_steps)
    if warmup_steps:
        raise ValueError(f"warmup_steps={warmup_steps!r} needs a density that learns during training; this is fitted")
    return GenLabel.from_fitted(density, gamma=gamma, top_k=top_k, same_class=same_class)


@final
class MixCollate:
    """Function for `DataLoader(collate_fn=)` that mixes and labels each batch, differently in every worker and epoch.

    `mixup` has labels that do not learn, those of a fitted density or of mixup (gamma=0): anything learned in a worker
    would be lost. `collate` is the function from a list of samples to (x, y).

    Examples
    --------
    >>> collate = MixCollate(GenLabelMixup(num_classes=3, gamma=0.0))
    >>> x, target = collate([(torch.zeros(2), 0), (torch.ones(2), 2)])
    >>> x.shape, target.sum(1)
    (torch.Size([2, 2]), tensor([1., 1.]))
    """

    def __init__(self, mixup: GenLabelMixup, collate: Callable[[list[Any]], Any] = default_collate) -> None:
        if not isinstance(mixup, GenLabelMixup):
            raise TypeError(f"mixup is a {type(mixup).__name__}; pass a GenLabelMixup")
        if mixup.labeler.update_source is not None:
            raise ValueError(
                "the density of mixup learns, which is lost with a worker process; pass a fitted density=, or gamma=0, "
                "or mix in the loop"
            )
        self.mixup, self.collate = mixup, collate

    def __call__(self, samples: list[Any]) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k)."""
        x, y = self.collate(samples)
        mixed: tuple[Tensor, Tensor] = self.mixup(x, y)
        return mixed

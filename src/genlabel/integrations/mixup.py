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

from genlabel._runtime import rank_and_world_size
from genlabel._validation import check_count, check_interval, warn
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.batches import MixedBatch
from genlabel.integrations.checks import check_batch, check_density, check_labeler
from genlabel.integrations.hooks import NetworkHooks, find_layer, unwrap
from genlabel.integrations.settings import MixupSettings
from genlabel.integrations.teacher import make_teacher
from genlabel.labeling import Labeler, LinearLabel, OnlineGenLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, RandomChoice
from genlabel.mixing.base import BatchInfo, blend, draw_to_device
from genlabel.training.mixed_step import clean_features, label_batch, mixes_input

HAS_TRITON = find_spec("triton") is not None


@cache
def _compiled_labeling() -> Callable[..., Tensor]:
    """Return the labeling compiled, for all objects; compilation happens at the first call."""
    return torch.compile(_observe_and_label, dynamic=False)


def _observe_and_label(
    labeler: Labeler, observed: Tensor, observed_targets: Tensor, features: Tensor, targets: Tensor, *batch: Any
) -> Tensor:
    """Update a labeler that learns, and return the labels of a batch; rows that are not mixed keep their own."""
    unmixed = _unmixed_rows(batch[0])
    return observe_and_label(labeler, observed, observed_targets, features, targets, batch[0], unmixed).float()


def _unmixed_rows(draw: MixParams) -> BatchInfo:
    """Return the rows that are mixed with lam 1, or with themselves: they keep their labels."""
    own = torch.arange(len(draw.partner), device=draw.partner.device)
    return BatchInfo(clean=(draw.lam == 1.0) | (draw.partner == own))


@final
class GenLabelMixup(MixupSettings):
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
    switch_prob : float in [0, 1], optional
        0.5 with a pair of mixers.
    off_step : int or None
        Number of mixed batches after which training continues without mixing; set it to 0 to end mixing at an epoch.
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
        (:class:`genlabel.densities.label_trust.LabelTrust`). It may be set at any time, as `max_gamma`, `top_k`,
        `same_class`, `warmup_steps`, `mixer`, `prob`, `switch_prob` and `off_step` may.
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

    def __init__(
        self,
        network: nn.Module | None = None,
        *,
        num_classes: int,
        mixer: Mixer | Sequence[Mixer] | None = None,
        prob: float = 1.0,
        switch_prob: float | None = None,
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
        if multi_label and labeler is not None:
            raise ValueError("with multi_label=True, labels are those of mixup; pass gamma=0, and no labeler")
        if settings and (density is not None or labeler is not None):
            raise ValueError(f"{', '.join(settings)} are settings of a new density; pass density= with them")
        if labeler is not None and (density is not None or teacher is not None):
            raise ValueError("labeler takes the place of density and teacher; pass it alone")
        if feature_layer is not None and input_of is not None:
            raise ValueError(
                f"feature_layer={feature_layer!r} and input_of={input_of!r} both name the features; pass one"
            )
        self.num_classes, self.multi_label = check_count("num_classes", num_classes, low=2), multi_label
        self.seed, self.mix_layers = check_count("seed", seed, low=0), tuple(mix_layers)
        self.feature_layer, self.input_of, self.compiled = feature_layer, input_of, compiled
        self._network = () if network is None else (unwrap(network),)  # in a tuple, so that it is no submodule
        self.mixer, self.prob, self.off_step = mixer, prob, off_step
        if switch_prob is not None:
            self.switch_prob = switch_prob
        self.teacher = make_teacher(teacher, network, feature_layer, input_of, num_classes, decay)
        self.register_buffer("_gamma", torch.zeros(()), persistent=False)
        self._gamma_value, self._label_params, self._captured = None, None, None
        new_density = check_density(density, num_classes, settings)
        if labeler is None:
            self.density, self._labeler = new_density, LinearLabel()
            self._label_params = {}
            self.max_gamma, self.top_k, self.same_class, self.warmup_steps = max_gamma, top_k, same_class, warmup_steps
            self.gamma = gamma
        else:
            self._labeler = check_labeler(labeler, network, num_classes)
            self.density = labeler.state
        self._draws = 0
        self._has_read_gpu = False
        self._last_targets: Tensor | None = None
        self._hooks: NetworkHooks | None = None
        self.attach()

    @property
    def is_mixing(self) -> bool:
        """True in training mode, of this module and of the network, before `off_step`."""
        is_on = self.off_step is None or self._draws < self.off_step
        return is_on and self.training and (self.network is None or self.network.training)

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
        return self._new_batch(x, y, None)

    def forward(self, x: Tensor, y: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k), float32: for use before the network, as in timm's scripts.

        With `label_smoothing`, that share of each label is spread evenly over the classes.
        """
        check_interval("label_smoothing", label_smoothing, 0.0, 1.0, "0.1 is usual")
        batch = self.mix_before_pass(x, y)
        target = batch.target()
        even = torch.full_like(target, 0.5 if self.multi_label else 1.0 / self.num_classes)
        return batch.x, torch.lerp(target, even, label_smoothing) if label_smoothing else target

    def mix_before_pass(self, x: Tensor, y: Tensor) -> MixedBatch:
        """Return the mixed batch with its labels, which do not depend on the network's pass over it."""
        self._check_batch(x, y)
        if not self.is_mixing:
            return self._new_batch(x, y, None)
        if self.learns_from_pass or self.mixer.max_depth:
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
            clean = np.broadcast_to(rng.random(1 if is_shared else n) >= self.prob, n)
            if np.array_equal(drawn.lam[drawn.partner], drawn.lam):  # one lam per pair: both rows, or none
                clean = clean[np.minimum(np.arange(n), drawn.partner)]
            drawn = drawn.leave_unmixed(clean)
        return draw_to_device(drawn, self._gamma if x is None else x)

    def apply_draw(self, x: Tensor, y: Tensor, draw: MixParams) -> MixedBatch:
        """Mix a batch by a given draw: deterministic, unchecked, and without a graph break in `torch.compile`."""
        self.attach()
        labeler, points, clean = self.labeler, x, None
        if x.is_cuda and not torch.compiler.is_compiling() and torch.cuda.is_current_stream_capturing():
            self._captured = self.label_kind
        if labeler.update_source == "clean":
            if self._hooks is not None:
                self._hooks.expect()  # the pass over clean rows is not mixed, even if the batch before had no pass
            clean = clean_features(labeler, x, self._feature_network, self._features_of)
        if mixes_input(labeler, draw) or self.teacher is not None:
            points = self.mixer.mix(x, draw)
            if x.ndim == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
                points = points.contiguous(memory_format=torch.channels_last)
        batch = self._new_batch(x, y, draw)
        if not draw.depth:
            batch.x = points
        batch.clean_features = clean
        if labeler.update_source is None:
            batch.labels = self._label(points.flatten(1).float(), batch)
        elif self.teacher is not None:
            batch.labels = self._label(self.teacher.features(points), batch)
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
        if self._hooks is not None:
            self._hooks.check(batch.x)
            if self._hooks.passes.is_joining and self.labeler.update_source is not None:
                raise RuntimeError(
                    "DistributedDataParallel.join() does not cover the densities, which all processes update "
                    "together; use DistributedSampler(...) and drop_last=True, so that each process has the same "
                    "number of batches"
                )
            if batch.labels is None and batch.draw is not None and self._hooks.features is not None:
                batch.labels = self._label(self._hooks.features.take(), batch)
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
        if self.network is not None and self._hooks is None:
            names = {depth: name for depth, name in enumerate(self.mix_layers) if name}
            layers = {depth: find_layer(self.network, name, self.num_classes) for depth, name in names.items()}
            self._hooks = NetworkHooks(self.network, layers, self.feature_target())

    def detach(self) -> None:
        """Remove the hooks from the network; `mix` registers them again."""
        if self._hooks is not None:
            self._hooks.remove()
        self._hooks, self._last_targets = None, None

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
        check_batch(x, y, self.num_classes, blends_input, self.multi_label, reads_gpu=not self._has_read_gpu)
        if not self._has_read_gpu:
            self._has_read_gpu = True  # the first batch alone: to read more would wait for the GPU in each step
        if x.device != self._gamma.device:
            self.to(x.device)

    def _new_batch(self, points: Tensor, y: Tensor, draw: MixParams | None) -> MixedBatch:
        """Return a batch, and wait for the network's pass over its points."""
        if self._hooks is not None:
            self._hooks.expect(self.mixer, draw, draw is not None and self.learns_from_pass)
        self._last_targets = targets = self._as_targets(y, points.device)
        return MixedBatch(points, y, draw, self, targets, points)

    def _as_targets(self, y: Tensor, device: torch.device) -> Tensor:
        """Return labels (n, k) in float32, whatever the precision of x: in bfloat16, class 257 would be 256."""
        y = y.to(device, non_blocking=True)
        if y.ndim == 2:
            return y.to(torch.float32)
        return torch.eye(self.num_classes, device=device).index_select(0, y.long())

    @property
    def _feature_network(self) -> nn.Module:
        """Network whose features the density learns from."""
        assert self.network is not None or self.teacher is not None
        return self.teacher.network if self.teacher is not None else self.network  # type: ignore[return-value]

    def _features_of(self, x: Tensor) -> Tensor:
        """Return the features of rows, by a pass of their own."""
        if self.teacher is not None:
            return self.teacher.features(x)
        assert self._hooks is not None
        assert self._hooks.features is not None
        return self._hooks.features.features_of(x)

    def _label(self, features: Tensor, batch: MixedBatch) -> Tensor:
        """Return the labels of the mixed batch; a density that learns observes first (arXiv Alg. 3)."""
        assert batch.draw is not None
        draw, targets, labeler = batch.draw, batch.targets, self.labeler
        if isinstance(self.gamma, float) and not isinstance(labeler, OnlineGenLabel):
            batch.gamma = torch.as_tensor(self.gamma)
        if isinstance(labeler, LinearLabel):
            return blend(targets, draw)
        info = _unmixed_rows(draw) if labeler.update_source is None else None
        compiled = features.is_cuda and HAS_TRITON if self.compiled is None else self.compiled
        label = _compiled_labeling() if compiled else _observe_and_label
        labels = label_batch(labeler, features, targets, draw, info, batch.clean_features, label).float()
        if isinstance(labeler, OnlineGenLabel):
            batch.gamma = torch.as_tensor(labeler.last_gamma).clone()  # the buffer changes when gamma is set
        return labels

    def get_extra_state(self) -> Tensor:
        """Return the number of draws, which determines all random numbers."""
        return torch.tensor(self._draws)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue with the draw of that number."""
        self._draws = int(state)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without hooks, which a copy registers on its own network, and without the last batch."""
        return {**self.__dict__, "_hooks": None, "_last_targets": None}

"""GenLabelMixup: mixup, manifold mixup or CutMix with generative labels (arXiv Alg. 3), in anybody's training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import get_worker_info

from genlabel._validation import check_count, check_interval
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.accuracy import MixedAccuracy, mixed_accuracy
from genlabel.integrations.hooks import FeatureHook, MixHook, find_layer, unwrap
from genlabel.integrations.parts import check_mixer, make_density, make_labeler, make_teacher
from genlabel.integrations.reading import as_laid_out, as_targets, check_batch, process_rank
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, Mixup
from genlabel.mixing.base import draw_to_device
from genlabel.training.compile import frozen_batchnorm_stats


@cache
def _compiled() -> Callable[..., Tensor]:
    """Observing and labelling in a tenth of the kernels, for all objects: it is compiled when it is first called."""
    return torch.compile(observe_and_label, dynamic=False)


@dataclass
class _Pending:
    """What is known of a batch between its mixing and its loss."""

    y: Tensor
    """As it was given."""
    targets: Tensor
    """Labels before mixing, (n, k)."""
    draw: MixParams | None = None
    """None where nothing was mixed: in evaluation."""
    clean: Tensor | None = None
    """Features of clean rows, if the density learns from these."""
    labels: Tensor | None = None
    """Those of the mixed batch, as soon as they are known."""
    trains: bool = False
    """Whether it was mixed in training mode, for a pass that is caught: its labels are not for an evaluation."""


@final
class GenLabelMixup(nn.Module):
    """Mix a batch and label it by class densities, in two or three lines of any training loop.

    In a loop, features of the mixed batch are caught in the pass that the loss needs::

        scores = network(mixup.mix(x, y))
        loss = mixup.loss(scores)

    Before the network, in the call shape of timm and torchvision, labels come from a fitted density or a teacher::

        x, target = mixup(x, y)

    What it has learned is in its `state_dict`; the network is not, and not its own submodule. The mixing of draw t on
    rank r is a function of (seed, r, t) alone, so that a run that goes on from a checkpoint sees the same pairs.
    In evaluation mode (its own, or the network's) nothing is mixed, caught or learned: `mix` returns x as it is, `loss`
    is the plain cross-entropy, `mixup(x, y)` gives x and y as a matrix.

    Parameters
    ----------
    network : Module, optional
        The one that is trained; inside DistributedDataParallel and torch.compile it is found.
    num_classes : int
    mixer : Mixer
        `Mixup()`, `ManifoldMixup(depths=...)` or `CutMix()`.
    feature_layer : str or None
        Where features are caught: the output of the module of that name, averaged over pixels or tokens. None is the
        input of the last `nn.Linear` that has `num_classes` outputs.
    mix_layers : sequence of str
        After which modules a manifold mixer mixes: its depth d is `mix_layers[d]`, and "" is the input. Name whole
        stages or blocks. Inside a residual block only one of two branches would be mixed, which no hook can see.
    gamma : float in [0, 1]
        Weight of the generative label; 0 is mixup. The network teaches itself: far above 0.1, accuracy may fall.
    top_k : int or None
        Number of classes that share a generative label (arXiv Alg. 3 has 2); None is all.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class alone.
    warmup_steps : int
        Steps over which gamma grows from 0; only where a density learns in the steps.
    density : ClassDensity or OnlineGaussianDensity, optional
        Fitted to flattened points, or one that learns; without one, an `OnlineGaussianDensity(**settings)`.
    teacher : Module, "ema" or None
        Whose features are described: another network, or an average of the weights of `network`, moved by
        :meth:`update_ema`. None is the network itself, in its own pass.
    decay : float
        That of the average.
    seed : int
    compiled : bool or None
        Whether the labelling of a density that learns is compiled (some seconds, once); None is on a GPU with Triton,
        where it takes a tenth of the kernels.
    **settings
        Of the density: beta, statistics, covariance, margin, share, temperature.

    Examples
    --------
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    >>> mixup = GenLabelMixup(network, num_classes=10)
    >>> x, y = torch.rand(4, 1, 8, 8), torch.tensor([3, 1, 4, 1])
    >>> loss = mixup.loss(network(mixup.mix(x, y)))
    >>> mixup.target().sum(1)
    tensor([1., 1., 1., 1.])
    """

    _here: Tensor
    """Nothing but the device that it is on."""

    def __init__(
        self,
        network: nn.Module | None = None,
        *,
        num_classes: int,
        mixer: Mixer | None = None,
        feature_layer: str | None = None,
        mix_layers: Sequence[str] = ("",),
        gamma: float = 0.1,
        top_k: int | None = 2,
        same_class: str = "relabel",
        warmup_steps: int = 0,
        density: ClassDensity | OnlineGaussianDensity | None = None,
        teacher: nn.Module | str | None = None,
        decay: float = 0.999,
        seed: int = 0,
        compiled: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.num_classes = check_count("num_classes", num_classes, low=2)
        self.gamma = check_interval("gamma", gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        self.compiled = compiled
        self.seed, self.feature_layer = check_count("seed", seed, low=0), feature_layer
        self.mix_layers = tuple(mix_layers)
        self.mixer = check_mixer(Mixup() if mixer is None else mixer, self.mix_layers)
        self._held = () if network is None else (unwrap(network),)  # in a tuple: no submodule
        self.density = make_density(num_classes, density, settings)
        self.labeler = make_labeler(self.density, self.gamma, top_k, same_class, warmup_steps)
        self.teacher = make_teacher(teacher, network, feature_layer, num_classes, decay)
        self._check_parts()
        self.register_buffer("_here", torch.zeros(()), persistent=False)
        self._draws = 0
        self._pending: _Pending | None = None
        self._features: FeatureHook | None = None
        self._mixing: dict[int, MixHook] = {}
        self.attach()

    @property
    def network(self) -> nn.Module | None:
        """The network that is trained, out of its wrappers."""
        return self._held[0] if self._held else None

    @property
    def is_mixing(self) -> bool:
        """Whether it is in training mode, and so is the network."""
        return self.training and (self.network is None or self.network.training)

    @property
    def needs_forward_hook(self) -> bool:
        """Whether labels come from features that are caught in the network's own pass."""
        return self.labeler.update_source is not None and self.teacher is None

    def mix(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mixed batch, out of place; its labels are asked for by :meth:`loss` or :meth:`target`.

        Parameters
        ----------
        x : Tensor (n, ...)
            Floating. Where a hidden layer is drawn, it is left as it is, and mixed there.
        y : Tensor (n,) or (n, k)
            Class indices or soft labels, before mixing.
        """
        check_batch(x, y, self.num_classes)
        if self.network is None:
            raise RuntimeError("mix needs the network: GenLabelMixup(network, ...); without one, call mixup(x, y)")
        if self.is_mixing:
            return self.apply_draw(x, y, self.draw(len(x), x))
        self._close()
        self._pending = _Pending(y, as_targets(y, self.num_classes, x.device))
        return x

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed batch and its labels (n, k), float32: for use before the network, as in timm's scripts.

        x (n, ...) is floating, y class indices (n,) or soft labels (n, k).
        """
        check_batch(x, y, self.num_classes)
        if not self.training:
            return x, as_targets(y, self.num_classes, x.device)
        if self.needs_forward_hook or self.mixer.max_depth:
            raise RuntimeError(
                "mixup(x, y) labels a batch before the network has seen it, and mixes its input: use mix and loss, or "
                "give density= (fitted) or teacher=, or gamma=0 for mixup's own labels, and a mixer of the input"
            )
        mixed = self.apply_draw(x, y, self.draw(len(x), x))
        return mixed, self.target()

    def draw(self, n: int, like: Tensor | None = None) -> MixParams:
        """Draw how a batch of n rows is mixed: tensors on the device of `like`, or else on its own."""
        worker = get_worker_info()
        key = [self.seed, process_rank(), self._draws] + ([] if worker is None else [worker.seed])
        self._draws += 1
        return draw_to_device(self.mixer.draw(n, np.random.default_rng(key)), self._here if like is None else like)

    def apply_draw(self, x: Tensor, y: Tensor, draw: MixParams) -> Tensor:
        """Mix a batch by a draw: deterministic, without checks, and without a break in `torch.compile`."""
        self.attach()
        self._close()
        batch = _Pending(
            y, as_targets(y, self.num_classes, x.device), draw, trains=self.needs_forward_hook and self.is_mixing
        )
        if self.labeler.update_source == "clean":
            batch.clean = self._features_of(x[: max(2, round(self.labeler.observed_fraction * len(x)))])
        points = as_laid_out(self.mixer.mix(x, draw), x) if draw.depth == 0 or not self.needs_forward_hook else x
        if draw.depth:
            self._mixing[draw.depth].open(draw)
        if self._features is not None:
            self._features.open(after=self._mixing.get(draw.depth))
        else:
            batch.labels = self._label(self._described(points), batch)
        self._pending = batch
        return x if draw.depth else points

    def target(self, scores: Tensor | None = None) -> Tensor:
        """Return the labels (n, k), float32, of the batch that was mixed last; `scores` are only compared in shape."""
        batch = self._last()
        if batch.trains and not self.is_mixing:
            raise RuntimeError(
                "the last batch was mixed for training, and now is evaluation: call scores = network(mixup.mix(x, y)) "
                "there too, which mixes nothing, or use a loss of your own"
            )
        if batch.draw is not None and batch.draw.depth:
            self._mixing[batch.draw.depth].check()
        if batch.labels is None and batch.draw is not None and self._features is not None:
            batch.labels = self._label(self._features.take(), batch)
        labels = batch.targets if batch.labels is None else batch.labels
        if scores is not None and scores.shape != labels.shape:
            raise ValueError(
                f"scores have shape {tuple(scores.shape)}, the labels of the batch that was mixed last "
                f"{tuple(labels.shape)}; call scores = network(mixup.mix(x, y)) for each batch"
            )
        return labels

    def loss(self, scores: Tensor) -> Tensor:
        """Return the mean cross-entropy of scores (n, k) and :meth:`target`, computed in float32."""
        if not isinstance(scores, Tensor):
            raise TypeError(f"scores are a {type(scores).__name__}; give the tensor (n, k) in it, output.logits, say")
        return torch.nn.functional.cross_entropy(scores.float(), self.target(scores))

    def accuracy(self, scores: Tensor) -> MixedAccuracy:
        """Return :func:`genlabel.mixed_accuracy` of scores (n, k) for the batch that was mixed last."""
        batch = self._last()
        if batch.draw is None:
            return mixed_accuracy(scores, batch.y)
        return mixed_accuracy(scores, batch.y, batch.draw.partner, batch.draw.lam)

    def update_ema(self) -> None:
        """Move an averaged teacher towards the network: call it after the step of the optimiser."""
        if self.teacher is None or not self.teacher.averages or self.network is None:
            raise RuntimeError("there is no average of the network; make it with teacher='ema'")
        self.teacher.follow(self.network)

    def check(self) -> None:
        """Warn (CollapseWarning) where the labels have collapsed; it waits for a GPU, so once an epoch is enough."""
        self.labeler.check()

    def attach(self) -> None:
        """Put the hooks on the network, if they are not there: what the constructor does."""
        if self.network is None:
            return
        for depth, name in enumerate(self.mix_layers):
            if name and depth not in self._mixing:
                layer = find_layer(self.network, name, self.num_classes)
                self._mixing[depth] = MixHook(layer, self.network, self.mixer)
        if (
            self._features is None and self.needs_forward_hook
        ):  # last: of a layer that is mixed, the mixed output is caught
            self._features = FeatureHook(find_layer(self.network, self.feature_layer, self.num_classes), self.network)

    def detach(self) -> None:
        """Take the hooks off the network; `mix` puts them on again."""
        for tap in (self._features, *self._mixing.values()):
            if tap is not None:
                tap.remove()
        self._features, self._mixing, self._pending = None, {}, None

    def __enter__(self) -> Self:
        self.attach()
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()

    def _last(self) -> _Pending:
        if self._pending is None:
            raise RuntimeError("no batch has been mixed: call scores = network(mixup.mix(x, y)) first")
        return self._pending

    def _close(self) -> None:
        for tap in (self._features, *self._mixing.values()):
            if tap is not None:
                tap.close()

    def _described(self, points: Tensor) -> Tensor:
        """What the labeler is asked of: features by the teacher, or the points themselves, as rows."""
        if self.teacher is not None and self.labeler.update_source is not None:
            return self.teacher.features_of(points)
        return points.flatten(1).float()

    @torch.no_grad()
    def _features_of(self, x: Tensor) -> Tensor:
        """Features of clean rows, by a pass of their own that leaves no trace in the network."""
        if self.teacher is not None:
            return self.teacher.features_of(x)
        assert self._features is not None
        with frozen_batchnorm_stats(self._features.root):
            return self._features.features_of(x)

    @torch.no_grad()
    def _label(self, described: Tensor, batch: _Pending) -> Tensor:
        """Labels of the mixed batch; a density that learns observes first (arXiv Alg. 3)."""
        assert batch.draw is not None
        if self.labeler.update_source is None:
            labels: Tensor = self.labeler.label(described, batch.targets, batch.draw)
            return labels.float()
        seen = described if batch.clean is None else batch.clean
        self.labeler.allocate(described)
        rule = _compiled() if self._compiles(described) else observe_and_label
        return rule(self.labeler, seen, batch.targets[: len(seen)], described, batch.targets, batch.draw).float()

    def _compiles(self, features: Tensor) -> bool:
        """Whether labels are compiled: if not said, where Triton compiles for the GPU that has the features."""
        if self.compiled is not None:
            return self.compiled
        return features.is_cuda and find_spec("triton") is not None

    def _check_parts(self) -> None:
        """Raise where the parts do not go together."""
        if self.needs_forward_hook and self.network is None:
            raise ValueError(
                f"gamma={self.gamma:g} needs a network whose features are described, a teacher, or a fitted density; "
                "gamma=0 is mixup"
            )
        if self.mixer.max_depth and self.network is None:
            raise ValueError(f"{self.mixer!r} mixes inside a network; give it: GenLabelMixup(network, ...)")

    def get_extra_state(self) -> Tensor:
        """The number of draws, which is all the state of what is random."""
        return torch.tensor(self._draws)

    def set_extra_state(self, state: Tensor) -> None:
        """Go on with the draw of that number."""
        self._draws = int(state)

    def __getstate__(self) -> dict[str, Any]:
        """Without hooks, which a copy puts on its own network, and without the batch at hand."""
        return {**self.__dict__, "_features": None, "_mixing": {}, "_pending": None}

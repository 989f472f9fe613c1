"""Class densities by the distance to a manifold that a GAN has learned (arXiv Section 7.1)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Seed, as_rng, chunks, like, named_device
from genlabel._progress import Callback, training_callback
from genlabel._registry import DENSITIES
from genlabel._standardization import Standardization
from genlabel._validation import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.gan.charts import Latents
from genlabel.densities.gan.curves import EVENNESS, SMOOTHNESS, refine_curves
from genlabel.densities.gan.inversion import NORMS, Bank, Inverter, train_encoder
from genlabel.densities.gan.networks import ConvReader, Network, Perceptron, Shape
from genlabel.densities.gan.selection import CLEARLY, FEW, ClassRows, Judged, choose, judge, split_rows
from genlabel.densities.gan.training import CRITIC, ENERGY, NOISE, Generators, Networks, Schedule, Trial, train_gans

PENALTY = 0.05
"""The weight of the critic's penalty, for features of variance 1, that is tried as it is, times 4 and divided by 4."""
CHANNELS = 16
"""Of the first convolution of a network that sees images."""
CHARTS = 4
"""The pieces that are tried beside one."""
BANK = 2048
"""Points of each manifold from which an inversion begins."""


class CollapsedGeneratorError(RuntimeError):
    """The generator of a class leaves out a part of it; the message names the class and says what to do."""


@DENSITIES.register("gan")
@final
class GANDensity(ClassDensity):
    r"""log p_c(x) = -d(x, M_c) / scale, with M_c = {G(w, c)} the manifold that a GAN has learned of class c.

    The paper's proxy for an implicit density (arXiv Section 7.1, and Section F.3, GenMix+GAN): no density, but a
    distance, which is found by inverting the generator. Each class has a generator of its own, x = G(w, c) + sigma_c e,
    trained against a critic with a relativistic loss and penalties on both sides; sigma_c e is the noise around the
    manifold, which the paper's argument assumes, spherical in the units of the distance. Generators of curves are then
    refined by the likelihood of the rows under the same noise, with even bends where the rows allow them (NOTE[PAPER]:
    not the paper's). Several penalties are tried at once, and rows that were held out choose for each class.

    Parameters
    ----------
    norm : "l1", "l2" or "linf"
        The distance d, in the units of the features.
    latent_dim : int or None
        Dimension of the manifolds; None is half of the features, rounded up, at most 16: a curve in the plane. With as
        many as there are features a manifold may fill the space, and every distance is nil.
    charts : int or None
        Pieces that a manifold may have, as the classes of Two-circle have two; None tries 1 and 4, of images 1. Pieces
        begin at clusters of the rows; fewer have fewer ends.
    shape : (c, h, w) or None
        For flat images, h and w multiples of 4: convolutional critic and encoder, and one scale for all pixels.
    hidden : sequence of int
        Hidden layers of generator, critic and encoder.
    steps, batch_size, learning_rate : int, int, float
        Of the training; a batch has as many rows of each class.
    penalty : float or None
        Weight of the penalties R1 + R2; None is 0.05, and a quarter and four times of it for a class that fell short.
    scale : float or "typical"
        What a distance is divided by; 1 is the paper's. NOTE[PAPER]: "typical" is the mean distance of held-out rows to
        the manifold of their own class, the same for all classes. Points at equal distance remain so, and a label
        says nearly 1 where a point is several such distances nearer to a class than to the others, whatever the
        units of the features are.
    standardize : bool
        Whether the distance is that of standardised features.
    encoder : "regression", "bigan" or None
        Where an inversion begins, besides the nearest of known points of the manifold: where an encoder says that was
        regressed on the latents of generated points, or one that was trained with the generator against a critic of
        points and latents (ALI, bidirectional GAN: the paper's suggestion). The latter is unstable.
    restarts, inversion_steps : int
        Starts from known points, of several charts if there are, and Gauss-Newton steps, of an inversion.
    min_coverage : float
        The share of the held-out rows of a class that must have a generated point near by.
    retries : int
        How often the classes that fall short of it are trained again, before the fit is refused.
    device : "auto", "cpu" or "cuda"
        Where the networks are trained and inverted; an answer is where the points of the query are.
    verbose : int
    random_state : int, generator or None

    Attributes
    ----------
    scale_ : float
    noise_ : ndarray (k, d)
        Standard deviation of the noise around each manifold.
    coverage_, penalty_ : ndarray (k,)
        Share of the held-out rows that are covered, and the penalty that was chosen.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 0.1] + [[0.0, 0.0], [0.0, 2.0]] * 30
    >>> density = GANDensity(hidden=(16,), steps=150, penalty=0.05, random_state=0).fit(X, [0, 1] * 30)
    >>> density.log_prob([[0.0, 0.1], [0.0, 1.9]]).argmax(1)
    array([0, 1])
    >>> density.project([[0.0, 0.1]]).shape
    (1, 2, 2)
    """

    normalized: ClassVar[bool] = False
    chunk_rows: int = 512

    def __init__(
        self,
        norm: str = "l2",
        latent_dim: int | None = None,
        charts: int | None = None,
        shape: Shape | None = None,
        hidden: tuple[int, ...] = (64, 64, 64),
        steps: int = 2000,
        batch_size: int = 128,
        learning_rate: float = 5e-3,
        penalty: float | None = None,
        scale: float | str = "typical",
        standardize: bool = False,
        encoder: str | None = "regression",
        restarts: int = 4,
        inversion_steps: int = 16,
        min_coverage: float = 0.5,
        retries: int = 1,
        device: Any = "auto",
        verbose: int = 0,
        random_state: Seed = None,
    ) -> None:
        self.norm = norm
        self.latent_dim = latent_dim
        self.charts = charts
        self.shape = shape
        self.hidden = hidden
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.scale = scale
        self.standardize = standardize
        self.encoder = encoder
        self.restarts = restarts
        self.inversion_steps = inversion_steps
        self.min_coverage = min_coverage
        self.retries = retries
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def resolved_config(self) -> dict[str, Any]:
        """Say what the words among the parameters stand for: what is tried, and how the losses are weighed.

        >>> GANDensity().resolved_config()["penalties"]
        [0.05, 0.0125, 0.2]
        """
        penalties = [PENALTY, PENALTY / 4, PENALTY * 4] if self.penalty is None else [self.penalty]
        weights = {"critic": CRITIC, "energy": ENERGY, "evenness": EVENNESS, "clearly": CLEARLY}
        curves = self.latent_dim == 1 or (self.latent_dim is None and self.shape is None)
        weights |= {"smoothness": SMOOTHNESS} if curves else {}
        return {"penalties": penalties, "charts": [1, CHARTS], "noise": ["spherical", NOISE], **weights}

    def project(self, X: Any) -> Any:
        """Return m*_c, the nearest point of each class manifold to each row: (m, k, d), numpy or torch as `X` is.

        `log_prob(X)[:, c]` is -norm(x - m*_c) / scale_.
        """
        x = self._check_query(X)
        return like(torch.cat([self._project(x[some]) for some in chunks(len(x), self.chunk_rows)]), X)

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Return log p_c (m, k) of points (m, d) whose projections (m, k, d) are taken as known; differentiable.

        What `log_prob` is near the points that were projected (arXiv Section F.3: d(x + delta, M) is about
        d(x + delta, m*)).
        """
        unit = self._unit.to(X)
        return -torch.linalg.vector_norm((X[:, None] - points) / unit, NORMS[self.norm], -1) / self.scale_

    def manifolds(self) -> GANDensity:
        """Itself: it projects."""
        return self

    def sample(self, n: int, class_index: int, rng: Seed = None) -> NDArray[np.float64]:
        """Return `n` points (n, d) of a class, with the noise around its manifold."""
        generators = self.generators_.take(torch.tensor([class_index]))
        found: NDArray[np.float64] = self.standardisation_.inverse(generators.draw(n, as_rng(rng))[0][0]).numpy()
        return found

    @property
    def noise_(self) -> NDArray[np.float64]:
        """Standard deviation of the noise around each manifold, (k, d)."""
        return (self.generators_.log_noise[:, 0].exp() * self.standardisation_.scale).numpy()

    @property
    def _unit(self) -> Tensor:
        """(d,): what the features are divided by before a distance is taken."""
        scale: Tensor = self.standardisation_.scale
        return scale if self.standardize else torch.ones_like(scale)

    @property
    def _to_distance(self) -> Tensor:
        """(d,): what a standardised feature is in the units of the distance."""
        scale: Tensor = self.standardisation_.scale
        return scale / self._unit

    def _schedule(self, steps: int) -> Schedule:
        return Schedule(steps, self.batch_size, self.learning_rate, named_device(self.device), self._to_distance)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters(X.shape[1])
        seeds = as_rng(self.random_state).integers(2**32, size=4)
        self.standardisation_ = self._standardise(X, weight)
        points = self.standardisation_(X)
        members = [index == c for c in range(len(self.classes_))]
        classes = [split_rows(points[rows].float(), weight[rows], int(seeds[0])) for rows in members]
        with training_callback(self.verbose, "GANDensity") as callback:
            judged = self._choose(classes, np.random.default_rng(seeds[1]), callback)
        self._keep(judged, np.random.default_rng(seeds[2]))
        self.scale_ = self._scale(classes)

    def _check_parameters(self, d: int) -> None:
        check_choice("norm", self.norm, NORMS)
        check_choice("encoder", self.encoder or "regression", ["regression", "bigan"], also="None")
        for name, low in (("batch_size", 1), ("restarts", 1), ("steps", 1), ("inversion_steps", 0)):
            check_count(name, getattr(self, name), low)
        check_count("retries", self.retries, 0)
        check_positive("learning_rate", self.learning_rate, "5e-3 is the usual choice")
        check_interval("min_coverage", self.min_coverage, 0.0, 1.0, "0 accepts every generator")
        for name in ("latent_dim", "charts"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.shape is not None and (math.prod(self.shape) != d or self.shape[1] % 4 or self.shape[2] % 4):
            raise ValueError(
                f"shape={self.shape!r} must be (c, h, w) with c h w = {d} features, h and w multiples of 4; "
                "pad the images, or leave out shape for fully connected networks"
            )

    def _standardise(self, X: Tensor, weight: Tensor) -> Standardization:
        fitted = Standardization.fit(X, weight, keep_constant=True)
        if self.shape is None:
            return fitted
        flat = Standardization.fit(X.reshape(-1, 1), keep_constant=True)
        return fitted._replace(mean=flat.mean.expand(X.shape[1]).clone(), scale=flat.scale.expand(X.shape[1]).clone())

    def _latents(self) -> Latents:
        dim = min((self.n_features_in_ + 1) // 2, 16) if self.latent_dim is None else self.latent_dim
        return Latents(dim, self.charts if self.charts is not None else 1 if self.shape is not None else CHARTS)

    def _generator(self) -> Network:
        """Fully connected for images too: an inversion needs its Jacobian, which is slow for convolutions on a CPU."""
        return Perceptron((self._latents().size, *self.hidden, self.n_features_in_))

    def _reader(self, n_beside: int, n_out: int) -> Network:
        """A network that sees points: a critic, or an encoder."""
        if self.shape is not None:
            return ConvReader(self.shape, n_beside, CHANNELS, n_out)
        return Perceptron((self.n_features_in_ + n_beside, *self.hidden, n_out))

    def _choose(self, classes: list[ClassRows], rng: np.random.Generator, callback: Callback | None) -> list[Judged]:
        """The best generator for each class; those that leave out too much are trained again."""
        tried: list[list[Judged]] = [[] for _ in classes]
        missing = list(range(len(classes)))
        for attempt in range(self.retries + 1):
            found = self._round(self._trials(attempt), [classes[c] for c in missing], rng, callback)
            for c, judged in zip(missing, found, strict=True):
                tried[c] += judged
            best = [choose(judged, self.min_coverage) for judged in tried]
            missing = [c for c in missing if best[c].coverage < self.min_coverage and not classes[c].few]
            if not missing:
                break
        for c in missing:
            raise CollapsedGeneratorError(self._collapsed(c, best[c]))
        for c, rows in enumerate(classes):
            if rows.few:
                warn(("GANDensity", c), self._few(c, len(rows.train)), DensityWarning)
            elif best[c].precision < self.min_coverage:
                warn(("GANDensity blurred", c), self._blurred(c, best[c]), DensityWarning)
        return best

    def _trials(self, attempt: int) -> list[Trial]:
        """What is tried at first, and again: both numbers of charts; then the penalty over 4, and times 4."""
        charts = [1, self._latents().charts] if self.charts is None and self.shape is None else [self._latents().charts]
        fixed = self.penalty if self.penalty is not None else PENALTY if attempt == 0 else None
        penalties = [PENALTY / 4, PENALTY * 4] if fixed is None else [fixed]
        return [Trial(penalty, number) for penalty in penalties for number in charts]

    def _collapsed(self, c: int, judged: Judged) -> str:
        return (
            f"the generator of class {self.classes_.tolist()[c]!r} covers {judged.coverage:.0%} of the rows that were "
            f"held out, less than min_coverage={self.min_coverage:g}, after {self.retries + 1} training(s): it "
            f"has collapsed; train longer (steps={self.steps}), with another random_state or "
            f"penalty, or with more charts ({self._latents().charts}) if the class is in many pieces"
        )

    def _blurred(self, c: int, judged: Judged) -> str:
        return (
            f"of the points generated for class {self.classes_.tolist()[c]!r} only {judged.precision:.0%} are near its "
            f"rows: its manifold is blurred; train longer (steps={self.steps}), or with more charts "
            f"({self._latents().charts}) if the class is in many pieces"
        )

    def _few(self, c: int, n: int) -> str:
        return (
            f"class {self.classes_.tolist()[c]!r} has {n} rows: GANDensity holds none of them out, so "
            f"that nothing says whether its manifold is right; give at least {FEW} rows, or use GaussianDensity"
        )

    def _round(
        self, trials: list[Trial], classes: list[ClassRows], rng: np.random.Generator, callback: Callback | None
    ) -> list[list[Judged]]:
        """Train a generator for each class and trial, all at once, and judge them."""
        schedule = self._schedule(self.steps)
        epoch = max(1, sum(len(rows.train) for rows in classes) // (self.batch_size * len(classes)))
        size = self._latents().size if self.encoder == "bigan" else 0
        networks = Networks(self._generator(), self._reader(size, 1), self._reader(0, size) if size else None)

        def on_step(step: int) -> None:
            if callback is not None and step % epoch == 0:
                callback.on_epoch_end(step // epoch - 1, {})

        stacks = [train_gans(networks, self._latents(), classes, trials, schedule, rng, on_step)]
        if self._latents().dim == 1:
            stacks.insert(0, refine_curves(stacks[0], classes, schedule, rng))
        seed, t = int(rng.integers(2**32)), len(trials)
        return [
            [
                judge(stack.take(torch.tensor([c * t + j])), trial, rows, seed)
                for j, trial in enumerate(trials)
                for stack in (stacks[-1:] if rows.few else stacks)
            ]
            for c, rows in enumerate(classes)
        ]

    def _keep(self, judged: list[Judged], rng: np.random.Generator) -> None:
        trained = Generators.join([one.generators for one in judged])
        self.coverage_ = np.array([one.coverage for one in judged])
        self.penalty_ = np.array([one.trial.penalty for one in judged])
        if self.encoder == "regression":
            schedule = self._schedule(self.steps // 4)
            trained = train_encoder(self._reader(0, trained.latents.size), trained, schedule, rng)
        self.generators_ = trained.to(torch.zeros(0, dtype=torch.float64))
        with torch.no_grad():
            self.bank_ = Bank.draw(self.generators_, BANK, rng)

    def _scale(self, classes: list[ClassRows]) -> float:
        if not isinstance(self.scale, str):
            return check_positive("scale", self.scale, "1 is the paper's, 'typical' that of the rows")
        check_choice("scale", self.scale, ["typical"], also="a number above 0")
        self.scale_ = 1.0
        rows = [self.standardisation_.inverse(rows.held_out.double()) for rows in classes]
        typical = float(np.mean([-self.log_prob(own)[:, c].mean() for c, own in enumerate(rows)]))
        return typical if typical > 0 else 1.0

    @torch.no_grad()
    def _project(self, X: Tensor) -> Tensor:
        """m*_c (m, k, d), in the dtype of `X`."""
        x = self.standardisation_(X.detach().double()).to(named_device(self.device))
        unit = self._to_distance.to(x)
        bank = Bank(*(part.to(x) for part in self.bank_))
        inverter = Inverter(self.generators_.to(x), bank, self.norm, self.restarts, self.inversion_steps, unit)
        found = inverter(x).transpose(0, 1)
        return self.standardisation_.inverse(found.flatten(0, 1).to(X.device)).reshape(found.shape).to(X)

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.log_prob_near(X, self._project(X))

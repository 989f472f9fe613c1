"""Class densities by the distance to the manifold of a GAN (arXiv Section 7.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Seed, Standardization, as_rng, chunks, like, named_device
from genlabel._progress import training_callback
from genlabel._text import count_of
from genlabel._validation import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.gan import training
from genlabel.densities.gan.generators import NORMS, Bank, ConvNetwork, Generators, Inverter, Latents, Perceptron, Shape
from genlabel.densities.gan.training import ClassRows, GANNetworks, GANSchedule, GANSettings, ScoredGenerator
from genlabel.registry import DENSITIES

PENALTY = 0.05  # default weight of the penalty of the critic, for features of variance 1
CHANNELS = 16  # channels of the first convolution of an image network
CHARTS = 4  # number of charts that is tried in addition to one
MAX_LATENT = 16  # upper bound on the default dimension of the manifolds
BANK_POINTS = 2048  # points of each manifold that are stored as starts of inversions


class CollapsedGeneratorError(RuntimeError):
    """Error that the generator of a class does not cover the class; the message names the class and a remedy."""


@DENSITIES.register("gan")
@final
@dataclass(eq=False, repr=False)
class GANDensity(ClassDensity):
    r"""log p_c(x) = -d(x, M_c) / scale, with M_c = {G(w, c)} the manifold of class c that a GAN has learned.

    The proxy of the paper for an implicit density (arXiv Section 7.1, and Section F.3, GenMix+GAN): a distance, by
    inversion of the generator. Each class has its own generator, x = G(w, c) + sigma_c e, trained against a critic with
    a relativistic loss and penalties on real and generated points; sigma_c e is the noise around the manifold that the
    paper assumes, spherical in the units of the distance. Generators of curves are then refined by the likelihood of
    the rows under this noise (NOTE[PAPER]: not in the paper). Held-out rows select the generator of each class.

    Parameters
    ----------
    norm : "l1", "l2" or "linf"
        Norm of the distance d, in the units of the features.
    latent_dim : int or None
        Dimension of the manifolds; None is half the number of features, rounded up, at most 16. With as many dimensions
        as features a manifold may fill the space, and all distances are 0.
    charts : int or None
        Maximal number of pieces of a manifold, which start at clusters of the rows; the classes of Two-circle have two.
        None tries 1 and 4, and only 1 for images.
    shape : (c, h, w) or None
        Shape of flat images, h and w multiples of 4, for a convolutional critic and encoder and one scale for all
        pixels.
    hidden : sequence of int
        Hidden layers of generator, critic and encoder.
    steps, batch_size, learning_rate : int, int, float
        Training settings; the batch size is that of each class.
    penalty : float or None
        Weight of the penalties R1 + R2; None is 0.05, then a quarter of it and four times it for classes below
        `min_coverage`.
    scale : float or "typical"
        Divisor of a distance; 1 in the paper. NOTE[PAPER]: "typical" is the mean distance of held-out rows to the
        manifold of their own class, so that labels do not depend on the units.
    standardize : bool
        Measure distances between standardized features.
    encoder : "regression", "bigan" or None
        Additional start of an inversion, the prediction of an encoder: one regressed on the latents of generated
        points, or trained with the generator against a critic of points and latents (ALI, bidirectional GAN, as the
        paper suggests), which is unstable.
    restarts, inversion_steps : int
        Number of stored points to start from, in several charts if there are any, and of Gauss-Newton steps.
    min_coverage, retries : float, int
        Fraction of the held-out rows of a class that must be near a generated point, and the number of times that
        classes below it are trained again before the fit fails.
    device, verbose, random_state
        See :class:`FlowDensity`.

    Attributes
    ----------
    scale_ : float
    noise_ : ndarray (k, d)
        Standard deviation of the noise around each manifold.
    coverage_, penalty_ : ndarray (k,)
        Fraction of covered held-out rows, and selected penalty.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 0.1] + [[0.0, 0.0], [0.0, 2.0]] * 30
    >>> density = GANDensity(hidden=(16,), steps=150, penalty=0.05, random_state=0).fit(X, [0, 1] * 30)
    >>> density.log_prob([[0.0, 0.1], [0.0, 1.9]]).argmax(1)
    array([0, 1])
    """

    norm: str = "l2"
    latent_dim: int | None = None
    charts: int | None = None
    shape: Shape | None = None
    hidden: tuple[int, ...] = (64, 64, 64)
    steps: int = 2000
    batch_size: int = 128
    learning_rate: float = 5e-3
    penalty: float | None = None
    scale: float | str = "typical"
    standardize: bool = False
    encoder: str | None = "regression"
    restarts: int = 4
    inversion_steps: int = 16
    min_coverage: float = 0.5
    retries: int = 1
    device: Any = "auto"
    verbose: int = 0
    random_state: Seed = None

    normalized: ClassVar[bool] = False
    chunk_rows: ClassVar[int] = 512

    def resolved_config(self) -> dict[str, Any]:
        """Return the values behind the parameters that are None: settings to try, and weights of the losses."""
        config = {
            "penalties": [PENALTY, PENALTY / 4, PENALTY * 4] if self.penalty is None else [self.penalty],
            "charts": [1, CHARTS],
            "noise": ["spherical", training.INITIAL_NOISE],
            "critic": training.CRITIC,
            "energy": training.ENERGY,
            "evenness": training.EVENNESS,
            "clearly": training.MAX_STANDARD_ERRORS,
        }
        curves = self.latent_dim == 1 or (self.latent_dim is None and self.shape is None)
        return config | ({"smoothness": training.SMOOTHNESS} if curves else {})

    def project(self, X: Any) -> Any:
        """Return m*_c, the nearest point of each class manifold to each row: (m, k, d), numpy or torch as `X` is."""
        x = self._check_query(X)
        return like(torch.cat([self._project(x[rows]) for rows in chunks(len(x), self.chunk_rows)]), X)

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Return differentiable log p_c (m, k) of points (m, d) with projections (m, k, d) (arXiv Section F.3)."""
        unit = self._unit.to(X)
        return -torch.linalg.vector_norm((X[:, None] - points) / unit, NORMS[self.norm], -1) / self.scale_

    def manifolds(self) -> GANDensity:
        """Return the density, which projects points onto its manifolds."""
        return self

    def sample(self, n: int, class_index: int, rng: Seed = None) -> NDArray[np.float64]:
        """Draw `n` points (n, d) of a class, with the noise around its manifold."""
        generators = self.generators_.select(torch.tensor([class_index]))
        return np.asarray(self.scaler_.inverse(generators.draw(n, as_rng(rng))[0][0]))

    @property
    def noise_(self) -> NDArray[np.float64]:
        """Standard deviation of the noise around each manifold, (k, d)."""
        return (self.generators_.log_noise[:, 0].exp() * self.scaler_.scale).numpy()

    @property
    def _unit(self) -> Tensor:
        """Divisor of the features in a distance, (d,)."""
        return self.scaler_.scale if self.standardize else torch.ones_like(self.scaler_.scale)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters(X.shape[1])
        seeds = as_rng(self.random_state).integers(2**32, size=4)
        scaler = Standardization.fit(X, weight, keep_constant=True)
        if self.shape is not None:  # one scale for all pixels
            mean, scale, _ = Standardization.fit(X.reshape(-1, 1), keep_constant=True)
            scaler = scaler._replace(mean=mean.repeat(X.shape[1]), scale=scale.repeat(X.shape[1]))
        self.scaler_, points = scaler, scaler(X)
        masks = [index == c for c in range(len(self.classes_))]
        classes = [ClassRows.split(points[mask].float(), weight[mask], int(seeds[0])) for mask in masks]
        device, unit = named_device(self.device), scaler.scale / self._unit
        schedule = GANSchedule(self.steps, self.batch_size, self.learning_rate, device, unit)
        selected = self._select(classes, schedule, int(seeds[1]))
        self.coverage_ = np.array([generator.coverage for generator in selected])
        self.penalty_ = np.array([generator.settings.penalty for generator in selected])
        trained, rng = Generators.join([scored.generators for scored in selected]), np.random.default_rng(seeds[2])
        if self.encoder == "regression":
            network, schedule = self._reading_network(0, trained.latents.size), schedule._replace(steps=self.steps // 4)
            trained = training.train_encoder(network, trained, schedule, rng)
        self.generators_ = trained.to(torch.zeros(0, dtype=torch.float64))
        with torch.no_grad():
            self.bank_ = Bank.draw(self.generators_, BANK_POINTS, rng)
        self.scale_ = 1.0 if isinstance(self.scale, str) else float(self.scale)
        if self.scale == "typical":
            held_out = [self.scaler_.inverse(rows.held_out.double()) for rows in classes]
            typical = float(np.mean([-self.log_prob(own)[:, c].mean() for c, own in enumerate(held_out)]))
            self.scale_ = typical if typical > 0 else 1.0

    def _check_parameters(self, d: int) -> None:
        check_choice("norm", self.norm, NORMS)
        if self.encoder is not None:
            check_choice("encoder", self.encoder, ["regression", "bigan"], also="None")
        for name in ("batch_size", "restarts", "steps", "inversion_steps", "retries"):
            check_count(name, getattr(self, name), low=0 if name in ("inversion_steps", "retries") else 1)
        check_positive("learning_rate", self.learning_rate, "5e-3 is the usual choice")
        check_interval("min_coverage", self.min_coverage, 0.0, 1.0, "0 accepts every generator")
        for name in ("latent_dim", "charts"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if isinstance(self.scale, str):
            check_choice("scale", self.scale, ["typical"], also="a number above 0")
        else:
            check_positive("scale", self.scale, "1 is the value of the paper, or choose 'typical'")
        if self.shape is not None and (math.prod(self.shape) != d or self.shape[1] % 4 or self.shape[2] % 4):
            raise ValueError(
                f"shape={self.shape!r} must be (c, h, w) with c h w = {d} features, h and w multiples of 4; pad images"
            )

    def _reading_network(self, extra_inputs: int, n_out: int) -> ConvNetwork | Perceptron:
        """Return a network whose inputs are points and `extra_inputs` more numbers: a critic or an encoder."""
        if self.shape is not None:
            return ConvNetwork(self.shape, extra_inputs, CHANNELS, n_out)
        return Perceptron((self.n_features_in_ + extra_inputs, *self.hidden, n_out))

    def _select(self, classes: list[ClassRows], schedule: GANSchedule, seed: int) -> list[ScoredGenerator]:
        """Return the best of several generators of each class; those below `min_coverage` are trained again."""
        default_charts = [1, CHARTS] if self.shape is None else [1]
        charts = default_charts if self.charts is None else [self.charts]
        dim = min((self.n_features_in_ + 1) // 2, MAX_LATENT) if self.latent_dim is None else self.latent_dim
        latents = Latents(dim, charts[-1])
        # The generator is fully connected for images too: the Jacobian of convolutions is slow on a CPU.
        generator = Perceptron((latents.size, *self.hidden, self.n_features_in_))
        encoder = self._reading_network(0, latents.size) if self.encoder == "bigan" else None
        critic = self._reading_network(0 if encoder is None else latents.size, 1)
        networks = GANNetworks(latents, generator, critic, encoder)
        scored: list[list[ScoredGenerator]] = [[] for _ in classes]
        missing, rng = list(range(len(classes))), np.random.default_rng(seed)
        with training_callback(self.verbose, "GANDensity") as callback:
            for attempt in range(self.retries + 1):
                default_penalties = [PENALTY] if attempt == 0 else [PENALTY / 4, PENALTY * 4]
                penalties = default_penalties if self.penalty is None else [self.penalty]
                settings = [GANSettings(penalty, number) for penalty in penalties for number in charts]
                rows = [classes[c] for c in missing]
                result = training.train_and_score(networks, rows, settings, schedule, rng, callback)
                for c, generators in zip(missing, result, strict=True):
                    scored[c] += generators
                best = [training.select_generator(generators, self.min_coverage) for generators in scored]
                missing = [c for c in missing if best[c].coverage < self.min_coverage and not classes[c].is_small]
                if not missing:
                    break
        names = self.classes_.tolist()
        more_charts = f"or with more charts ({latents.charts}) if the class has many pieces"
        if missing:
            c, times = missing[0], count_of(self.retries + 1, "training")
            raise CollapsedGeneratorError(
                f"the generator of class {names[c]!r} has collapsed: it covers {best[c].coverage:.0%} of the held-out "
                f"rows, less than min_coverage={self.min_coverage:g}, after {times}; train longer "
                f"(steps={self.steps}), with another random_state or penalty, {more_charts}"
            )
        for name, part, selected in zip(names, classes, best, strict=True):
            if part.is_small:
                n_rows = count_of(len(part.train), "row")
                message = f"class {name!r} has {n_rows}, too few to hold any out; give at least "
                message += f"{training.MIN_ROWS_TO_SPLIT}, or use GaussianDensity"
                warn(("GANDensity", name), message, DensityWarning)
            elif selected.precision < self.min_coverage:
                message = f"the manifold of class {name!r} is blurred: only {selected.precision:.0%} of the generated "
                message += f"points are near rows of the class; train longer (steps={self.steps}), {more_charts}"
                warn(("GANDensity blurred", name), message, DensityWarning)
        return best

    @torch.no_grad()
    def _project(self, X: Tensor) -> Tensor:
        """Return m*_c (m, k, d), in the dtype of `X`."""
        x = self.scaler_(X.detach().double()).to(named_device(self.device))
        unit = (self.scaler_.scale / self._unit).to(x)
        bank = Bank(*(part.to(x) for part in self.bank_))
        inverter = Inverter(self.generators_.to(x), bank, self.norm, self.restarts, self.inversion_steps, unit)
        points = inverter(x).transpose(0, 1)
        return self.scaler_.inverse(points.flatten(0, 1).to(X.device)).reshape(points.shape).to(X)

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.log_prob_near(X, self._project(X))

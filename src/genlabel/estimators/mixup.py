"""Mixup, manifold mixup and plain training: the baselines of GenLabel, with the same search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast, final

import numpy as np

from genlabel._validation import check_choice
from genlabel.estimators.base import CLEAN_FRACTIONS, NetworkClassifier, resolve_mixers, with_networks
from genlabel.labeling import Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import ManifoldMixup, Mixer, Mixup
from genlabel.model_selection.options import GridSearch, TrainerConfig, TrainingOptions
from genlabel.model_selection.search_space import MixingConfig, SearchSpace, mixing_configs, parameter_grid
from genlabel.training import Hyperparameters


@final
class MixupClassifier(NetworkClassifier):
    """A network trained on mixed samples with any mixer and labeler; plain training is `mixer=None`.

    Parameters
    ----------
    network : "mlp", "logistic", "auto" or sequence of int
        Two hidden ReLU layers of 128, softmax regression, or the given hidden layers; "auto" lets the search choose
        between the first two (where hidden layers are mixed, it is the first).
    mixer : "mixup", "manifold", None, Mixer or sequence of Mixer
        "mixup" is `Mixup(alpha=0.3)`, one lam for each sample; "manifold" mixes the input or one of the first two
        hidden layers, drawn for each batch (Verma et al., 2019); None is plain training. The search chooses among
        several.
    labeler : "linear", "logistic", Labeler or sequence of them
        Mixup's labels, the logistic ones of arXiv Section 3.2, or any other, fitted to the training set; the search
        chooses among several.
    exclude_intrusion : bool
        Leave out mixed samples whose nearest training sample is of a third class (arXiv Section 3.1).
    clean_fraction : "auto", float in [0, 1] or sequence of float
        Share of the samples of a batch that are not mixed; 0 mixes all (the paper's), "auto" chooses between 0.75 and
        1.
    calibrate : bool
        Whether the network is pooled with the class priors, with weights from held-out rows.
    class_weight, search, training, random_state
        See :class:`GenLabelClassifier`; every method has the same search by default.

    Attributes
    ----------
    classes_, class_count_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
    pool_weights_, venn_abers_
        See :class:`GenLabelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> plain = MixupClassifier(mixer=None, random_state=0).fit(X, y)
    >>> sorted(plain.best_params_)
    ['learning_rate', 'weight_decay']
    """

    def __init__(
        self,
        network: Any = "mlp",
        mixer: Any = "mixup",
        labeler: Any = "linear",
        exclude_intrusion: bool = False,
        *,
        clean_fraction: Any = "auto",
        calibrate: bool = True,
        class_weight: Any = None,
        search: Any = "halving",
        training: TrainingOptions | None = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.mixer = mixer
        self.labeler = labeler
        self.exclude_intrusion = exclude_intrusion
        self.clean_fraction = clean_fraction
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.search = search
        self.training = training
        self.random_state = random_state

    @classmethod
    def from_paper(cls, network: Any = "logistic", mixer: Any = "mixup", **params: Any) -> Self:
        """Return the classifier in the paper's own setting (arXiv Table 11 and Section E.2).

        Every sample is mixed, lam ~ Beta(1, 1) once a batch; the learning rate is chosen by held-out accuracy over 6
        folds; weight decay is 1e-4; one network predicts, trained for 100 epochs on all rows.

        Parameters
        ----------
        network : "logistic", "mlp" or sequence of int
        mixer : "mixup", "manifold", None or Mixer
        **params
            Other parameters in the place of the paper's, as of `set_params`.

        Examples
        --------
        >>> MixupClassifier.from_paper("mlp").mixer
        Mixup(lam_per='batch')
        """
        model = cls(
            network,
            Mixup(lam_per="batch") if isinstance(mixer, str) and mixer == "mixup" else mixer,
            clean_fraction=0.0,
            calibrate=False,
            search=GridSearch(cv=6, scoring="accuracy"),
            training=TrainingOptions(weight_decay=1e-4, epochs=100),
        )
        return cast(Self, model.set_params(**params))

    def _search_space(self, config: TrainerConfig) -> SearchSpace:
        several = isinstance(self.labeler, Sequence) and not isinstance(self.labeler, str)
        if several and not len(self.labeler):
            raise ValueError("labeler is an empty sequence; name at least one, for example 'linear'")
        labelers = [_labeler(each) for each in (self.labeler if several else [self.labeler])]
        mixing = self._mixing(len(config.hidden), labelers)
        space = self._single_label_space(config, mixing, labelers[0], self.exclude_intrusion)
        if len(labelers) > 1:
            pairs = [(params, index) for params in space.params for index in range(len(labelers))]
            basis = [tuple(row) for row in np.eye(len(labelers))]
            space = replace(
                space,
                labelers=labelers,
                candidates=[Hyperparameters(**params, label=basis[index]) for params, index in pairs],
                params=[{**params, "labeler": self.labeler[index]} for params, index in pairs],
                label_params=frozenset({"labeler"}),
            )
        return replace(space, calibrate=bool(self.calibrate))

    def _mixing(self, depth: int, labelers: Sequence[Labeler]) -> list[MixingConfig]:
        """Return the ways of mixing, for a network with some hidden layers."""
        if self.mixer is None:
            self._check_unused()
            return with_networks(self.network, [MixingConfig(None)])
        if isinstance(self.mixer, str) and self.mixer == "manifold" and depth == 0:
            raise ValueError(
                f"mixer='manifold' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        known: dict[str, Mixer] = {
            "mixup": Mixup(0.3),
            "manifold": ManifoldMixup(depths=tuple(range(min(depth, 2) + 1))),
        }
        mixers = resolve_mixers(self.mixer, known)
        deepest = max(mixer.max_depth for mixer in mixers)
        if deepest > depth:
            raise ValueError(
                f"mixer={self.mixer!r} mixes at depth {deepest}, but network={self.network!r} has {depth} hidden "
                "layers; name depths within them"
            )
        if deepest and (self.exclude_intrusion or any(labeler.needs_inputs for labeler in labelers)):
            what = "exclude_intrusion=True" if self.exclude_intrusion else f"labeler={self.labeler!r}"
            raise ValueError(f"{what} needs mixed inputs, but mixer={self.mixer!r} mixes hidden layers")
        fractions = parameter_grid("clean_fraction", self.clean_fraction, CLEAN_FRACTIONS, 0.0, 1.0)
        mixing = mixing_configs(mixers, fractions)
        return mixing if deepest else with_networks(self.network, mixing)

    def _check_unused(self) -> None:
        """Raise if a parameter that has no effect without mixing is set."""
        unused = {
            "exclude_intrusion": self.exclude_intrusion is False,
            "labeler": isinstance(self.labeler, str) and self.labeler == "linear",
            # by default, and in the paper's setting
            "clean_fraction": np.ndim(self.clean_fraction) == 0 and self.clean_fraction in ("auto", 0.0),
        }
        for name, is_default in unused.items():
            if not is_default:
                raise ValueError(f"{name}={getattr(self, name)!r} has no effect with mixer=None; use mixer='mixup'")


def _labeler(labeler: Any) -> Labeler:
    if isinstance(labeler, Labeler):
        return labeler
    known: dict[str, Labeler] = {"linear": LinearLabel(), "logistic": LogisticLabel()}
    check_choice("labeler", labeler, known, also="a Labeler such as LogisticLabel(sigma=0.3)")
    return known[labeler]

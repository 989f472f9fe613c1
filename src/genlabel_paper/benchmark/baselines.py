"""The peers of the suite: classifiers of other packages, each as it comes, on one thread of the CPU, or on a GPU.

Only threads, device and output are set, and the seed. Two that stop by accuracy are there once more, told to stop by
log-loss, which is what the suite counts. Every peer is given what every other method is given: the numbers of
`genlabel.data.datasets.table_pipeline`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from importlib.util import find_spec
from inspect import signature
from typing import Any, final

from genlabel._validation import check_choice


@final
@dataclass(frozen=True)
class Baseline:
    """A classifier of another package, imported when it is first needed.

    >>> forest = Baseline("random forest", "sklearn.ensemble.RandomForestClassifier", "scikit-learn", {"n_jobs": 1})
    >>> forest.make(random_state=0), forest.why_not()
    (RandomForestClassifier(n_jobs=1, random_state=0), None)
    """

    title: str
    source: str
    """Module and name of its class."""
    package: str
    """As `pip` knows it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """One thread, the CPU, no output; the rest is the default of the package."""
    aim: Mapping[str, Any] = field(default_factory=dict)
    """What it is told besides, so that it aims at the log-loss; nothing of a peer that is as it comes."""
    seed: str = "random_state"
    """The parameter that takes the seed."""
    install: str = '"genlabel[peers]"'
    """What `pip install` is told."""
    weights: Callable[[], str | None] | None = None
    """Says why its weights cannot be had here, None if they can; a peer that is trained here has none to look for."""

    def load(self) -> Any:
        """Import the class; what its package warns of while it is imported is for its authors."""
        module, _, name = self.source.rpartition(".")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(import_module(module), name)

    def make(self, random_state: Any = None, device: str = "cpu") -> Any:
        """Make the classifier; without a random state, with the seed that the package has."""
        seed = {} if random_state is None else {self.seed: random_state}
        return self.load()(**self.settings_on(device), **seed)

    def settings_on(self, device: str) -> dict[str, Any]:
        """Return all that it is told, for a device: one that knows none trains where it always does."""
        there = {"device": device} if "device" in self.settings else {}
        return {**self.settings, **there, **self.aim}

    def version(self) -> str:
        """Return the version of the package that is imported, whoever distributes it."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:  # of a distribution with another name, such as xgboost-cpu
            return str(getattr(import_module(self.source.split(".")[0]), "__version__", "unknown"))

    def why_not(self) -> str | None:
        """Say why it cannot run here and what helps; None if it can."""
        if find_spec(self.source.split(".")[0]) is None:
            return f"{self.package} is not installed; install it with pip install {self.install}"
        try:
            return None if self.weights is None else self.weights()
        except ImportError as error:
            return f"{self.package} cannot be imported ({error}); install it with pip install {self.install}"
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            name = type(error).__name__
            return f"{self.package} does not say where its weights are ({name}: {error}); try another version of it"


def _tabicl_weights() -> str | None:
    """Look for the checkpoint that TabICL has as its default, in the cache of Hugging Face."""
    name = signature(BASELINES["tabicl"].load()).parameters["checkpoint_version"].default
    found = import_module("huggingface_hub").try_to_load_from_cache("jingang/TabICL", name)
    if isinstance(found, str):
        return None
    return f"the weights of TabICL are not here; fetch them with hf download jingang/TabICL {name}"


def _tabpfn_weights() -> str | None:
    """Look for the checkpoint that TabPFN has as its default, where it would put it."""
    loading = import_module("tabpfn.model_loading")
    version = loading.resolve_model_version(None).value
    missing = [path for path in loading.resolve_model_path(None, "classifier", version)[0] if not path.is_file()]
    if not missing:
        return None
    return f"the weights of TabPFN are not here; accept their licence and fetch {missing[0].name} as its pages say"


_PYTABKIT = {"device": "cpu", "n_threads": 1, "verbosity": 0}

BASELINES: dict[str, Baseline] = {
    "catboost": Baseline(
        "CatBoost",
        "catboost.CatBoostClassifier",
        "catboost",
        {"thread_count": 1, "verbose": False, "allow_writing_files": False},
        seed="random_seed",
    ),
    "lightgbm": Baseline("LightGBM", "lightgbm.LGBMClassifier", "lightgbm", {"n_jobs": 1, "verbosity": -1}),
    "xgboost": Baseline("XGBoost", "xgboost.XGBClassifier", "xgboost", {"n_jobs": 1, "verbosity": 0, "device": "cpu"}),
    "forest": Baseline("random forest", "sklearn.ensemble.RandomForestClassifier", "scikit-learn", {"n_jobs": 1}),
    "realmlp": Baseline("RealMLP-TD", "pytabkit.RealMLP_TD_Classifier", "pytabkit", _PYTABKIT),
    "tabm": Baseline("TabM-D", "pytabkit.TabM_D_Classifier", "pytabkit", _PYTABKIT),
    "realmlp-log-loss": Baseline(
        "RealMLP-TD, its epoch chosen by log-loss, labels not smoothed",
        "pytabkit.RealMLP_TD_Classifier",
        "pytabkit",
        _PYTABKIT,
        aim={"val_metric_name": "cross_entropy", "use_ls": False},
    ),
    "tabm-log-loss": Baseline(
        "TabM-D, stopped by log-loss",
        "pytabkit.TabM_D_Classifier",
        "pytabkit",
        _PYTABKIT,
        aim={"val_metric_name": "cross_entropy"},
    ),
    "tabicl": Baseline(
        "TabICL",
        "tabicl.TabICLClassifier",
        "tabicl",
        {"device": "cpu", "n_jobs": 1, "allow_auto_download": False},
        install="tabicl",
        weights=_tabicl_weights,
    ),
    "tabpfn": Baseline(
        "TabPFN", "tabpfn.TabPFNClassifier", "tabpfn", {"device": "cpu"}, install="tabpfn", weights=_tabpfn_weights
    ),
}
"""The peers by name. HistGradientBoosting is among the methods of the suite, as "boosting"."""


def why_not(name: str) -> str | None:
    """Say why a peer cannot run here and what helps; None if it can.

    >>> why_not("forest") is None
    True
    """
    check_choice("peer", name, BASELINES)
    return BASELINES[name].why_not()

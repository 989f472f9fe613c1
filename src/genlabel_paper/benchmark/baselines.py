"""Classifiers of other packages for the benchmark: with their defaults, on one CPU thread or on a GPU.

Only threads, device, output and seed are set. Two networks that choose their epoch by accuracy exist a second time with
the log-loss as criterion, which is the main score of the benchmark. All methods get the same features: those of
`genlabel.data.tables.table_pipeline`.
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
    """A classifier of another package, imported on first use.

    >>> forest = Baseline("random forest", "sklearn.ensemble.RandomForestClassifier", "scikit-learn", {"n_jobs": 1})
    >>> forest.make(random_state=0), forest.why_unavailable()
    (RandomForestClassifier(n_jobs=1, random_state=0), None)
    """

    title: str
    source: str
    """Module and name of the class."""
    package: str
    """Distribution name, for `pip install`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Parameters for one thread, the CPU and no output; all others are the package's defaults."""
    scoring: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that select by log-loss; empty for a baseline with its defaults."""
    seed: str = "random_state"
    """Parameter that takes the seed."""
    install: str = '"genlabel[baselines]"'
    """Argument of `pip install`."""
    missing_weights: Callable[[], str | None] | None = None
    """Function that returns why the pretrained weights are unavailable, or None; None for a model without them."""

    def load(self) -> Any:
        """Import and return the class, without the warnings of its package."""
        module, _, name = self.source.rpartition(".")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(import_module(module), name)

    def make(self, random_state: Any = None, device: str = "cpu") -> Any:
        """Return a new classifier; `random_state=None` leaves the package's default seed."""
        seed = {} if random_state is None else {self.seed: random_state}
        return self.load()(**self.settings_on(device), **seed)

    def settings_on(self, device: str) -> dict[str, Any]:
        """Return the parameters for a device, which is ignored by packages without that parameter."""
        placement = {"device": device} if "device" in self.settings else {}
        return {**self.settings, **placement, **self.scoring}

    def version(self) -> str:
        """Return the version of the package, also under another distribution name such as xgboost-cpu."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return str(getattr(import_module(self.source.split(".")[0]), "__version__", "unknown"))

    def why_unavailable(self) -> str | None:
        """Return why the baseline cannot run here and what helps, or None if it can."""
        if find_spec(self.source.split(".")[0]) is None:
            return f"{self.package} is not installed; install it with pip install {self.install}"
        try:
            return None if self.missing_weights is None else self.missing_weights()
        except ImportError as error:
            return f"{self.package} cannot be imported ({error}); install it with pip install {self.install}"
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            name = type(error).__name__
            return f"{self.package} has no known location of its weights ({name}: {error}); try another version"


def _missing_tabicl_weights() -> str | None:
    """Look for TabICL's default checkpoint in the cache of Hugging Face."""
    name = signature(BASELINES["tabicl"].load()).parameters["checkpoint_version"].default
    path = import_module("huggingface_hub").try_to_load_from_cache("jingang/TabICL", name)
    if isinstance(path, str):
        return None
    return f"the weights of TabICL are missing; download them with hf download jingang/TabICL {name}"


def _missing_tabpfn_weights() -> str | None:
    """Look for TabPFN's default checkpoint in its own cache."""
    loading = import_module("tabpfn.model_loading")
    version = loading.resolve_model_version(None).value
    missing = [path for path in loading.resolve_model_path(None, "classifier", version)[0] if not path.is_file()]
    if not missing:
        return None
    return f"the weights of TabPFN are missing; accept their license and download {missing[0].name} as its docs say"


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
        "RealMLP-TD, epoch selected by log-loss, no label smoothing",
        "pytabkit.RealMLP_TD_Classifier",
        "pytabkit",
        _PYTABKIT,
        scoring={"val_metric_name": "cross_entropy", "use_ls": False},
    ),
    "tabm-log-loss": Baseline(
        "TabM-D, stopped by log-loss",
        "pytabkit.TabM_D_Classifier",
        "pytabkit",
        _PYTABKIT,
        scoring={"val_metric_name": "cross_entropy"},
    ),
    "tabicl": Baseline(
        "TabICL",
        "tabicl.TabICLClassifier",
        "tabicl",
        {"device": "cpu", "n_jobs": 1, "allow_auto_download": False},
        install="tabicl",
        missing_weights=_missing_tabicl_weights,
    ),
    "tabpfn": Baseline(
        "TabPFN",
        "tabpfn.TabPFNClassifier",
        "tabpfn",
        {"device": "cpu"},
        install="tabpfn",
        missing_weights=_missing_tabpfn_weights,
    ),
}
"""Baselines by name. HistGradientBoosting is one of the benchmark's own methods, "boosting"."""


def why_unavailable(name: str) -> str | None:
    """Return why a baseline cannot run here and what helps, or None if it can.

    >>> why_unavailable("forest") is None
    True
    """
    check_choice("baseline", name, BASELINES)
    return BASELINES[name].why_unavailable()

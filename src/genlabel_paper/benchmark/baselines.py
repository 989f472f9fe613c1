"""Classifiers of other packages for the benchmark: with their defaults, tuned or calibrated, on one thread or on a GPU.

With defaults, only threads, device, output and seed are set, and the features are those of
`genlabel.data.tables.table_pipeline`: one-hot categories. Further rows of a package are compared as we are: with native
categories, with a search by log-loss, and with a temperature (`genlabel_paper.benchmark.selection`). Two networks that
choose their epoch by accuracy exist a second time with the log-loss as criterion.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module, metadata
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, Literal, final

from genlabel._validation import check_choice

Columns = Literal["one-hot", "scaled", "native", "imputed"]
HAVE_CATEGORIES = ("native", "imputed")
N_CANDIDATES = 16
"""Settings that a search tries: the package's defaults, and 15 that are drawn from its space."""
N_CALIBRATION_FOLDS = 4


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
    columns: Columns = "one-hot"
    """Features: "one-hot" categories; the same "scaled"; "native", that is pandas categories and missing numbers;
    "imputed", pandas categories and medians for missing numbers."""
    categories: str = ""
    """Parameter that takes the names of the pandas categories; empty if the package finds them."""
    space: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of the parameters that are searched by log-loss; empty for no search."""
    calibrated: bool = False
    """True if the probabilities get a temperature."""

    @property
    def has_defaults(self) -> bool:
        """True if the hyperparameters and probabilities are the package's own; `--baselines` runs these."""
        return not (self.scoring or self.space or self.calibrated)

    def load(self) -> Any:
        """Import and return the class, without the warnings of its package."""
        module, _, name = self.source.rpartition(".")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(import_module(module), name)

    def make(self, random_state: Any = None, device: str = "cpu", category_names: Sequence[str] = ()) -> Any:
        """Return a new classifier; `random_state=None` leaves the package's default seed."""
        seed = {} if random_state is None else {self.seed: random_state}
        categories = {self.categories: tuple(category_names)} if self.categories else {}
        return self.load()(**self.settings_on(device), **seed, **categories)

    def settings_on(self, device: str) -> dict[str, Any]:
        """Return the parameters for a device, which is ignored by packages without that parameter."""
        placement = {"device": device} if "device" in self.settings else {}
        return {**self.settings, **placement, **self.scoring}

    def resolved_config(self, device: str) -> dict[str, Any]:
        """Return the class and the settings, for fingerprints; choices beyond the package's own only where made."""
        config: dict[str, Any] = {"source": self.source, "settings": self.settings_on(device), "seed": self.seed}
        if self.columns != "one-hot":
            config |= {"columns": self.columns}
        if self.space:
            config |= {"space": {name: list(values) for name, values in self.space.items()}, "candidates": N_CANDIDATES}
        if self.calibrated:
            config |= {"calibration folds": N_CALIBRATION_FOLDS}
        return config

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


TABPFN_V1_WEIGHTS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "genlabel", "tabpfn-v1.safetensors")
"""Weights of TabPFN v1, as `python -m genlabel_paper.benchmark.tabpfn_v1` writes them."""


def _missing_tabpfn_v1_weights() -> str | None:
    """Look for the converted checkpoint of TabPFN v1."""
    if TABPFN_V1_WEIGHTS.is_file():
        return None
    return (
        "the weights of TabPFN v1 are missing; get pfns-0.3.0.tar.gz with pip download --no-deps --no-binary :all: "
        "pfns==0.3.0, and convert it with python -m genlabel_paper.benchmark.tabpfn_v1 pfns-0.3.0.tar.gz"
    )


def _missing_xrfm() -> None:
    """Import the package behind pytabkit's class; it has no weights."""
    import_module("xrfm")


_PYTABKIT = {"device": "cpu", "n_threads": 1, "verbosity": 0}
_LEARNING_RATES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3)
_SHARES = (0.5, 0.7, 1.0)

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
    "tabpfn-v1": Baseline(
        "TabPFN v1 (2022), 32 ensemble members",
        "genlabel_paper.benchmark.tabpfn_v1.TabPFNv1Classifier",
        "torch",
        {"device": "cpu"},
        missing_weights=_missing_tabpfn_v1_weights,
    ),
    "ebm": Baseline(
        "explainable boosting machine",
        "interpret.glassbox.ExplainableBoostingClassifier",
        "interpret-core",
        {"n_jobs": 1},
        columns="native",
    ),
    "perpetual": Baseline(
        "Perpetual",
        "perpetual.PerpetualClassifier",
        "perpetual",
        {"num_threads": 1},
        seed="seed",
        columns="native",
    ),
    "xrfm": Baseline(
        "xRFM-D",
        "pytabkit.XRFM_D_Classifier",
        "pytabkit",
        _PYTABKIT,
        missing_weights=_missing_xrfm,
        columns="imputed",
    ),
    "logistic-tuned": Baseline(
        "logistic regression, tuned by log-loss",
        "sklearn.linear_model.LogisticRegression",
        "scikit-learn",
        {"max_iter": 2000},
        columns="scaled",
        space={"C": tuple(10.0 ** (power / 2) for power in range(-7, 8))},
    ),
    "forest-tuned": Baseline(
        "random forest of 200 trees, tuned by log-loss",
        "sklearn.ensemble.RandomForestClassifier",
        "scikit-learn",
        {"n_jobs": 1, "n_estimators": 200},
        space={
            "criterion": ("gini", "log_loss"),
            "max_features": ("sqrt", 0.3, 0.6, 1.0),
            "min_samples_leaf": (1, 2, 4, 8, 16),
        },
    ),
    "boosting-tuned": Baseline(
        "HistGradientBoosting, native categories, tuned by log-loss",
        "sklearn.ensemble.HistGradientBoostingClassifier",
        "scikit-learn",
        columns="native",
        space={
            "learning_rate": _LEARNING_RATES,
            "max_iter": (50, 100, 200, 400),
            "max_leaf_nodes": (3, 7, 15, 31),
            "min_samples_leaf": (5, 10, 20, 40),
            "l2_regularization": (0.0, 0.1, 1.0, 10.0),
            "max_features": _SHARES,
        },
    ),
}
"""Baselines by name. HistGradientBoosting is one of the benchmark's own methods, "boosting"."""

_SPACES: dict[str, dict[str, Sequence[Any]]] = {
    "catboost": {
        "learning_rate": _LEARNING_RATES,
        "n_estimators": (100, 300, 1000),
        "depth": (2, 3, 4, 6, 8),
        "l2_leaf_reg": (1.0, 3.0, 10.0, 30.0),
        "rsm": _SHARES,
    },
    "lightgbm": {
        "learning_rate": _LEARNING_RATES,
        "n_estimators": (50, 100, 200, 400),
        "num_leaves": (3, 7, 15, 31),
        "min_child_samples": (5, 10, 20, 40),
        "reg_lambda": (0.0, 0.1, 1.0, 10.0),
        "colsample_bytree": _SHARES,
        "min_data_per_group": (5, 20, 100),
    },
    "xgboost": {
        "learning_rate": _LEARNING_RATES,
        "n_estimators": (50, 100, 200, 400),
        "max_depth": (2, 3, 4, 6),
        "min_child_weight": (0.1, 1.0, 5.0, 10.0),
        "reg_lambda": (0.1, 1.0, 10.0, 100.0),
        "subsample": _SHARES,
        "colsample_bytree": _SHARES,
    },
}
_NATIVE: dict[str, dict[str, Any]] = {
    "catboost": {"columns": "native", "categories": "cat_features"},
    "lightgbm": {"columns": "native"},
    "xgboost": {"columns": "native", "settings": {**BASELINES["xgboost"].settings, "enable_categorical": True}},
    "realmlp": {"columns": "imputed"},
    "tabm": {"columns": "imputed"},
}
for _name, _changes in _NATIVE.items():
    _title = f"{BASELINES[_name].title}, native categories"
    _baseline = replace(BASELINES[_name], title=_title, **_changes)
    if _name in _SPACES:
        BASELINES[f"{_name}-native"] = _baseline
        _tuned = replace(_baseline, title=f"{_title}, tuned by log-loss", space=_SPACES[_name])
        BASELINES[f"{_name}-tuned"] = _tuned
    _scaled = replace(_baseline, title=f"{_title}, a temperature by 4 folds", calibrated=True)
    BASELINES[f"{_name}-calibrated"] = _scaled


def why_unavailable(name: str) -> str | None:
    """Return why a baseline cannot run here and what helps, or None if it can.

    >>> why_unavailable("forest") is None
    True
    """
    check_choice("baseline", name, BASELINES)
    return BASELINES[name].why_unavailable()

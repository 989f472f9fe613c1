"""Upgrade of files of format version 1 (genlabel 0.2.0) to today's names of classes, parameters and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlabel.mixing import ManifoldMixup, Mixup
from genlabel.model_selection.options import GridSearch, HalvingSearch, TrainingOptions

CLASS_NAMES = {
    "Axes": "PrincipalAxes", "Columns": "FrameEncoder", "ConvReader": "ConvNetwork",
    "Directions": "RandomProjection", "Held": "ConformalScores", "Judge": "TypicalityModel",
    "KnownDensity": "FixedDensity", "LabelModel": "StackedDensity", "Numbers": "NumericEncoder",
    "Pooling": "PoolWeights", "SharedLabel": "WeightedLabel",
    "StackDensity": "WeightedDensities", "Standardisation": "Standardization", "Support": "Typicality",
    "ThinGaussians": "LowRankGaussians", "Warp": "PowerTransform", "WarpedDensity": "PowerTransformedDensity",
}  # fmt: skip
"""Today's names of classes by those of version 1."""
COMMON_NAMES = {
    "centre": "center", "centres": "centers", "common_": "common_values_", "held_": "folds_", "judge": "model",
    "log_share_": "log_weight_", "n_beside": "extra_inputs", "places_": "class_inputs_",
    "reader_weights": "encoder_weights", "standardisation_": "scaler_", "warp": "transform", "warp_": "transform_",
}  # fmt: skip
"""Today's names of parameters and attributes by those of version 1 that are the same in every class."""
STATE_NAMES: dict[str, dict[str, str]] = {
    "Ensemble": {"doubt": "prior_weight"},
    "FlowDensity": {"held_out": "validation_fraction"},
    "ForestDensity": {"min_leaf": "min_samples_leaf", "trees": "n_estimators"},
    "GenLabel": {"top": "top_k"},
    "Generators": {"reader": "encoder"},
    "Judge": {"closed": "discrete", "directions": "projection", "high": "maximum", "low": "minimum"},
    "ManifoldMixup": {"per": "lam_per"},
    "MixtureDensity": {"components": "n_components"},
    "Mixup": {"per": "lam_per"},
    "Pooling": {"doubt": "prior", "label_model": "density"},
    "Standardisation": {"keep": "mask"},
    "Support": {"folds": "cv"},
    "Trees": {
        "first": "first_entry", "more": "entry_excess", "rest": "base_ratio", "which": "entry_class",
        "widest": "max_entries",
    },
    "VAEDensity": {"held_out": "validation_fraction", "latent": "latent_dim"},
}  # fmt: skip
"""Today's names of further parameters and attributes, by class of version 1."""
CLASSIFIER_NAMES = {
    "average": "pool_with_density", "calibration_": "venn_abers_", "clean_weight": "clean_fraction",
    "label_model_": "density_", "pooling_": "pool_weights_", "support_": "typicality_",
}  # fmt: skip
SEARCH_NAMES = {
    "cv": "cv", "keep": "restore_best", "members": "ensemble", "select": "scoring", "time_limit": "time_limit",
    "verbose": "verbose",
}  # fmt: skip
TRAINING_NAMES = ("learning_rate", "weight_decay", "epochs", "batch_size", "optimizer", "standardize", "device")
RESULT_NAMES = {"average": "pool_weights", "clean_weight": "clean_fraction"}
READ_SPEC_NAMES = {"cuts": "bin_edges", "gaps": "features_with_missing"}
COLUMN_NAMES = {"way": "format", "why": "reason"}
ABOUT_NAMES = {"guess": "prior_baseline", "knows_support": "has_typicality"}


def upgrade_state(name: str, state: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return today's class name and state for those of an object of version 1.

    >>> upgrade_state("Warp", {"power": 1.0, "centre": 0.0, "scale": 2.0})
    ('PowerTransform', {'power': 1.0, 'center': 0.0, 'scale': 2.0})
    """
    state = _rename(state, COMMON_NAMES | STATE_NAMES.get(name, {}))
    if name.endswith("Classifier"):
        state = _rename(state, CLASSIFIER_NAMES)
        if state.get("density") == "label-model":
            state["density"] = "stacked"
        if name != "GenerativeClassifier":
            _upgrade_network_classifier(name, state)
    return CLASS_NAMES.get(name, name), state


def upgrade_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a model card with today's names."""
    return _rename(about, ABOUT_NAMES) | {"chosen": _rename(about["chosen"], RESULT_NAMES)}


def upgrade_extra(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values saved with a model; the read specification of its table, "plan", gets today's names."""
    result = dict(extra)
    if isinstance(plan := result.pop("plan", None), dict):
        columns = [_rename(column, COLUMN_NAMES) for column in plan["columns"]]
        result["read_spec"] = _rename(plan, READ_SPEC_NAMES) | {"columns": columns}
    return result


def _rename(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def _upgrade_network_classifier(name: str, state: dict[str, Any]) -> None:
    """Group the parameters of the search and of the training, and rename the chosen ones, in place."""
    state.pop("average_", None)
    alpha, per = state.pop("alpha", None), state.pop("per", None)
    if name == "GenLabelClassifier":
        alphas = (0.3, 1.0) if alpha == "cv" else alpha if isinstance(alpha, list | tuple) else (alpha,)
        mixers = [Mixup(0.3 if value is None else value, lam_per=per or "sample") for value in alphas]
        state["mixer"] = mixers[0] if len(mixers) == 1 else mixers
    elif isinstance(state.get("mixer"), str) and (alpha is not None or per is not None):
        mixer: Any = {"mixup": Mixup, "manifold": ManifoldMixup}[state["mixer"]]
        parameters = {"alpha": alpha, "lam_per": per}
        state["mixer"] = mixer(**{key: value for key, value in parameters.items() if value is not None})
    for key in ("gamma", "clean_fraction", "learning_rate", "weight_decay"):
        if isinstance(state.get(key), str) and state[key] == "cv":
            state[key] = "auto"
    search = {new: state.pop(old) for old, new in SEARCH_NAMES.items() if old in state}
    if search.get("ensemble") == "folds":
        search["ensemble"] = "cv"
    restore_best = search.pop("restore_best", "last") == "best"
    if name == "AdaMixupClassifier" or state.get("search") == "full":
        state["search"] = GridSearch(**search, restore_best=restore_best)
    else:
        state["search"] = HalvingSearch(**search)
    state["training"] = TrainingOptions(**{key: state.pop(key) for key in TRAINING_NAMES if key in state})
    if "best_params_" in state:
        state["best_params_"] = _rename(state["best_params_"], RESULT_NAMES)
    if "cv_results_" in state:
        results = _rename(state["cv_results_"], {"param_clean_weight": "param_clean_fraction"})
        if "params" in results:
            results["params"] = [_rename(row, RESULT_NAMES) for row in results["params"]]
        state["cv_results_"] = results

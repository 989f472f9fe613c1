"""Fingerprints: a short hash of the settings that make a record, so that an edited setting is noticed."""

from __future__ import annotations

import json
import pickle  # written for its checksum, never read  # nosec B403
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from inspect import signature
from math import isfinite
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any

import numpy as np

LENGTH = 12
"""Characters of a fingerprint."""
DECLARED_CLASSES: dict[str, str] = {
    # densities
    "DiscriminantDensity": "discriminant pooling shrinkage target reg",
    "FixedDensity": "fixed models",
    "FlowDensity": "flow kind transforms bins hidden epochs batch_size learning_rate "
    "validation_fraction=held_out patience jitter device -verbose random_state",
    "ForestDensity": "forest n_estimators=trees min_samples_leaf=min_leaf max_features max_points random_state",
    "GANDensity": "gan norm latent_dim charts shape hidden steps batch_size learning_rate penalty scale standardize "
    "encoder restarts inversion_steps min_coverage retries device -verbose random_state",
    "GaussianDensity": "gaussian shrinkage reg",
    "KernelDensity": "kernel bandwidth leave_one_out covariance max_points random_state",
    "MixtureDensity": "mixture n_components=components covariance reg max_iter random_state",
    "PowerTransformedDensity": "power-transformed density transform",
    "SphericalGaussian": "spherical-gaussian mean variance",
    "StackedDensity": "stacked candidates cv method cross_fit random_state",
    "VAEDensity": "vae latent_dim=latent hidden noise floor n_samples train_samples epochs batch_size learning_rate "
    "validation_fraction=held_out patience jitter device -verbose random_state",
    # mixing, labels, attacks, optimizers
    "CutMix": "CutMix alpha lam_per pixels",
    "FeatMix": "FeatMix alpha importance",
    "GenLabel": "GenLabel density gamma top_k priors same_class",
    "GenLabelSampler": "GenLabelSampler density gamma alpha n_aug output priors standardize random_state",
    "GenMix": "genmix density n_aug lam eps output standardize prefit random_state",
    "KMixup": "KMixup alpha lam_per k",
    "LocalMixup": "LocalMixup alpha lam_per decay",
    "ManifoldMixup": "manifold-mixup alpha depths lam_per",
    "Mixup": "mixup alpha lam_per pairs",
    "RandomChoice": "RandomChoice mixers p",
    "RegMixup": "RegMixup alpha lam_per eta",
    "SameClassMixup": "SameClassMixup alpha lam_per",
    "SimilarityMixup": "SimilarityMixup tau_max tau_std",
    "LinearLabel": "linear",
    "LogisticLabel": "logistic sigma",
    "AutoAttack": "AutoAttack eps norm bounds batch_size",
    "Boundary": "Boundary eps norm steps draws bounds",
    "FGSM": "fgsm eps norm bounds targeted",
    "PGD": "PGD eps norm steps step_size restarts random_start bounds targeted",
    "Adam": "adam betas eps milestones decay",
    "SGD": "sgd momentum milestones decay",
    # classifiers
    "GridSearch": "grid cv scoring ensemble restore_best time_limit -verbose",
    "HalvingSearch": "halving cv scoring ensemble time_limit -verbose",
    "TrainingOptions": "training learning_rate weight_decay epochs batch_size optimizer standardize device",
    "AdaMixupClassifier": "adamixup-classifier network policy_hidden intrusion_weight alternating class_weight search "
    "training random_state",
    "GenLabelClassifier": "genlabel-classifier network density gamma mixer clean_fraction space priors "
    "pool_with_density class_weight search training random_state",
    "GenerativeClassifier": "generative-classifier density priors class_weight standardize",
    "MixupClassifier": "mixup-classifier network mixer labeler exclude_intrusion clean_fraction calibrate class_weight "
    "search training random_state",
    "BaselineClassifier": "baseline-classifier baseline random_state device?",
}
"""Names and keys in fingerprints: renaming a class, a parameter or a module changes a line here, but no record.

Each class of ours that is registered, or whose settings are in committed records, has one line: its name in
fingerprints, then its parameters. `parameter=key` gives a renamed parameter its old key. `-parameter` changes no
numbers and is not hashed. `parameter?` was added after records had been made: it is hashed only where its value is not
the default, so that older records stay current.
"""


def fingerprint(**settings: Any) -> str:
    """Return a short hash of settings: equal wherever `describe` returns the same.

    The hash does not cover the code, the data, and the versions of libraries, which are saved in the records.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fingerprint(model=LogisticRegression(C=2.0), test_size=0.3)
    '91837f8049f8'
    >>> fingerprint(test_size=np.float64(0.3), model=LogisticRegression(C=2)) == _
    True
    """
    text = json.dumps(describe(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:LENGTH]


def describe(value: Any) -> Any:
    """Return settings as plain dicts, lists, strings and numbers.

    Equal numbers have equal descriptions, whatever their type. Our classes have their declared names, and their
    parameters the declared keys (`DECLARED_CLASSES`), so that a rename changes no fingerprint. An estimator with
    `resolved_config` adds the values that its words stand for, so that a new meaning of a word is a new setting. Of
    scikit-learn's estimators only parameters that differ from the defaults are included, since others come and go with
    its versions. Any other estimator or dataclass has its class name and all parameters; any other value has a checksum
    of its pickle.

    >>> from sklearn.linear_model import LogisticRegression
    >>> describe({"model": LogisticRegression(C=2.0), "sizes": (np.int64(4), 0.5)})
    {'model': {'class': 'LogisticRegression', 'C': 2}, 'sizes': [4, 0.5]}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return describe(value.tolist())
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        if not isfinite(number):
            return str(number)
        return int(number) if number.is_integer() else number
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Enum):
        return [type(value).__qualname__, value.name]
    if isinstance(value, Mapping):
        return {str(name): describe(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [describe(part) for part in value]
    if isinstance(value, Set):
        return sorted((describe(part) for part in value), key=json.dumps)
    if isinstance(value, partial):
        return {"partial": describe(value.func), "args": describe(value.args), "keywords": describe(value.keywords)}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(getattr(value, "fingerprint_name", value.__qualname__))
    return _describe_object(value)


def _describe_object(value: Any) -> dict[str, Any]:
    """Describe an estimator or a dataclass by its parameters, any other object by a checksum."""
    cls, name = type(value), type(value).__qualname__
    package = cls.__module__.split(".")[0]
    if hasattr(value, "get_params"):
        parameters = dict(value.get_params(deep=False))
        if package == "sklearn":
            parameters = {key: part for key, part in parameters.items() if _differs_from_default(cls, key, part)}
    elif is_dataclass(value):
        parameters = {part.name: getattr(value, part.name) for part in fields(value)}
    else:
        try:
            parameters = {"pickle": sha256(pickle.dumps(value, protocol=4)).hexdigest()}
        except Exception as error:
            hint = "use numbers, strings, lists, dataclasses or estimators"
            raise ValueError(f"a setting of type {name} cannot have a fingerprint ({error}); {hint}") from error
    if package.startswith("genlabel") and name in DECLARED_CLASSES:
        name, parameters = _under_declared_keys(cls, parameters)
    result = {"class": name} | {key: describe(part) for key, part in parameters.items()}
    if hasattr(value, "resolved_config"):
        try:
            result["resolved"] = describe(value.resolved_config())
        except (TypeError, ValueError):  # invalid parameters, which the fit reports
            result["resolved"] = None
    return result


def _under_declared_keys(cls: type[Any], parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the declared name of a class, and the values of its hashed parameters by key."""
    declared_name, *declarations = DECLARED_CLASSES[cls.__qualname__].split()
    by_parameter = {text.partition("=")[0].rstrip("?"): text for text in declarations}
    result = {}
    for name, value in parameters.items():
        if name in by_parameter:
            parameter, _, key = by_parameter[name].partition("=")
            if not parameter.endswith("?") or _differs_from_default(cls, name, value):
                result[key or name] = value
        elif f"-{name}" not in by_parameter:
            raise ValueError(
                f"{cls.__qualname__} has the parameter {name!r} without a fingerprint key; declare it in "
                "genlabel/evaluation/records/fingerprints.py"
            )
    return declared_name, result


def _differs_from_default(cls: type[Any], name: str, value: Any) -> bool:
    """Return whether a parameter is not the default of its class; one without a default differs from it."""
    default = signature(cls).parameters[name].default
    return default is signature(cls).empty or describe(value) != describe(default)

"""An object of a known class as a dictionary of its state, and the object again from that dictionary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any, cast

import torch
from sklearn.compose import ColumnTransformer
from torch import nn

from genlabel.persistence.allowed_classes import ALL_PARAMETERS, KNOWN, class_named, name_of_class
from genlabel.persistence.preprocessing import plain_preparation, prepare_again
from genlabel.training.networks import MLP, Ensemble

VERSION = "_sklearn_version"
"""What scikit-learn adds to the state of its own estimators."""
ATTRIBUTE = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")


def state_of(value: Any) -> dict[str, Any]:
    """Return all that an object of a known class needs to be built again, by name.

    >>> state_of(MLP(2, 3, seed=0))["sizes"]
    [2, 3]
    """
    if isinstance(value, MLP):
        return _state_of_mlp(value)
    if isinstance(value, Ensemble):
        names = ("weight", "log_prior", "doubt")
        return {"networks": list(value.networks), **{name: getattr(value, name) for name in names}}
    if isinstance(value, ColumnTransformer):
        return plain_preparation(value)
    if isinstance(value, tuple):
        return dict(cast(Any, value)._asdict())
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    without = (VERSION, *KNOWN[cast(str, name_of_class(type(value)))].without)
    return {name: item for name, item in value.__getstate__().items() if name not in without}


def optional_names(name: str, value: Any) -> set[str]:
    """What of the state of an object may be left out if it cannot be written."""
    optional = set(KNOWN[name].optional)
    return optional | set(value.get_params(deep=False)) if ALL_PARAMETERS in optional else optional


def rebuild(name: str, state: Mapping[str, Any]) -> Any:
    """Return the object of the class of that name with that state, or raise.

    >>> from genlabel._standardization import Standardization
    >>> rebuild("Standardization", {"mean": 0.0, "scale": 1.0, "keep": True})
    Standardization(mean=0.0, scale=1.0, keep=True)
    >>> rebuild("Standardization", {"mean": 0.0})
    Traceback (most recent call last):
    ValueError: its Standardization has mean, but here one has mean, scale, keep
    """
    kind = class_named(name)
    if kind is MLP:
        return _mlp(**state)
    if kind is Ensemble:
        return Ensemble(**state)
    if kind is ColumnTransformer:
        return prepare_again(state)
    if issubclass(kind, tuple) or is_dataclass(kind):
        return _record(kind, name, state)
    return _estimator(kind, name, state)


def _state_of_mlp(network: MLP) -> dict[str, Any]:
    weights = [cast(nn.Linear, layer).weight for layer in network.layers]
    sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
    return {"sizes": sizes, "weights": [value.detach() for value in network.parameters()]}


def _mlp(sizes: list[int], weights: list[torch.Tensor]) -> MLP:
    shapes = [shape for n_in, n_out in pairwise(sizes) for shape in ((n_out, n_in), (n_out,))]
    if not weights or [tuple(weight.shape) for weight in weights] != shapes:
        raise ValueError(f"its network has layers of sizes {sizes}, but weights of other shapes")
    network = MLP(sizes[0], sizes[-1], sizes[1:-1], seed=0, dtype=weights[0].dtype)
    network.load_state_dict(dict(zip(network.state_dict(), weights, strict=True)))
    return network


def _record(kind: type[Any], name: str, state: Mapping[str, Any]) -> Any:
    """A named tuple or a dataclass; it must have just the fields that it has here."""
    names = cast(Any, kind)._fields if issubclass(kind, tuple) else tuple(field.name for field in fields(kind))
    if set(state) != set(names):
        raise ValueError(f"its {name} has {', '.join(state)}, but here one has {', '.join(names)}")
    return kind(**state)


def _estimator(kind: type[Any], name: str, state: Mapping[str, Any]) -> Any:
    """An estimator: its parameters, those that are not there at their defaults, and what a fit has set."""
    defaults = {
        parameter.name: parameter.default
        for parameter in signature(kind.__init__).parameters.values()
        if parameter.name != "self" and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    for attribute in set(state) - set(defaults):
        # What a fit sets is no method or property of the class, so that a file cannot put anything in their place.
        if not ATTRIBUTE.fullmatch(attribute) or hasattr(kind, attribute):
            raise ValueError(f"its {name} has {attribute!r}, which is none of what a fit sets here")
    absent = {parameter for parameter in defaults if parameter not in state}
    needed = sorted(parameter for parameter in absent if defaults[parameter] is Parameter.empty)
    if needed or any(parameter in state for parameter in KNOWN[name].without):
        raise ValueError(f"its {name} does not have the parameters that one has here")
    found: Any = object.__new__(kind)
    for attribute, value in {**{parameter: defaults[parameter] for parameter in absent}, **state}.items():
        setattr(found, attribute, value)
    return found

"""Fingerprints: equal settings agree for any order and types, edited settings differ, other details do not count."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genlabel
from genlabel import AdaMixupClassifier, GenerativeClassifier, GenLabelClassifier, KernelDensity, Mixup, MixupClassifier
from genlabel.attacks import FGSM
from genlabel.evaluation.records import fingerprint
from genlabel.evaluation.records.fingerprints import DECLARED_CLASSES, describe
from genlabel.evaluation.records.schema import COMPARISON
from genlabel.labeling import LogisticLabel
from genlabel.model_selection.options import HalvingSearch
from genlabel.registry import ATTACKS, DENSITIES, LABELERS, MIXERS, SAMPLERS, Registry
from genlabel.training import SGD
from genlabel_paper.benchmark import BaselineClassifier, default_methods


class Named(BaseEstimator):
    """Estimator outside scikit-learn: all its parameters count."""

    def __init__(self, first: Any = 1, second: Any = "a") -> None:
        self.first, self.second = first, second


@dataclass(frozen=True)
class Plain:
    """A dataclass."""

    sizes: tuple[int, ...] = (4, 5)
    inner: Any = None


class Colour(Enum):
    red = 1
    blue = 2


def rule(candidate: Any) -> bool:
    return True


SETTINGS: list[Any] = [
    None,
    True,
    1,
    0.1,
    float("inf"),
    "text",
    [1, 2],
    {"a": 1},
    {2, 3},
    Colour.red,
    Colour.blue,
    rule,
    partial(rule, 1),
    partial(rule, 2),
    Named,
    Named(),
    Named(2),
    Named(second="b"),
    Named(Named(second="b")),
    Plain(),
    Plain((4, 6)),
    Plain(inner=Plain()),
    SGD(),
    SGD(milestones=()),
    FGSM(0.2),
    FGSM(0.3),
    KernelDensity(),
    GenLabelClassifier(),
    GenLabelClassifier().set_params(training__epochs=101),
    GenLabelClassifier.from_paper(),
    GenerativeClassifier("gaussian"),
    MixupClassifier(),
    MixupClassifier(mixer=None),
    MixupClassifier(mixer=Mixup(2.0)),
    MixupClassifier().set_params(training__optimizer=SGD()),
    AdaMixupClassifier(),
    StratifiedKFold(3),
    StratifiedKFold(4),
    np.random.RandomState(0),
    np.random.RandomState(1),
    LogisticRegression(),
    LogisticRegression(C=2.0),
    HistGradientBoostingClassifier(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), LogisticRegression(C=2.0)),
]


def test_different_settings_have_different_fingerprints() -> None:
    prints = [fingerprint(setting=setting) for setting in SETTINGS]
    assert len(set(prints)) == len(SETTINGS)
    assert all(len(one) == 12 and int(one, 16) >= 0 for one in prints)


@pytest.mark.parametrize(
    "first, second",
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, 2.0), [np.int64(1), 2]),
        (0.1, np.float64(0.1)),
        (np.array([1.0, 0.5]), [1, 0.5]),
        (1e-4, 0.0001),
        (Named(0.5, [3]), Named(second=(3.0,), first=np.float64(0.5))),
        (Plain(), replace(Plain(inner=2), inner=None)),
        ({3, 2}, {2, 3}),
    ],
)
def test_order_and_types_of_numbers_do_not_count(first: Any, second: Any) -> None:
    assert fingerprint(value=first) == fingerprint(value=second)


@given(st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False) | st.integers() | st.text(max_size=3)))
def test_order_of_keys_does_not_count(settings: dict[str, Any]) -> None:
    backwards = dict(reversed(settings.items()))
    assert fingerprint(value=settings) == fingerprint(value=backwards)


@pytest.mark.parametrize("model", [one for one in SETTINGS if isinstance(one, BaseEstimator)], ids=repr)
def test_clone_has_the_fingerprint_and_an_edited_copy_does_not(model: Any) -> None:
    assert fingerprint(model=clone(model)) == fingerprint(model=model)
    for name in model.get_params(deep=False):
        edited = clone(model)
        setattr(edited, name, "edited")
        assert fingerprint(model=edited) != fingerprint(model=model)


def test_scikit_learn_estimators_have_only_changed_parameters() -> None:
    """A version that adds or renames an unused parameter changes no fingerprint."""
    assert describe(LogisticRegression()) == {"class": "LogisticRegression"}
    assert describe(HistGradientBoostingClassifier(max_iter=7)) == {
        "class": "HistGradientBoostingClassifier",
        "max_iter": 7,
    }
    assert describe(Named()) == {"class": "Named", "first": 1, "second": "a"}


@pytest.mark.parametrize("value", [Lock(), {"deep": [Lock()]}, Named(one for one in ())])
def test_indescribable_value_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="fingerprint"):
        fingerprint(value=value)


def test_another_process_has_the_same_fingerprint() -> None:
    """A fingerprint has no memory address and no hash seed."""
    code = "from genlabel.evaluation.records import fingerprint; "
    code += "from genlabel.evaluation.records.schema import COMPARISON; "
    code += "print(fingerprint(study=COMPARISON, kinds={'a', 'b', 'c'}))"
    environment = os.environ | {"PYTHONPATH": str(Path(genlabel.__file__).parents[1]), "PYTHONHASHSEED": "7"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == fingerprint(study=COMPARISON, kinds={"c", "b", "a"})


@pytest.mark.parametrize(
    "target, value, changed",
    [
        ("genlabel.model_selection.options.GridSearch.learning_rates", (0.3, 0.1), {"paper", "paper mixup"}),
        (
            "genlabel.model_selection.options.HalvingSearch.learning_rates",
            (0.3, 0.1),
            {"default", "vanilla", "mixup"},
        ),
        ("genlabel.estimators.base.WEIGHT_DECAYS", (1e-3,), {"default", "vanilla", "mixup"}),
        (
            "genlabel.estimators.base.NETWORKS",
            {"mlp": (64,)},
            {"default", "paper", "vanilla", "mixup", "paper mixup"},
        ),
        ("genlabel.estimators.genlabel.GAMMAS", (0.0, 1.0), {"paper"}),
        ("genlabel.estimators.genlabel.CLEAN_FRACTIONS", (0.5, 1.0), {"default"}),
        ("genlabel.estimators.mixup.CLEAN_FRACTIONS", (0.5, 1.0), {"mixup"}),
        ("genlabel.densities.candidates.BANDWIDTHS", (0.3,), {"default", "stacked density"}),
        ("genlabel.densities.candidates.COMPONENTS", (2, 3), {"default", "stacked density"}),
        ("genlabel.model_selection.options.HALVING_SCHEDULE", ((0.2, 8),), {"default", "vanilla", "mixup"}),
    ],
)
def test_changed_default_changes_the_fingerprint(
    target: str, value: Any, changed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grids of "auto", layers of "mlp", the schedule of a search and candidates of a density are part of it."""
    before = {name: fingerprint(method=method) for name, method in default_methods().items()}
    monkeypatch.setattr(target, value)
    after = {name: fingerprint(method=method) for name, method in default_methods().items()}
    assert {name for name in before if before[name] != after[name]} == changed


@pytest.mark.parametrize(
    "changed",
    [
        {"gamma": (0.0, 1.0)},
        {"training__epochs": 99},
        {"training__learning_rate": (0.1,)},
        {"search__cv": 5},
        {"density": KernelDensity(bandwidth=0.3)},
    ],
    ids=repr,
)
def test_edited_setting_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    paper = GenLabelClassifier.from_paper(density="kernel")
    assert fingerprint(model=clone(paper).set_params(**changed)) != fingerprint(model=paper)


def test_renamed_class_and_parameter_keep_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    class FastSignAttack:
        """FGSM with another class name and another name of its first parameter."""

        def __init__(self, size: float, norm: Any, bounds: Any, targeted: bool) -> None:
            self.size, self.norm, self.bounds, self.targeted = size, norm, bounds, targeted

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return dict(vars(self))

    renamed = FastSignAttack(0.2, FGSM(0.2).norm, FGSM(0.2).bounds, FGSM(0.2).targeted)
    renamed.__class__.__module__, renamed.__class__.__qualname__ = "genlabel.attacks.elsewhere", "FastSignAttack"
    line = DECLARED_CLASSES["FGSM"].split()
    monkeypatch.setitem(DECLARED_CLASSES, "FastSignAttack", " ".join(["fgsm", "size=eps", *line[2:]]))
    assert describe(renamed) == describe(FGSM(0.2))
    assert fingerprint(attack=renamed) == fingerprint(attack=FGSM(0.2))


def test_every_parameter_of_a_declared_class_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECLARED_CLASSES, "LogisticLabel", "logistic")
    with pytest.raises(ValueError, match="sigma"):
        fingerprint(labeler=LogisticLabel(0.5))
    monkeypatch.undo()


@pytest.mark.parametrize(
    "registry", [DENSITIES, MIXERS, LABELERS, SAMPLERS, ATTACKS], ids=lambda registry: registry.kind
)
def test_registered_classes_are_declared(registry: Registry[Any]) -> None:
    for name, cls in registry.classes().items():
        if cls.__module__.startswith("genlabel."):  # documentation examples register others
            part = registry.factories()[name](**({"eps": 0.1} if registry is ATTACKS else {}))
            assert cls.__qualname__ in DECLARED_CLASSES
            assert fingerprint(part=part) == fingerprint(part=part)  # every parameter has a key


def test_added_parameter_counts_only_if_not_default() -> None:
    assert describe(BaselineClassifier("tabm")) == describe(BaselineClassifier("tabm", device="cpu"))
    assert describe(BaselineClassifier("tabm", device="cuda"))["device"] == "cuda"


def test_verbosity_does_not_count() -> None:
    assert fingerprint(search=HalvingSearch(verbose=1)) == fingerprint(search=HalvingSearch())

"""One search for several methods: each variant is what a search of its candidates alone comes to."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine

from genlabel import GenLabelClassifier, Mixup, MixupClassifier
from genlabel.attacks import FGSM
from genlabel.densities import GaussianDensity, KernelDensity

ALPHAS = [Mixup(alpha, "batch") for alpha in (0.5, 2.0)]
SHORT: dict[str, Any] = {"training__epochs": 8, "search__cv": 3, "random_state": 0}


def is_gm(params: dict[str, Any]) -> bool:
    return not isinstance(params.get("density"), KernelDensity)


def is_kde(params: dict[str, Any]) -> bool:
    return not isinstance(params.get("density"), GaussianDensity)


def every(params: dict[str, Any]) -> bool:
    return True


def is_mixup(params: dict[str, Any]) -> bool:
    return bool(params["gamma"] == 0.0)


DEFAULT = GenLabelClassifier("auto", density="gaussian", pool_with_density="cv").set_params(**SHORT)
PAPER = GenLabelClassifier.from_paper(**SHORT)
SEARCHES = {
    "densities": (
        PAPER,
        {
            "gm": (is_gm, GenLabelClassifier.from_paper(density="gaussian", **SHORT)),
            "kde": (is_kde, GenLabelClassifier.from_paper(density="kernel", **SHORT)),
            "cv": (every, PAPER),
            "mixup": (
                is_mixup,
                MixupClassifier.from_paper(**SHORT),
            ),
        },
    ),
    "alphas": (
        clone(PAPER).set_params(mixer=ALPHAS, density=GaussianDensity()),
        {
            "both": (
                every,
                clone(PAPER).set_params(mixer=ALPHAS, density=GaussianDensity()),
            ),
            "two": (
                lambda params: params["mixer"].alpha == 2.0,
                clone(PAPER).set_params(mixer=Mixup(2.0, "batch"), density=GaussianDensity()),
            ),
        },
    ),
    "latent": (
        GenLabelClassifier.from_paper((8,), "gaussian", space="latent", training__learning_rate=0.01, **SHORT),
        {
            "all": (
                every,
                GenLabelClassifier.from_paper((8,), "gaussian", space="latent", training__learning_rate=0.01, **SHORT),
            ),
            "half": (
                lambda params: params["gamma"] >= 0.6,
                GenLabelClassifier.from_paper(
                    (8,), "gaussian", space="latent", training__learning_rate=0.01, gamma=(0.6, 0.8, 1.0), **SHORT
                ),
            ),
        },
    ),
    "labels": (
        MixupClassifier(labeler=["linear", "logistic"], exclude_intrusion=True).set_params(**SHORT),
        {
            name: (
                lambda params, name=name: params.get("labeler", name) == name,  # vanilla has none
                MixupClassifier(labeler=name, exclude_intrusion=True).set_params(**SHORT),
            )
            for name in ("linear", "logistic")
        },
    ),
    "halving": (
        DEFAULT,
        {
            "all": (every, DEFAULT),
            "vanilla": (
                lambda params: params["clean_fraction"] == 1.0,
                clone(DEFAULT).set_params(clean_fraction=1.0),
            ),
            "softmax": (
                lambda params: params.get("network") == "logistic",
                clone(DEFAULT).set_params(network="logistic"),
            ),
            "one": (
                lambda params: (
                    params == {"learning_rate": 0.03, "weight_decay": 1e-3, "clean_fraction": 1.0, "network": "mlp"}
                ),
                clone(DEFAULT).set_params(
                    training__learning_rate=0.03, training__weight_decay=1e-3, clean_fraction=1.0, network="mlp"
                ),
            ),
        },
    ),
    "halving, members": (
        MixupClassifier((8,)).set_params(search__ensemble=2, **SHORT),
        {
            "all": (every, MixupClassifier((8,)).set_params(search__ensemble=2, **SHORT)),
            "vanilla": (
                lambda params: params["clean_fraction"] == 1.0,
                MixupClassifier((8,), clean_fraction=1.0).set_params(search__ensemble=2, **SHORT),
            ),
            "small steps": (
                lambda params: params["learning_rate"] < 0.05,
                MixupClassifier((8,)).set_params(
                    training__learning_rate=(0.03, 0.01, 0.003), search__ensemble=2, **SHORT
                ),
            ),
        },
    ),
    "average": (
        GenLabelClassifier(density="gaussian", pool_with_density="cv").set_params(**SHORT),
        {"all": (every, GenLabelClassifier(density="gaussian", pool_with_density="cv").set_params(**SHORT))},
    ),
    "attack": (
        GenLabelClassifier.from_paper(
            density="gaussian", training__learning_rate=0.02, search__scoring=FGSM(0.2), **SHORT
        ),
        {
            "all": (
                every,
                GenLabelClassifier.from_paper(
                    density="gaussian", training__learning_rate=0.02, search__scoring=FGSM(0.2), **SHORT
                ),
            ),
            "mixup": (
                is_mixup,
                GenLabelClassifier.from_paper(
                    density="gaussian", training__learning_rate=0.02, gamma=0.0, search__scoring=FGSM(0.2), **SHORT
                ),
            ),
        },
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_subset_is_the_fit_of_its_candidates(name: str) -> None:
    search, variants = SEARCHES[name]
    X, y = load_wine(return_X_y=True)
    fitted = search.fit_subsets(X, y, {key: allowed for key, (allowed, _) in variants.items()})
    assert not hasattr(search, "network_")
    for key, (_, alone) in variants.items():
        other = clone(alone).fit(X, y)
        assert fitted[key].n_iter_ == other.n_iter_
        own = fitted[key].best_params_
        for parameter, value in other.best_params_.items():
            if parameter in own:
                assert repr(own[parameter]) == repr(value) or own[parameter] == pytest.approx(value, rel=1e-3)
        np.testing.assert_allclose(fitted[key].predict_proba(X), other.predict_proba(X), atol=2e-3)
        if hasattr(other, "best_score_"):
            assert fitted[key].best_score_ == pytest.approx(other.best_score_)
            assert len(fitted[key].cv_results_["params"]) == len(other.cv_results_["params"])


def test_each_subset_is_a_classifier_of_its_own() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    fitted = PAPER.fit_subsets(X, y, {"gm": is_gm, "mixup": is_mixup})
    assert fitted["gm"].network_ is not fitted["mixup"].network_
    assert list(fitted["gm"].feature_names_in_) == list(X.columns)
    assert fitted["mixup"].predict(X).shape == y.shape


def test_a_subset_without_candidates_is_an_error() -> None:
    with pytest.raises(ValueError, match="'none'"):
        PAPER.fit_subsets(*load_iris(return_X_y=True), {"none": lambda params: False})


def test_an_attack_scores_the_network_alone() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="pool_with_density"):
        GenLabelClassifier().set_params(search__scoring=FGSM(0.2), **SHORT).fit(X, y)
    with pytest.raises(ValueError, match="scoring"):
        GenLabelClassifier().set_params(search__scoring="robust", **SHORT).fit(X, y)


def test_selection_under_attack_scores_the_attacked_rows() -> None:
    """A radius beyond all reach leaves no row standing; a tiny one leaves the clean score."""
    X, y = load_iris(return_X_y=True)

    def scores(select: Any) -> Any:
        model = MixupClassifier().set_params(training__weight_decay=1e-4, search__scoring=select, **SHORT).fit(X, y)
        return model.cv_results_["mean_test_score"]

    clean = scores("accuracy")
    np.testing.assert_allclose(scores(FGSM(1e-9)), clean)
    assert (scores(FGSM(0.5)) <= clean).all()
    assert scores(FGSM(0.5)).max() < clean.max()

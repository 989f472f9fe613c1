"""The best epoch in the classifiers, and the paths of a search: against each other and against networks by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

from genlabel import AdaMixupClassifier, GenLabelClassifier, MixupClassifier
from genlabel.attacks import FGSM, robust_accuracy
from genlabel.densities import GaussianDensity
from genlabel.evaluation.records import fingerprint
from genlabel_paper.runs.learning_curves import learning_curves

X, Y = load_wine(return_X_y=True)
TRAIN, TEST = (X[::2], Y[::2]), (X[1::2], Y[1::2])
SHORT = {"training__epochs": 8, "search__cv": 3, "random_state": 0}
MODELS = {
    "mixup": MixupClassifier.from_paper(**SHORT),
    "vanilla network": MixupClassifier.from_paper((6,), None, training__learning_rate=[0.1, 0.01], **SHORT),
    "GenLabel": GenLabelClassifier.from_paper("logistic", GaussianDensity("ledoit-wolf"), **SHORT),
    "under attack": GenLabelClassifier.from_paper(
        "logistic", GaussianDensity("ledoit-wolf"), search__scoring=FGSM(0.2), **SHORT
    ),
    "AdaMixup": AdaMixupClassifier("logistic").set_params(
        training__weight_decay=1e-4, search__scoring="accuracy", **SHORT
    ),
}


def first_best(scores: np.ndarray) -> int:
    return int(np.lexsort((-scores[:, 1], -scores[:, 0].round(12)))[0])


@pytest.mark.parametrize("name", MODELS)
def test_the_last_epoch_of_the_curves_is_a_fit(name: str) -> None:
    model = MODELS[name]
    paths = learning_curves(model, *TRAIN, TEST)
    chosen = first_best(paths.valid[-1].mean(0))
    fitted = clone(model).set_params(search__restore_best=False).fit(*TRAIN)
    for key, value in paths.params[chosen].items():
        assert fitted.best_params_[key] is value or fitted.best_params_[key] == value
    attack = None if isinstance(model.search.scoring, str) else model.search.scoring
    measured = fitted.score(*TEST) if attack is None else robust_accuracy(fitted, *TEST, attack).accuracy
    assert paths.test_of_all[-1, chosen, 0] == pytest.approx(measured)
    assert fitted.best_score_ == pytest.approx(paths.valid[-1, :, chosen, 0].mean())
    assert paths.epochs == ([5, 8] if attack is not None else list(range(1, 9)))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "AdaMixup"])
def test_the_network_of_the_best_epoch_is_on_the_curves(name: str) -> None:
    model = MODELS[name]
    paths = learning_curves(model, *TRAIN, TEST)
    best = np.lexsort((-paths.valid[..., 1], -paths.valid[..., 0].round(12)), axis=0)[0]  # folds, candidates
    at_best = np.take_along_axis(paths.valid, best[None, ..., None], 0)[0]
    chosen = first_best(at_best.mean(0))
    best_model = model.fit(*TRAIN)
    attack = None if isinstance(model.search.scoring, str) else model.search.scoring
    measured = best_model.score(*TEST) if attack is None else robust_accuracy(best_model, *TEST, attack).accuracy
    assert measured == pytest.approx(paths.test_of_fold[best[0, chosen], chosen, 0])
    assert best_model.n_iter_ == paths.epochs[best[0, chosen]]
    assert best_model.best_score_ == pytest.approx(at_best[:, chosen, 0].mean())


def test_an_ensemble_of_best_epochs_is_that_of_the_first_folds() -> None:
    settings = {**SHORT, "training__learning_rate": 0.1, "search__restore_best": True}
    one, three, folds = (MixupClassifier.from_paper(search__ensemble=m, **settings).fit(*TRAIN) for m in (1, 3, "cv"))
    first = three.network_.networks[0]
    assert all(bool((a == b).all()) for a, b in zip(first.parameters(), one.network_.parameters(), strict=True))
    np.testing.assert_array_equal(three.predict_proba(X), folds.predict_proba(X))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MixupClassifier.from_paper(search__restore_best="first"), "restore_best='first'"),
        (MixupClassifier.from_paper(search__restore_best=True, search__ensemble=4, **SHORT), "ensemble=4"),
    ],
)
def test_unavailable_best_epochs_are_an_error(model: MixupClassifier, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model.fit(*TRAIN)


def test_curves_of_a_halving_search_are_an_error() -> None:
    with pytest.raises(ValueError, match="grid"):
        learning_curves(MixupClassifier(), *TRAIN, TEST)


def test_epoch_is_part_of_the_fingerprint() -> None:
    last = MixupClassifier.from_paper(search__restore_best=False)
    assert fingerprint(model=last) != fingerprint(model=MixupClassifier.from_paper())

"""The classifiers take every registered mixer of tables by name, with linear and with generative labels."""

import pytest
from sklearn.datasets import load_iris

from genlabel import CutMix, GenLabelClassifier, GridSearch, MixupClassifier, TrainingOptions
from genlabel.estimators.base import table_mixers
from genlabel.persistence import load_model, save_model

X, y = load_iris(return_X_y=True)
FAST = {"search": GridSearch(cv=2), "training": TrainingOptions(learning_rate=0.03, epochs=30), "random_state": 0}
NAMES = sorted(table_mixers())


@pytest.mark.parametrize("name", NAMES)
def test_mixers_by_name(name: str, tmp_path: object) -> None:
    models = [MixupClassifier(mixer=name, clean_fraction=0.2, **FAST)]
    if name != "manifold":
        models.append(GenLabelClassifier(density="gaussian", mixer=name, gamma=0.5, clean_fraction=0.2, **FAST))
    for model in models:
        assert model.fit(X, y).score(X, y) > 0.85
    save_model(models[0], tmp_path / "model")
    assert (load_model(tmp_path / "model").predict(X) == models[0].predict(X)).all()


def test_mixers_of_images_are_refused() -> None:
    assert {"mixup", "k-mixup", "feat-mix", "regmixup"} <= set(NAMES)
    for mixer in ("cutmix", CutMix()):
        with pytest.raises(ValueError, match=r"mixer|CutMix"):
            MixupClassifier(mixer=mixer, **FAST).fit(X, y)

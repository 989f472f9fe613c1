"""Models of genlabel 0.2.0 (format version 1) load, and predict what they predicted there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genlabel import Mixup, load_model, save_model
from genlabel.model_selection.options import GridSearch, HalvingSearch
from genlabel.persistence import LoadedModel
from genlabel.persistence.legacy import CLASS_NAMES, STATE_NAMES, upgrade_extra, upgrade_state
from genlabel.persistence.objects import class_by_name

FOLDER = Path(__file__).parent / "models-0.2.0"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
NAMES = ["adamixup", "generative", "genlabel-table", "latent", "mixup", "paper"]


def rows_of(name: str) -> Any:
    return pd.read_csv(FOLDER / "rows.csv") if name == "genlabel-table" else np.array(EXPECTED["points"])


def check(model: LoadedModel, name: str) -> None:
    rows = rows_of(name)
    np.testing.assert_allclose(model.predict_proba(rows), EXPECTED[name], rtol=1e-9)
    if name == "genlabel-table":
        np.testing.assert_allclose(model.typicality(rows), EXPECTED["support"], rtol=1e-9)
        lower, upper = EXPECTED["interval"]  # 0.2.0 did not widen them to the probability
        widened = np.minimum(lower, EXPECTED[name]), np.maximum(upper, EXPECTED[name])
        np.testing.assert_allclose(model.predict_proba_interval(rows), widened, rtol=1e-9)
    assert not model.unusual_values(rows)["minimum"].notna().any()  # it saved no ranges


@pytest.mark.parametrize("name", NAMES)
def test_an_old_model_predicts_the_same_and_can_be_saved_again(name: str, tmp_path: Path) -> None:
    model = load_model(FOLDER / name)
    check(model, name)
    again = load_model(save_model(model, tmp_path / name))
    check(again, name)
    np.testing.assert_array_equal(again.predict_log_proba(rows_of(name)), model.predict_log_proba(rows_of(name)))


def test_parameters_of_an_old_model_are_grouped() -> None:
    paper = load_model(FOLDER / "paper").classifier
    assert paper.search.get_params() == GridSearch(cv=3, scoring="accuracy").get_params()
    assert repr(paper.mixer) == repr(Mixup(1.0, lam_per="batch"))
    assert (paper.clean_fraction, paper.pool_with_density) == (0.0, None)
    assert (paper.training.epochs, paper.training.learning_rate) == (4, 0.1)
    table = load_model(FOLDER / "genlabel-table").classifier
    assert table.search.get_params() == HalvingSearch(cv=3).get_params()
    assert (table.density, table.training.weight_decay) == ("stacked", "auto")
    assert table.pool_weights_.prior == pytest.approx(0.0021957307025563745)
    assert table.best_params_["clean_fraction"] == table.cv_results_["params"][table.best_index_]["clean_fraction"]
    mixup = load_model(FOLDER / "mixup").classifier
    assert (repr(mixup.mixer), mixup.clean_fraction) == (repr(Mixup(0.5, lam_per="batch")), 0.5)


def test_old_names_are_mapped_to_existing_classes() -> None:
    for name in (*CLASS_NAMES, *STATE_NAMES):
        upgraded, state = upgrade_state(name, dict.fromkeys(STATE_NAMES.get(name, {})))
        fields = getattr(class_by_name(upgraded), "_fields", None)
        assert fields is None or set(state) <= set(fields)


def test_an_old_read_specification_is_upgraded() -> None:
    column = {"name": "a", "kind": "amount", "features": ["a"], "why": "", "way": "."}
    extra = {"plan": {"target": "y", "columns": [column], "features": ["a"], "gaps": [], "na_values": [], "cuts": []}}
    spec = upgrade_extra(extra)["read_spec"]
    assert set(spec) == {"target", "columns", "features", "features_with_missing", "na_values", "bin_edges"}
    assert set(spec["columns"][0]) == {"name", "kind", "features", "reason", "format"}

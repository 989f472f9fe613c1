"""Saved models predict the same to the last bit in another process; changed files and other tables are refused."""

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    KernelDensity,
    MixupClassifier,
    load_model,
    save_model,
)
from genlabel.data.tables import table_pipeline
from genlabel.densities import DiscriminantDensity, StackedDensity
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.persistence import LoadedModel
from genlabel.persistence.files import ARRAYS, CARD, TREE, read_files, write_files
from genlabel.persistence.schema import ColumnSchema

QUICK: dict[str, Any] = {
    "training__epochs": 2,
    "random_state": 0,
    "training__learning_rate": 0.03,
    "training__weight_decay": 1e-3,
}
SHORT: dict[str, Any] = {**QUICK, "search__cv": 3}
FEW = [DiscriminantDensity(), KernelDensity(0.5, covariance="shared")]


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 3)
    X = rng.normal(size=(90, 4)) + 2 * y[:, None] * [1.0, 0.5, 0.0, 0.0]
    X[:, 3] = X[:, 3].round()
    return X, y


def table() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = numbers()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X[:, :2], columns=["width", "height"])
    frame["colour"] = np.where(X[:, 2] > 0, "red", "blue")
    frame["many"] = [f"v{n}" for n in rng.integers(0, 40, 90)]
    frame["flag"] = X[:, 3] > 0
    frame["whole"] = pd.array([None, *range(89)], dtype="Int64")
    frame["level"] = pd.Categorical(np.where(y > 0, "high", "low"))
    frame["when"] = pd.date_range("2024-01-01", periods=90)
    frame.loc[3, "colour"], frame.loc[4, "width"] = None, None
    return frame, np.array(["u", "v", "w"])[y]


def in_a_table(classifier: Any) -> Callable[[], Any]:
    frame, y = table()
    return lambda: table_pipeline(frame, classifier).fit(frame, y)


def by_itself(classifier: Any) -> Callable[[], Any]:
    """A classifier that takes the table as it comes, but for a column of dates, of which it warns."""

    def fit() -> Any:
        with pytest.warns(UserWarning, match="'when'"):
            return classifier.fit(*table())

    return fit


def alone(classifier: Any) -> Callable[[], Any]:
    return lambda: classifier.fit(*numbers())


MODELS: dict[str, Callable[[], Any]] = {
    "table": in_a_table(GenLabelClassifier(density=StackedDensity(FEW)).set_params(**SHORT)),
    "table of the baseline": in_a_table(MixupClassifier().set_params(**SHORT)),
    "table by itself": by_itself(GenLabelClassifier(density="mixture").set_params(**SHORT)),
    "table of densities": by_itself(GenerativeClassifier("mixture")),
    "gaps": lambda: GenerativeClassifier().fit(np.where(numbers()[0] > 4, np.nan, numbers()[0]), numbers()[1]),
    "default": alone(GenLabelClassifier().set_params(**QUICK)),
    "given density": alone(GenLabelClassifier(density=KernelDensity(0.4)).set_params(**SHORT)),
    "paper": alone(GenLabelClassifier.from_paper(density="kernel", **SHORT)),
    "latent": alone(GenLabelClassifier("mlp", "gaussian", space="latent").set_params(**SHORT)),
    "several densities": alone(GenLabelClassifier(density="auto").set_params(**SHORT)),
    "weighed": alone(
        GenLabelClassifier(density="mixture", pool_with_density=(0.5, 0.3), class_weight="balanced").set_params(**SHORT)
    ),
    "mixup": alone(MixupClassifier().set_params(**SHORT)),
    "support": lambda: MixupClassifier().set_params(**SHORT).fit(*numbers()).fit_typicality(*numbers()),
    "manifold": alone(MixupClassifier(mixer="manifold", labeler=["linear"]).set_params(**SHORT)),
    "adamixup": alone(AdaMixupClassifier().set_params(**SHORT)),
    "kernel": alone(GenerativeClassifier("kernel")),
    "stacked density": alone(GenerativeClassifier("stacked")),
    "scaled": lambda: make_pipeline(StandardScaler(), GenerativeClassifier()).fit(*numbers()),
}


def query(name: str) -> Any:
    """New rows for a model; those of a table have gaps and values that it has never seen."""
    if not name.startswith("table"):
        return numbers()[0] + 0.1
    frame = table()[0].iloc[::-1]
    frame["width"] += 0.1
    frame.loc[10, ["colour", "many"]] = ["green", None]
    return frame


def answers(model: Any, X: Any) -> dict[str, np.ndarray]:
    """All that a model says of rows."""
    result = {name: getattr(model, name)(X) for name in ("predict", "predict_proba", "predict_log_proba")}
    classifier = model[-1] if isinstance(model, Pipeline) else model
    if hasattr(classifier, "typicality_"):
        points = model[:-1].transform(X) if isinstance(model, Pipeline) else X
        result["typicality"] = classifier.typicality(points)
    return result


class Saved(dict[str, tuple[Any, Path]]):
    """Models by name, each fitted on first use, with their folders."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __missing__(self, name: str) -> tuple[Any, Path]:
        model = MODELS[name]()
        self[name] = model, save_model(model, self.home / name)
        return self[name]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return Saved(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_loaded_model_is_what_was_saved(saved: Saved, name: str) -> None:
    model, folder = saved[name]
    again = load_model(folder)
    assert type(again.model) is type(model)
    X = query(name)
    for method, value in answers(model, X).items():
        np.testing.assert_array_equal(getattr(again, method)(X), value, strict=True)
    classifier = model[-1] if isinstance(model, Pipeline) else model
    assert again.classes_.dtype == classifier.classes_.dtype
    assert repr(again.classifier.get_params()) == repr(classifier.get_params())
    if isinstance(classifier, GenerativeClassifier):
        return
    assert repr(again.best_params_) == repr(classifier.best_params_)
    assert list(again.cv_results_) == list(classifier.cv_results_)
    for column in ("mean_test_log_loss", "mean_test_pooled_score"):
        np.testing.assert_array_equal(again.cv_results_.get(column, []), classifier.cv_results_.get(column, []))


IN_ANOTHER_PROCESS = """
import pickle, sys
import numpy as np, torch
from pathlib import Path
def refuse(*args, **options): raise RuntimeError("something was unpickled")
queries = pickle.load(open(sys.argv[1], "rb"))
pickle.load = pickle.loads = pickle.Unpickler = torch.load = refuse
from genlabel import load_model
result = {}
for name, (folder, X, kinds) in queries.items():
    model = load_model(folder)
    for kind in kinds:
        result[f"{name} {kind}"] = getattr(model, kind)(X)
    if "typicality" in kinds:
        result[f"{name} both"] = model.predict(X, return_typicality=True)[1]
np.savez(sys.argv[2], **result)
"""


def test_models_predict_the_same_in_another_process_without_unpickling(saved: Saved, tmp_path: Path) -> None:
    expected = {name: answers(saved[name][0], query(name)) for name in MODELS}
    queries = {name: (str(saved[name][1]), query(name), list(expected[name])) for name in MODELS}
    (tmp_path / "queries").write_bytes(pickle.dumps(queries))
    files = [str(tmp_path / "queries"), str(tmp_path / "result")]
    words = [sys.executable, "-W", "ignore", "-c", IN_ANOTHER_PROCESS, *files]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "result.npz", allow_pickle=True) as result:
        for name, kinds in expected.items():
            for kind, value in kinds.items():
                np.testing.assert_array_equal(result[f"{name} {kind}"], value)
            if "typicality" in kinds:
                np.testing.assert_array_equal(result[f"{name} both"], kinds["typicality"])


@pytest.fixture
def small(saved: Saved, tmp_path: Path) -> Path:
    """A folder with a model that a test may spoil."""
    return save_model(saved["kernel"][0], tmp_path / "small")


@pytest.mark.parametrize("file", [TREE, ARRAYS])
def test_a_changed_byte_is_refused(small: Path, file: str) -> None:
    content = (small / file).read_bytes()
    rng = np.random.default_rng(0)
    for index in [0, 1, 7, 8, 9, len(content) - 1, *rng.integers(0, len(content), 60).tolist()]:
        (small / file).write_bytes(
            content[:index] + bytes([content[index] ^ rng.choice([1, 32, 128])]) + content[index + 1 :]
        )
        with pytest.raises(ValueError, match="small"):
            load_model(small)
    for damaged in (b"", content[:-1], content[: len(content) // 2], content + b" ", content * 2):
        (small / file).write_bytes(damaged)
        with pytest.raises(ValueError, match="small"):
            load_model(small)


def test_the_card_may_be_edited(small: Path) -> None:
    X = numbers()[0]
    expected = load_model(small).predict_log_proba(X)
    (small / CARD).write_bytes(b"\xff mine")
    np.testing.assert_array_equal(load_model(small).predict_log_proba(X), expected)
    (small / CARD).unlink()
    np.testing.assert_array_equal(load_model(small).predict_log_proba(X), expected)


def test_a_folder_without_a_model_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder"):
        load_model(tmp_path / "nothing")
    for file in (ARRAYS, TREE):
        content = (small / file).read_bytes()
        (small / file).unlink()
        with pytest.raises(ValueError, match=file):
            load_model(small)
        (small / file).write_bytes(content)
    for other in ("[]", '{"format": "another"}', "[" * 100_000):
        (small / TREE).write_text(other)
        with pytest.raises(ValueError, match="small"):
            load_model(small)


def test_an_unknown_format_version_is_refused(small: Path) -> None:
    document = json.loads((small / TREE).read_text())
    (small / TREE).write_text(json.dumps({**document, "format_version": 3}))
    with pytest.raises(ValueError, match="version"):
        load_model(small)


def forge(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """Change the contents of a model, with checksums that fit."""
    files = read_files(folder)
    change(files.body, files.arrays)
    write_files(folder, files, "")


OTHER = {"model.log_priors_": np.log([0.2, 0.3, 0.5])}
FORGERIES: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "a class": (lambda body, _: body["objects"][0].update({"class": "subprocess.Popen"}), "class 'subprocess.Popen'"),
    "a number too large": (lambda body, _: body["model"].update(number=10**30), "cannot be loaded"),
    "a part": (lambda body, _: body.pop("schema"), "KeyError 'schema'"),
    "an array": (lambda _, arrays: arrays.pop("model.class_count_"), "KeyError 'model.class_count_'"),
    "a prior": (lambda _, arrays: arrays.update(OTHER), "other predictions"),
    "versions": (
        lambda body, arrays: (body["versions"].update(torch="1.0"), arrays.update(OTHER)),
        r"it was saved with torch 1\.0 \(here .*\): load it with these",
    ),
}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_a_forged_file_is_refused_though_its_checksums_fit(small: Path, name: str) -> None:
    change, message = FORGERIES[name]
    forge(small, change)
    with pytest.raises(ValueError, match=message):
        load_model(small)


@pytest.fixture(scope="module")
def loaded(saved: Saved) -> LoadedModel:
    return load_model(saved["table"][1])


def test_the_schema_has_names_kinds_and_categories(loaded: LoadedModel, saved: Saved) -> None:
    assert {column.name: column.kind for column in loaded.schema.columns} == {
        "width": "numbers", "height": "numbers", "colour": "text", "many": "text", "flag": "numbers",
        "whole": "numbers", "level": "text",
    }  # fmt: skip
    by_itself = load_model(saved["table by itself"][1]).schema
    assert by_itself.columns == (*loaded.schema.columns, ColumnSchema("when", "unused"))
    categories = {column.name: column.categories for column in loaded.schema.columns}
    assert categories["colour"] == ("(missing)", "blue", "red")
    assert len(categories["many"]) > 20


def with_column(name: str, values: Any) -> pd.DataFrame:
    return table()[0].assign(**{name: values})


@pytest.mark.parametrize(
    "X, message",
    [
        (table()[0].drop(columns="width"), "'width'"),
        (table()[0].rename(columns={"width": "Width"}), "rename 'Width'"),
        (table()[0][["flag"]], "6 columns"),
        (with_column("width", "wide"), "'wide'"),
        (with_column("colour", 7.5), "'7.5'"),
        (with_column("width", pd.Timestamp("2024-01-01")), "dates"),
        (pd.concat([table()[0], table()[0][["flag"]]], axis=1), "'flag'"),
        (numbers()[0], "ndarray"),
    ],
    ids=["missing", "misspelt", "several", "text", "numbers", "dates", "twice", "array"],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(saved: Saved, X: Any, message: str) -> None:
    for model in (load_model(saved[name][1]) for name in ("table", "table by itself")):
        for method in (model.predict, model.predict_proba, model.predict_log_proba, model.typicality, model.features):
            with pytest.raises(ValueError, match=message):
                method(X)


@pytest.mark.parametrize("name", ["table", "table by itself"])
def test_a_table_of_other_order_and_dtypes_is_accepted(saved: Saved, name: str) -> None:
    model, X = load_model(saved[name][1]), table()[0]
    expected = model.predict_log_proba(X)
    for other in (
        X[X.columns[::-1]],
        X.drop(columns="when"),
        X.assign(more=1),
        with_column("width", X["width"].astype(str).where(X["width"].notna(), None)),
        with_column("level", X["level"].astype(object)),
        with_column("flag", X["flag"].astype(int)),
    ):
        # Not to the last bit: older versions of pandas lay columns that are put together otherwise in memory.
        np.testing.assert_allclose(model.predict_log_proba(other), expected, rtol=1e-12)
    for column in ("width", "colour"):
        empty = with_column(column, np.full(90, np.nan))
        assert np.isfinite(model.predict_log_proba(empty)).all()


def test_numbers_are_accepted_as_categories_of_the_same_digits(tmp_path: Path) -> None:
    X, y = numbers()
    frame = pd.DataFrame({"a": X[:, 0], "code": np.where(y > 0, "1", "x")})
    model = load_model(save_model(table_pipeline(frame, GenerativeClassifier()).fit(frame, y), tmp_path / "m"))
    ones = frame[y > 0]
    np.testing.assert_array_equal(model.predict_proba(ones.assign(code=1)), model.predict_proba(ones))
    with pytest.raises(ValueError, match="code"):
        model.predict(ones.assign(code=2))


def test_columns_of_a_frame_are_matched_by_name_and_those_of_an_array_by_position(tmp_path: Path) -> None:
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = load_model(save_model(GenerativeClassifier().fit(frame, y), tmp_path / "m"))
    np.testing.assert_array_equal(model.predict_proba(frame[list("dcba")]), model.predict_proba(frame))
    with pytest.raises(ValueError, match="'b'"):
        model.predict(frame[["a", "c", "d"]])
    plain = load_model(save_model(GenerativeClassifier().fit(X, y), tmp_path / "plain"))
    with pytest.raises(ValueError, match="shape"):
        plain.predict(X[:, :3])


@pytest.mark.parametrize(
    "classes",
    [[False, True], [1.0, 2.0], [0, 2**60], ["ä" * 40, "b"], np.array(["b", "a"], dtype=object)],
    ids=["flags", "numbers", "whole", "texts", "objects"],
)
def test_classes_of_any_dtype_are_restored(classes: Any, tmp_path: Path) -> None:
    X, y = numbers()
    named = np.asarray(classes)[(y > 0).astype(int)]
    model = GenerativeClassifier(class_weight=dict.fromkeys(classes, 1.5)).fit(X, named)
    again = load_model(save_model(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X), strict=True)
    assert again.classifier.class_weight == model.class_weight


def test_a_loaded_model_can_be_saved_again_byte_for_byte(saved: Saved, tmp_path: Path) -> None:
    folder = saved["table"][1]
    again = save_model(load_model(folder), tmp_path / "again")
    for file in (TREE, ARRAYS, CARD):
        assert (again / file).read_bytes() == (folder / file).read_bytes()


def test_a_model_is_replaced_and_other_files_stay(saved: Saved, tmp_path: Path) -> None:
    folder = save_model(saved["mixup"][0], tmp_path / "deep" / "down")
    (folder / "mine.txt").write_text("mine")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="overwrite"):
        save_model(saved["kernel"][0], folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    save_model(saved["kernel"][0], folder, overwrite=True)
    assert isinstance(load_model(folder).model, GenerativeClassifier)
    assert sorted(path.name for path in folder.iterdir()) == sorted([TREE, ARRAYS, CARD, "mine.txt"])
    for other in (folder / "mine.txt", folder.parent):
        with pytest.raises(ValueError, match="name a"):
            save_model(saved["kernel"][0], other, overwrite=True)


def test_extra_values_are_saved_with_the_model(saved: Saved, tmp_path: Path) -> None:
    extra = {"target": "y", "columns": [("a", "number", ()), ("b", "date", ("day",))], "when": None}
    folder = save_model(saved["kernel"][0], tmp_path / "m", extra=extra)
    again = load_model(save_model(load_model(folder), tmp_path / "again", extra={"when": 3.5}))
    assert again.extra == {**extra, "when": 3.5}
    with pytest.raises(ValueError, match=r"extra\.when"):
        save_model(saved["kernel"][0], tmp_path / "other", extra={"when": date(2024, 5, 31)})


def test_parameters_that_cannot_be_saved_are_left_out_and_listed(tmp_path: Path) -> None:
    X, y = numbers()
    settings = {**SHORT, "search__cv": KFold(3), "random_state": np.random.RandomState(0)}
    model = MixupClassifier().set_params(**settings).fit(X, y)
    with pytest.warns(UserWarning, match="cv"):
        folder = save_model(model, tmp_path / "m")
    again = load_model(folder)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.about["left_out"]["cv"].startswith("KFold(n_splits=3")
    assert (again.classifier.search.cv, again.classifier.random_state) == ("auto", None)
    assert "Not saved" in (tmp_path / "m" / CARD).read_text()


@pytest.mark.parametrize(
    "model, error, message",
    [
        (LogisticRegression(), ValueError, "LogisticRegression"),
        (make_pipeline(StandardScaler(), LogisticRegression()), ValueError, "LogisticRegression"),
        (MixupClassifier(), NotFittedError, "not fitted"),
    ],
    ids=["other", "pipeline", "not fitted"],
)
def test_what_cannot_be_saved_is_refused_before_a_folder_is_made(
    model: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        save_model(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_pipeline_with_a_step_of_the_users_is_refused(tmp_path: Path) -> None:
    class Mine(StandardScaler):
        pass

    with pytest.raises(ValueError, match=r"model\.steps\.0\.0?1? ?.*Mine"):
        save_model(make_pipeline(Mine(), GenerativeClassifier()).fit(*numbers()), tmp_path / "m")


def test_the_card_has_data_and_held_out_scores(saved: Saved) -> None:
    model, folder = saved["table"]
    card, again = (folder / CARD).read_text(), load_model(folder)
    assert card.startswith("# A GenLabelClassifier for 3 classes\n")
    assert "90 rows, 7 columns: width (numbers), height (numbers), colour (text, 3 values)" in card
    assert "| u | 30 | 33.3% |" in card
    results, index = model[-1].cv_results_, model[-1].best_index_
    loss, score = results["mean_test_pooled_log_loss"][index], results["mean_test_pooled_score"][index]
    assert f"| this model, held-out rows | {loss:.3f} | {score:.1%} |" in card
    assert "| class priors alone | 1.099 | 33.3% |" in card
    assert f"`typicality` is {TYPICALITY_THRESHOLD} or less" in card
    assert "`unusual_values`" in card
    assert "At all" not in card
    assert again.about["held_out"] == {"log_loss": loss, "accuracy": score}
    assert "call `fit_typicality`" in (saved["mixup"][1] / CARD).read_text()
    assert "No rows were held out" in (saved["kernel"][1] / CARD).read_text()
    assert card.index(f"**{score:.1%}** of the rows that the folds") < card.index("90 rows, 7 columns")
    report = saved["stacked density"][0].density_.report_
    assert (
        f"| {report['log_loss']:.3f} | {report['accuracy']:.1%} |" in (saved["stacked density"][1] / CARD).read_text()
    )


def test_the_card_begins_with_the_scores_on_test_rows(saved: Saved, tmp_path: Path) -> None:
    scores = {"rows": 40, "accuracy": 0.61, "log_loss": 0.9, "recall": {"0": 0.25, "1": 0.0}, "prior_accuracy": 0.31}
    folder = save_model(saved["mixup"][0], tmp_path / "m", test_scores=scores)
    again = save_model(load_model(folder), tmp_path / "again")
    card = (again / CARD).read_text()
    first = card.split("##")[1]
    assert all(text in first for text in ("61.0%", "40 rows", "31.0%", "**1** (0% of its rows)"))
    assert [line.split("|")[-2].strip() for line in card.splitlines() if re.match(r"\| [012] \|", line)] == [
        "25%",
        "0%",
        "no rows",
    ]


def test_the_card_warns_of_a_useless_model_and_of_small_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.array(["common"] * 85 + ["<b>rare</b> | `x`\n# no"] * 15)
    model = MixupClassifier().set_params(**SHORT).fit(rng.normal(size=(100, 2)), y)
    folder = save_model(model, tmp_path / "m", notes=["from [a](file)\n# with lines"])
    card = (folder / CARD).read_text()
    assert "**At all**" in card
    assert "fewer than 20 rows each" in card
    assert r"\<b\>rare\</b\> \| \`x\` \# no" in card
    assert r"- from \[a\]\(file\) \# with lines" in card
    assert not re.search(r"^# (no|with)", card, flags=re.M)
    assert load_model(folder).about["notes"] == ["from [a](file)\n# with lines"]


def test_a_loaded_model_has_the_fitted_attributes_of_its_classifier(loaded: LoadedModel) -> None:
    assert repr(loaded) == "<GenLabelClassifier for 7 columns and 3 classes>"
    assert loaded.n_iter_ == loaded.classifier.n_iter_
    assert isinstance(loaded.network_, torch.nn.Module)
    for name in ("nothing", "nothing_"):
        with pytest.raises(AttributeError, match=name):
            getattr(loaded, name)

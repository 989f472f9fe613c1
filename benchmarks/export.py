"""Compare the ONNX file of the default model with the model: size, probabilities, log-loss of its network alone, speed.

    python benchmarks/export.py
    python benchmarks/export.py openml:54 iris --repeats 9

Each table is split once (30 % test rows). Seconds are medians of predictions of 10,000 rows and of single rows, in turn
by the model (`predict_proba` of a DataFrame) and by onnxruntime (its arrays), on one thread. Rows of a batch are test
rows, repeated.
"""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
from common import alternate, make_parser
from threadpoolctl import threadpool_limits

from genlabel import GenLabelClassifier, export_onnx
from genlabel.data.datasets import load_table
from genlabel.data.tables import make_splits, table_pipeline
from genlabel.metrics import index_labels, log_loss
from genlabel.training.networks.staged import log_proba_of

BATCH_ROWS = 10_000


def as_inputs(frame: pd.DataFrame, columns: dict[str, list[str]], dtype: str) -> dict[str, Any]:
    """Return the inputs of a graph."""
    inputs = {"numbers": lambda part: part.to_numpy(dtype), "text": lambda part: part.fillna("(missing)").to_numpy(str)}
    return {name: inputs[name](frame[names]) for name, names in columns.items()}


def measure(source: str, repeats: int, folder: Path) -> dict[str, Any]:
    """Return the row of a table."""
    table = load_table(source)
    train, test = make_splits(table, 1, 0.3, 0)[0]
    model = table_pipeline(table.X, GenLabelClassifier(random_state=0)).fit(table.X.iloc[train], table.y.iloc[train])
    X, y, classifier = table.X.iloc[test], index_labels(table.y.iloc[test], model.classes_), model[-1]
    points = classifier.scaler_(classifier.encode(model[:-1].transform(X)))
    row: dict[str, Any] = {
        "table": f"{table.name} ({len(table.X)} x {table.X.shape[1]}, {len(model.classes_)})",
        "density": len(classifier.density_.names_),
        "network": round(float(log_loss(log_proba_of(classifier.network_, points), y)), 3),
        "whole": round(float(log_loss(model.predict_log_proba(X), y)), 3),
    }
    batch = X.iloc[np.arange(BATCH_ROWS) % len(X)]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for dtype in ("float64", "float32"):
        path = export_onnx(model, folder / f"{table.name}.onnx", dtype=dtype)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        columns = {value.name: None for value in session.get_inputs()}
        kinds = {name: step[1] for name, *step in model[0].transformers_ if name in columns}
        columns = {name: list(names) for name, names in kinds.items()}

        def predict(frame: pd.DataFrame, session: Any = session, columns: Any = columns, dtype: str = dtype) -> Any:
            return session.run(["log_proba"], as_inputs(frame, columns, dtype))[0]

        row[f"kB {dtype}"] = path.stat().st_size // 1000
        row[f"difference {dtype}"] = f"{np.abs(np.exp(predict(X)) - model.predict_proba(X)).max():.0e}"
        for name, rows in (("rows/s", batch), ("ms a row", X.iloc[:1])):
            inputs = as_inputs(rows, columns, dtype)
            seconds = alternate(
                lambda rows=rows: model.predict_proba(rows),
                lambda inputs=inputs, session=session: session.run(["log_proba"], inputs),
                repeats,
            )
            for who, value in zip(("model", dtype), seconds, strict=True):
                row[f"{name} {who}"] = round(len(rows) / value) if name == "rows/s" else round(1e3 * value, 3)
    return row


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("tables", nargs="*", default=["openml:54", "openml:1558", "openml:18"], help="names or files")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each prediction")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1), TemporaryDirectory() as folder:
        for source in options.tables:
            for name, value in measure(source, options.repeats, Path(folder)).items():
                print(f"{name:22} {value}", flush=True)
            print()


if __name__ == "__main__":
    main()

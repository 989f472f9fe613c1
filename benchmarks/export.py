"""Compare the ONNX file of the default model with the model: size, probabilities, log-loss of its network alone, speed.

    python benchmarks/export.py
    python benchmarks/export.py openml:54 iris --repeats 9

Each table is split once (30 % test rows). Seconds are medians of predictions of 10,000 rows and of single rows, in turn
by the model (`predict_proba` of a DataFrame) and by onnxruntime (arrays), on one thread. Rows of a batch are test rows,
repeated. "compressed" is the file of `compress=`, with the training rows, in float32.
"""

import json
import warnings
from functools import partial
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
    files = {
        "float64": {},
        "float32": {"dtype": "float32"},
        "compressed": {"dtype": "float32", "compress": table.X.iloc[train]},
    }
    for name, arguments in files.items():
        path = export_onnx(model, folder / "model.onnx", **arguments)
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
        dtype = arguments.get("dtype", name)
        log_proba = session.run(["log_proba"], as_inputs(X, columns, dtype))[0]
        row[f"{name}: kB"] = path.stat().st_size // 1000
        row[f"{name}: log-loss"] = round(float(log_loss(log_proba, y)), 3)
        row[f"{name}: difference"] = f"{np.abs(np.exp(log_proba) - model.predict_proba(X)).max():.0e}"
        for rows in (batch, X.iloc[:1]):
            call = partial(session.run, ["log_proba"], as_inputs(rows, columns, dtype))
            model_seconds, seconds = alternate(partial(model.predict_proba, rows), call, repeats)
            row[f"{name}: ms for {len(rows)} row(s)"] = f"{1e3 * seconds:.2f} (model {1e3 * model_seconds:.2f})"
    return row


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "tables", nargs="*", default=["openml:54", "openml:187", "openml:1558", "openml:18"], help="names or files"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each prediction")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1), TemporaryDirectory() as folder:
        for source in options.tables:
            for name, value in measure(source, options.repeats, Path(folder)).items():
                print(f"{name:30} {value}", flush=True)
            print()


if __name__ == "__main__":
    main()

"""Measure time and held-out log-loss of fits with shorter and shorter time limits.

    python benchmarks/time_limit.py
    python benchmarks/time_limit.py --sizes 1000x10x3 --limits 1 4

One thread. "used" is the time of a fit as a share of what it may take, 1.2 times its limit and a second.
"""

import warnings
from time import perf_counter
from typing import Any

import numpy as np
from common import make_parser, make_table
from threadpoolctl import threadpool_limits

from genlabel import GenLabelClassifier, MixupClassifier

SIZES = ["1000x10x3", "20000x20x2", "100000x20x2"]
LIMITS = [1.0, 2.0, 5.0, 10.0, 20.0]
TEST_ROWS = 4_000
"""Rows that are generated besides those of a table."""


def measure(size: str, model: Any) -> tuple[float, float, str]:
    """Return the seconds of a fit, its log-loss on test rows, and what its warning says was left out."""
    n, *rest = size.split("x")
    X, y = make_table("x".join([str(int(n) + TEST_ROWS), *rest]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = perf_counter()
        model.fit(X[:-TEST_ROWS], y[:-TEST_ROWS])
        seconds = perf_counter() - begin
    log_proba = model.predict_log_proba(X[-TEST_ROWS:])
    messages = [str(warning.message) for warning in caught]
    cuts = [text.split(" s: ")[1].split("; ")[0] for text in messages if "time_limit" in text]
    return seconds, -float(np.mean(log_proba[np.arange(TEST_ROWS), y[-TEST_ROWS:]])), "".join(cuts)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns x classes")
    parser.add_argument("--limits", nargs="+", type=float, default=LIMITS, help="seconds")
    args = parser.parse_args()
    print("| table | method | limit (s) | seconds | used | log-loss | left out |\n|---|---|---:|---:|---:|---:|---|")
    with threadpool_limits(1):
        MixupClassifier().set_params(training__epochs=2).fit(*make_table("100x5x2"))  # the first fit is slower
        for size in args.sizes:
            for method in (GenLabelClassifier, MixupClassifier):
                for limit in [*args.limits, None]:
                    model = method(random_state=0).set_params(search__time_limit=limit, training__device="cpu")
                    seconds, loss, cuts = measure(size, model)
                    used = "" if limit is None else f"{seconds / (1.2 * limit + 1.0):.2f}"
                    row = [size, method.__name__, "none" if limit is None else f"{limit:g}", f"{seconds:.1f}", used]
                    print(f"| {' | '.join([*row, f'{loss:.4f}', cuts])} |", flush=True)


if __name__ == "__main__":
    main()

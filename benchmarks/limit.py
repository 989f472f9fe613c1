"""Measure time and held-out log-loss of fits with shorter and shorter time limits.

    python benchmarks/limit.py
    python benchmarks/limit.py --sizes 1000x10x3 --limits 1 4

One thread. `over` is the time of a fit in units of what it may take, 1.2 times its limit and a second.
"""

import argparse
import warnings
from time import perf_counter
from typing import Any

import numpy as np
from cost import points
from threadpoolctl import threadpool_limits

SIZES = ["1000x10x3", "20000x20x2", "100000x20x2"]
LIMITS = [1.0, 2.0, 5.0, 10.0, 20.0]
HELD_OUT = 4_000
"""Rows that are drawn beside those of a table."""


def measure(size: str, model: Any) -> tuple[float, float, str]:
    """Seconds of a fit, its log-loss on rows that it has not seen, and what it says it left out."""
    n, *rest = size.split("x")
    X, y = points("x".join([str(int(n) + HELD_OUT), *rest]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = perf_counter()
        model.fit(X[:-HELD_OUT], y[:-HELD_OUT])
        seconds = perf_counter() - begin
    text = model.predict_log_proba(X[-HELD_OUT:])
    cuts = [str(one.message).split(" s: ")[1].split("; ")[0] for one in caught if "time_limit" in str(one.message)]
    return seconds, -float(np.mean(text[np.arange(HELD_OUT), y[-HELD_OUT:]])), "".join(cuts)


def main() -> None:
    from genlabel import GenLabelClassifier, MixupClassifier

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns x classes")
    parser.add_argument("--limits", nargs="+", type=float, default=LIMITS, help="seconds")
    args = parser.parse_args()
    print("| table | method | limit (s) | seconds | over | log-loss | left out |\n|---|---|---:|---:|---:|---:|---|")
    with threadpool_limits(1):
        MixupClassifier().set_params(training__epochs=2).fit(*points("100x5x2"))  # the first fit of a process is slower
        for size in args.sizes:
            for method in (GenLabelClassifier, MixupClassifier):
                for limit in [*args.limits, None]:
                    seconds, loss, cuts = measure(size, method(time_limit=limit, random_state=0, device="cpu"))
                    over = "" if limit is None else f"{seconds / (1.2 * limit + 1.0):.2f}"
                    row = [size, method.__name__, "none" if limit is None else f"{limit:g}", f"{seconds:.1f}", over]
                    print(f"| {' | '.join([*row, f'{loss:.4f}', cuts])} |", flush=True)


if __name__ == "__main__":
    main()

"""Run all benchmarks one after the other on one thread: `make bench`."""

import argparse

import default
import densities
import genmix
import kernel
import labels
import search
import torch
import two_circle
from threadpoolctl import threadpool_limits

BENCHMARKS = {
    "search": search.main,
    "kernel": kernel.main,
    "labels": labels.main,
    "default": default.main,
    "two_circle": two_circle.main,
    "genmix": genmix.main,
    "densities": densities.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(BENCHMARKS)}; all by default")
    names = parser.parse_args().names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; choose among {', '.join(BENCHMARKS)}")
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for name in names:
            print(f"\n== {name} ==", flush=True)
            BENCHMARKS[name]()


if __name__ == "__main__":
    main()

"""Compare KernelDensity.log_prob with scipy's gaussian_kde.logpdf: time, agreement, and memory on many points."""

import subprocess
import sys

import numpy as np
from common import alternate
from scipy.stats import gaussian_kde

from genlabel import KernelDensity

MEMORY = """
import pathlib, threading, time, numpy as np, torch
from genlabel import KernelDensity

def resident():  # kB, of this process
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

def watch():
    while not done.is_set():
        sizes.append(resident())
        time.sleep(0.002)

torch.set_num_threads(1)
X = np.random.default_rng(0).normal(size=(50000, 10))
density = KernelDensity().fit(X, np.zeros(50000))
density.log_prob(X[:100])
done, sizes = threading.Event(), [resident()]
watcher = threading.Thread(target=watch)
watcher.start()
density.log_prob(X)
done.set()
watcher.join()
print((max(sizes) - sizes[0]) / 2**20)
"""


def main() -> None:
    rng = np.random.default_rng(0)
    X, queries = rng.normal(size=(2000, 10)), rng.normal(size=(2000, 10))
    ours, theirs = KernelDensity().fit(X, np.zeros(2000)), gaussian_kde(X.T)
    difference = np.abs(ours.log_prob(queries)[:, 0] - theirs.logpdf(queries.T)).max()
    slow, fast = alternate(lambda: theirs.logpdf(queries.T), lambda: ours.log_prob(queries), repeats=9)
    print(
        f"2,000 x 2,000 points, d = 10: gaussian_kde {slow * 1e3:.0f} ms, KernelDensity {fast * 1e3:.1f} ms: "
        f"{slow / fast:.1f} times faster (goal: 5); largest difference {difference:.1e}"
    )
    extra = float(subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout)
    print(f"50,000 x 50,000 points, d = 10: {extra:.3f} GiB of extra memory at its peak (goal: 1; one matrix is 18.6)")


if __name__ == "__main__":
    main()

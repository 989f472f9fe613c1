"""
A sweep on a Dask cluster
=========================

How wide should the kernels of a density be? Seven widths and one rule on three splits of wine are 24 fits, and each
is a task for the workers of a cluster. Here these are two threads of this program, so that the example runs anywhere;
with machines of your own it is the same call with the address of their scheduler, or `genlabel compare --dask
tcp://host:8786`. Look at the valley: too narrow is as bad as too wide. The rule that takes the width of the greatest
likelihood, for each class its own, is below all of them. What two workers compute is what one process computes, to
the last bit.
"""

from distributed import LocalCluster
from matplotlib.figure import Figure

from genlabel import GenerativeClassifier, KernelDensity
from genlabel.data.datasets import load_table
from genlabel.evaluation import run_comparison

widths = (0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0)
methods = {f"{width}": GenerativeClassifier(KernelDensity(width)) for width in widths}
methods["likelihood"] = GenerativeClassifier(KernelDensity("likelihood"))
with LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
) as cluster:
    records = run_comparison(load_table("wine"), methods, n_splits=3, dask=cluster.scheduler_address).frame
    here = run_comparison(load_table("wine"), {"0.2": methods["0.2"]}, n_splits=1).frame

loss = records.pivot_table(index="method", columns="split", values="log_loss")
assert here["log_loss"][0] == loss.loc["0.2", 0]
mean = loss.loc[[f"{width}" for width in widths]].mean(axis=1)
print(f"{len(records)} fits; lowest log-loss {mean.min():.3f} at width {mean.idxmin()}")
print(f"width of the greatest likelihood: log-loss {loss.loc['likelihood'].mean():.3f}")

figure = Figure(figsize=(6, 3.4), layout="constrained")
ax = figure.subplots()
ax.plot(widths, loss.loc[mean.index], color="#999999", linewidth=0.8)
ax.plot(widths, mean, color="#0072B2", marker="o")
ax.axhline(loss.loc["likelihood"].mean(), color="#D55E00", linestyle="--", label="greatest likelihood")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="width of the kernels, of standardised columns",
    ylabel="test log-loss: splits and mean",
)
ax.set_xticks(widths, [f"{width:g}" for width in widths])
ax.minorticks_off()
ax.legend()

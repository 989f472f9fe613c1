"""Measure generative labels on images: steps of GenLabel against steps of mixup, in our loop and as a drop-in.

    python benchmarks/images.py [--batch 128 512] [--loops loop drop-in drop-in-graph] [--rounds 3] [--json FILE]

ResNet-18 on random images of CIFAR-10's shapes. "loop" is `train_network`; on a GPU in bf16, compiled, each step one
CUDA graph. "drop-in" is `GenLabelMixup` in a plain loop around a network in bf16 whose blocks are compiled, as a user
writes it; "drop-in-graph" is the same loop, whose step the user captures as a CUDA graph (docs/images.md). Runs of all
kinds take turns; the median epoch of each counts. In "steps", on a CPU, single steps of the drop-in take turns, and the
fastest of each kind counts, in processor time: on a busy machine, nothing else is comparable.
"""

import argparse
import json
import sys
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time

import numpy as np
import torch
import torch._dynamo
from torch.nn.functional import cross_entropy

from genlabel import GenLabelMixup, LambdaCallback, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import Labeler
from genlabel.training import SGD, ImageBatches, train_network
from genlabel.training.networks.convolutional import IMAGE_NETWORKS, SmallConvNet, Stages

KINDS = ("mixup", "near", "part", "clean", "auto", "compiled", "by-hand")
"""Mixup, GenLabel with each of the statistics, with gamma="auto" and with compiled labels, and mixup written by hand
(the last two in the drop-in only)."""
NETWORKS = {**IMAGE_NETWORKS, "small": partial(SmallConvNet, 3, 10, 16)}
"""Networks by name; "small" has three convolutions, of 16 to 32 channels."""


def labeler(kind: str) -> Labeler | None:
    if kind == "mixup":
        return None
    if kind == "auto":
        return OnlineGenLabel(OnlineGaussianDensity(10), gamma="auto")
    return OnlineGenLabel(OnlineGaussianDensity(10, statistics=kind), gamma=0.1)


def epoch_seconds(network: Stages, batches: ImageBatches, kind: str, epochs: int) -> list[float]:
    """Return the seconds of each epoch but the first, in which steps are compiled and captured."""
    times: list[float] = []

    def record_time(epoch: int, logs: dict[str, torch.Tensor]) -> None:
        logs["loss"].item()  # waits until the epoch is done
        times.append(perf_counter())

    train_network(
        network,
        batches,
        mixer=batches.mixer,
        labeler=labeler(kind),
        optimizer=SGD(),
        learning_rate=0.01,
        epochs=epochs,
        compile_config="auto",
        callback=LambdaCallback(on_epoch_end=record_time),
    )
    return np.diff(times).tolist()


def drop_in_seconds(network: Stages, batches: ImageBatches, kind: str, epochs: int) -> list[float]:
    """Return the same for a loop as a user writes it: mix, forward, loss, backward, step."""
    mixup, sgd = drop_in(network, batches, kind)
    times: list[float] = []
    for _ in range(epochs):
        for x, y, *_ in batches:
            loss = drop_in_step(network, mixup, sgd, kind, x, y)
        loss.item()
        times.append(perf_counter())
    mixup.detach()
    return np.diff(times).tolist()


def drop_in_step(
    network: Stages, mixup: GenLabelMixup, sgd: torch.optim.SGD, kind: str, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    """Take a step of the drop-in, or of mixup by hand, and return the loss."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
        if kind == "by-hand":
            lam = torch.distributions.Beta(1.0, 1.0).sample((len(x),)).to(x)
            partner, weight = torch.randperm(len(x), device=x.device), lam.view(-1, 1, 1, 1)
            scores = network(weight * x + (1.0 - weight) * x[partner])
        else:
            batch = mixup.mix(x, y)
            scores = network(batch.x)
    if kind == "by-hand":
        own, other = (cross_entropy(scores.float(), c, reduction="none") for c in (y, y[partner]))
        loss = (lam * own + (1.0 - lam) * other).mean()
    else:
        loss = batch.loss(scores)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    return loss


def measure_steps(name: str, batch: int, kinds: list[str], steps: int) -> dict[str, dict[str, float]]:
    """Return the fastest and the median step of each kind, in milliseconds of processor time; steps take turns."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    size, channels = (28, 1) if name == "lenet5" else (32, 3)
    x = rng.integers(0, 256, (4 * batch, channels, size, size), dtype=np.uint8)
    batches = ImageBatches(x, rng.integers(0, 10, len(x)), batch_size=batch, mixer=Mixup(), seed=0, device="cpu")
    networks = {kind: NETWORKS[name](seed=0) for kind in kinds}
    parts = {kind: (network, *drop_in(network, batches, kind)) for kind, network in networks.items()}
    items = [(item.x, item.y) for item in batches]
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for index in range(20 + steps):
        for kind in rng.permutation(kinds):  # the step before leaves the caches as it likes
            begin = thread_time()
            drop_in_step(*parts[kind], kind, *items[index % len(items)])
            times[kind].append(1000.0 * (thread_time() - begin))
    return {kind: {"fastest": min(values[20:]), "median": median(values[20:])} for kind, values in times.items()}


def graph_seconds(network: Stages, batches: ImageBatches, kind: str, epochs: int) -> list[float]:
    """Return the same with a captured step: a batch and its draw are copied to the tensors that the graph reads."""
    mixup, sgd = drop_in(network, batches, kind)
    x, y, *_ = next(iter(batches))
    static = x.clone(), y.clone(), mixup.draw(len(x), x)

    def step() -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            batch = mixup.apply_draw(*static)
            scores = network(batch.x)
        loss = batch.loss(scores)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        return loss.detach()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    times: list[float] = []
    for _ in range(epochs):
        for x, y, *_ in batches:
            draw = mixup.draw(len(x), x)
            for target, value in zip((*static[:2], *static[2][:2]), (x, y, *draw[:2]), strict=True):
                target.copy_(value, non_blocking=True)
            graph.replay()
        loss.item()
        times.append(perf_counter())
    mixup.detach()
    return np.diff(times).tolist()


def drop_in(network: Stages, batches: ImageBatches, kind: str) -> tuple[GenLabelMixup, torch.optim.SGD]:
    fixed = {
        "mixup": {"gamma": 0.0},
        "by-hand": {"gamma": 0.0},
        "auto": {"gamma": "auto"},
        "compiled": {"compiled": True},
    }
    mixup = GenLabelMixup(network, num_classes=10, mixer=batches.mixer, **fixed.get(kind, {"statistics": kind}))
    mixup.to(batches.device)
    if kind == "by-hand":
        mixup.detach()
    fused = batches.device.type == "cuda" or None
    network.train()
    return mixup, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=fused)


LOOPS = {"loop": epoch_seconds, "drop-in": drop_in_seconds, "drop-in-graph": graph_seconds}


def measure(
    loop: str, name: str, batch: int, kinds: list[str], steps: int, rounds: int, device: str
) -> dict[str, float]:
    """Return the images per second of each kind."""
    rng = np.random.default_rng(0)
    size, channels = (28, 1) if name == "lenet5" else (32, 3)
    x = rng.integers(0, 256, (batch * steps, channels, size, size), dtype=np.uint8)
    y = rng.integers(0, 10, len(x))
    batches = ImageBatches(x, y, batch_size=batch, mixer=Mixup(), augment=channels == 3, seed=0, device=device)
    network = NETWORKS[name](seed=0).to(device)
    if loop != "loop" and device == "cuda":
        torch.backends.cudnn.benchmark = True
        network.to(memory_format=torch.channels_last)
        for region in network.regions:
            region.compile(dynamic=False)
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            begin = perf_counter()
            epochs = LOOPS[loop](network, batches, kind, epochs=4)
            times[kind] += epochs
            total = perf_counter() - begin
            print(f"  {loop}, {kind}: {total:.1f} s, an epoch {median(epochs):.2f} s", file=sys.stderr, flush=True)
    return {kind: batch * steps / median(epochs) for kind, epochs in times.items()}


def main() -> None:
    torch._dynamo.config.recompile_limit = 64  # all kinds in one process, each compiled for itself
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", nargs="+", choices=[*LOOPS, "steps"], default=list(LOOPS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS[1:], default=list(KINDS[1:4]), help="ways of labels")
    parser.add_argument("--batch", type=int, nargs="+", default=[128])
    parser.add_argument("--steps", type=int, default=200, help="batches of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--network", choices=list(NETWORKS), default="resnet18")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    runs = []
    loops = [loop for loop in args.loops if device == "cuda" or not loop.endswith("graph")]
    for loop, batch in product(loops, args.batch):
        kinds = ["mixup", *args.kinds]
        if loop == "steps":
            seconds = measure_steps(args.network, batch, kinds, args.steps)
            runs.append({"door": loop, "network": args.network, "batch": batch, "step_milliseconds": seconds})
            print(json.dumps(runs[-1], indent=1), flush=True)
            continue
        speed = measure(loop, args.network, batch, kinds, args.steps, args.rounds, device)
        ratios = {kind: speed["mixup"] / speed[kind] for kind in kinds}
        run = {"door": loop, "network": args.network, "batch": batch}
        runs.append({**run, "images_per_second": speed, "step_ratio": ratios})
        for kind in kinds:
            words = f"{loop}, {args.network}, batch {batch}, {name}, {kind}"
            print(f"{words}: {speed[kind]:,.0f} images/s, {ratios[kind]:.3f} times mixup's step", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"device": name, "torch": torch.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Test GenLabelMixup in a training loop: its labels equal a pass by hand, and it does not change the network."""

import copy
import io
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from genlabel import CutMix, GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.integrations.batches import mixed_accuracy
from genlabel.mixing import Mixer, MixParams
from genlabel.mixing.base import blend
from genlabel.training.networks import MLP

Batch = tuple[Tensor, Tensor]
Make = Callable[..., nn.Module]
LAYERS = ("", "layer1", "layer2")
MIXERS = [
    Mixup(), Mixup(lam_per="batch"), Mixup(alpha=0.2), CutMix(), CutMix(lam_per="batch", pixels=8),
    ManifoldMixup(depths=(0,)), ManifoldMixup(depths=(1,)), ManifoldMixup(depths=(2,), lam_per="sample"),
]  # fmt: skip


def walk(network: nn.Module, x: Tensor, mixer: Mixer, draw: MixParams | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, the input of the last layer, and the mean over pixels before the pooling, by hand."""
    x = mixer.mix(x, draw) if draw is not None and draw.depth == 0 else x
    inputs: dict[str, Tensor] = {}
    for name, stage in network.named_children():
        inputs[name] = x
        x = stage(x)
        if draw is not None and draw.depth and name == LAYERS[draw.depth]:
            x = blend(x, draw)
    return x, inputs["fc"], inputs["avgpool"].mean((2, 3))


def keep_unmixed(labels: Tensor, targets: Tensor, draw: MixParams) -> Tensor:
    """Return the labels, with the given ones for rows that are mixed with lam 1 or with themselves."""
    own = [
        i for i, (j, lam) in enumerate(zip(draw.partner.tolist(), draw.lam.tolist(), strict=True)) if i == j or lam == 1
    ]
    labels = labels.clone()
    labels[own] = targets[own].to(labels)
    return labels


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
@pytest.mark.parametrize("statistics", ["near", "clean", "part"])
@pytest.mark.parametrize("layer", [None, "layer2", "flatten"])
def test_labels_equal_a_pass_by_hand(
    mixer: Mixer, statistics: str, layer: str | None, make_network: Make, digits: Batch
) -> None:
    (x, y), settings = digits, {"statistics": statistics, "margin": 0.3, "beta": 0.5}
    network, copied = make_network(), make_network()
    mixup = GenLabelMixup(
        network, num_classes=10, mixer=mixer, feature_layer=layer, mix_layers=LAYERS, gamma=0.4, **settings
    )
    oracle = OnlineGenLabel(OnlineGaussianDensity(10, **settings), gamma=0.4)
    targets = torch.eye(10)[y]
    index = 2 if layer == "layer2" else 1
    for _ in range(3):
        draw = copy.deepcopy(mixup).draw(len(x))
        batch = mixup.mix(x, y)
        scores = network(batch.x)
        target = batch.target(scores)
        clean = {"near": 0, "clean": 64, "part": 16}[statistics]
        buffers = [buffer.clone() for buffer in copied.buffers()]
        before = walk(copied, x[:clean], mixer, None)[index] if clean else None
        for buffer, value in zip(copied.buffers(), buffers, strict=True):
            buffer.copy_(value)
        expected = walk(copied, x, mixer, draw)
        features = expected[index].detach() if before is None else before.detach()
        oracle.observe(features, targets[: len(features)], draw)
        expected_target = keep_unmixed(oracle.label(expected[index].detach(), targets, draw), targets, draw)
        torch.testing.assert_close(scores, expected[0])
        torch.testing.assert_close(target, expected_target)
        torch.testing.assert_close(batch.loss(scores), -(expected_target * scores.log_softmax(1)).sum(1).mean())
    for first, second in zip(network.buffers(), copied.buffers(), strict=True):
        torch.testing.assert_close(first, second)


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
def test_gamma_zero_equals_mixup(mixer: Mixer, make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, mixer=mixer, mix_layers=LAYERS, gamma=0.0)
    draw = copy.deepcopy(mixup).draw(len(x))
    batch = mixup.mix(x, y)
    network(batch.x)
    torch.testing.assert_close(batch.target(), blend(torch.eye(10)[y], draw))


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("per", ["sample", "batch"])
@pytest.mark.parametrize("soft", [False, True])
def test_batches_of_any_size_are_not_modified(n: int, per: str, soft: bool, make_network: Make, digits: Batch) -> None:
    x, y = digits[0][:n], digits[1][:n]
    network, originals = make_network(), (x.clone(), y.clone())
    mixup = GenLabelMixup(network, num_classes=10, mixer=Mixup(lam_per=per), gamma=0.5)
    labels = 0.9 * torch.eye(10)[y] + 0.01 if soft else y
    batch = mixup.mix(x, labels)
    loss = batch.loss(network(batch.x))
    loss.backward()
    assert torch.isfinite(loss)
    target = batch.target()
    assert target.dtype == torch.float32
    assert not target.requires_grad
    torch.testing.assert_close(target.sum(1), torch.ones(n))
    assert torch.equal(x, originals[0])
    assert torch.equal(y, originals[1])
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("top", [1, 2, 3, None])
def test_top_k_limits_the_classes_of_a_label(top: int | None, make_network: Make, digits: Batch) -> None:
    network = make_network()
    settings = {"statistics": "clean", "temperature": 50.0}
    mixup = GenLabelMixup(network, num_classes=10, gamma=1.0, top_k=top, **settings)
    batch = mixup.mix(*digits)
    network(batch.x)
    assert int((batch.target() > 0).sum(1).max()) == (10 if top is None else top)


def test_warmup_interpolates_from_mixup_to_gamma(make_network: Make, digits: Batch) -> None:
    mixups = []
    for ramp in (0, 4):
        network = make_network()
        mixup = GenLabelMixup(network, num_classes=10, gamma=0.8, warmup_steps=ramp, statistics="clean")
        with torch.no_grad():
            network.requires_grad_(False)
            mixups.append([])
            for _ in range(5):
                draw = copy.deepcopy(mixup).draw(64)
                batch = mixup.mix(*digits)
                network(batch.x)
                mixups[-1].append(batch.target() - blend(torch.eye(10)[digits[1]], draw))
    for step, (whole, part) in enumerate(zip(*mixups, strict=True), start=1):
        torch.testing.assert_close(part, whole * min(1.0, step / 4))


def test_class_indices_are_exact_in_bfloat16() -> None:
    network = nn.Sequential(nn.Linear(4, 300)).bfloat16()
    x, y = torch.rand(8, 4, dtype=torch.bfloat16), torch.arange(257, 265)
    for mixup in (GenLabelMixup(network, num_classes=300, gamma=0.0), GenLabelMixup(network, num_classes=300)):
        draw = copy.deepcopy(mixup).draw(8)
        batch = mixup.mix(x, y)
        assert batch.x.dtype == torch.bfloat16
        assert batch.loss(network(batch.x)).dtype == torch.float32
        assert batch.target().dtype == torch.float32
        if mixup.gamma == 0.0:
            torch.testing.assert_close(batch.target(), blend(torch.eye(300)[y], draw))
    first, target = GenLabelMixup(num_classes=300, gamma=0.0)(x, y)
    assert (first.dtype, target.dtype) == (torch.bfloat16, torch.float32)
    assert set(target.nonzero()[:, 1].tolist()) == set(range(257, 265))


@pytest.mark.parametrize("whose", ["mixup", "network"])
def test_evaluation_neither_mixes_nor_learns(whose: str, make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, mixer=ManifoldMixup(depths=(1,)), mix_layers=LAYERS)
    network(mixup.mix(x, y).x)  # abandoned without a loss
    (mixup if whose == "mixup" else network).eval()
    state = {name: value.clone() for name, value in mixup.state_dict().items()}
    plain = copy.deepcopy(network)
    batch = mixup.mix(x, y)
    assert batch.x is x
    scores = network(x)
    torch.testing.assert_close(scores, plain(x))
    torch.testing.assert_close(batch.loss(scores), nn.functional.cross_entropy(scores, y))
    assert float(batch.accuracy(scores).weighted) == float((scores.argmax(1) == y).float().mean())
    for name, value in mixup.state_dict().items():
        assert torch.equal(value, state[name])
    mixed, target = mixup.eval()(x, y)
    assert mixed is x
    assert torch.equal(target, torch.eye(10)[y])


def test_an_abandoned_batch_does_not_affect_evaluation(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, mixer=ManifoldMixup(depths=(1,)), mix_layers=LAYERS)
    plain = copy.deepcopy(network).eval()
    mixup.mix(x, y)
    network.eval()
    torch.testing.assert_close(network(x), plain(x))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))], ids=["deepcopy", "pickle"]
)
def test_a_copy_of_the_network_has_no_active_hooks(copied: Callable[[nn.Module], nn.Module], digits: Batch) -> None:
    (x, y), network = digits, nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    plain = network(x)
    mixup = GenLabelMixup(network, num_classes=10, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "2"))
    batch = mixup.mix(x, y)  # the hooks are open
    torch.testing.assert_close(copied(network)(x), plain)
    assert not torch.allclose(network(x), plain)
    assert batch.target().shape == (64, 10)


def test_a_copy_of_network_and_mixup_is_independent(make_network: Make, digits: Batch) -> None:
    both = nn.ModuleDict({"network": make_network()})
    both["mixup"] = GenLabelMixup(
        both["network"], num_classes=10, mixer=ManifoldMixup(depths=(0, 1, 2)), mix_layers=LAYERS, gamma=0.3
    )
    copied = copy.deepcopy(both)
    for _ in range(3):
        batches = [(pair["mixup"].mix(*digits), pair["network"]) for pair in (both, copied)]
        losses = [batch.loss(network(batch.x)) for batch, network in batches]
        torch.testing.assert_close(*losses)
    assert copied["mixup"].network is copied["network"]


def test_hooks_are_removed_on_exit(make_network: Make, digits: Batch) -> None:
    network = make_network()
    with GenLabelMixup(network, num_classes=10, mixer=ManifoldMixup(depths=(1,)), mix_layers=LAYERS) as mixup:
        assert any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
        mixup.mix(*digits)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    torch.testing.assert_close(network(digits[0]), make_network()(digits[0]))
    batch = mixup.mix(*digits)  # registers the hooks again
    network(batch.x)
    assert batch.target().shape == (64, 10)


def test_a_resumed_run_is_the_same(make_network: Make, digits: Batch) -> None:
    def make() -> tuple[nn.Module, GenLabelMixup]:
        network = make_network()
        return network, GenLabelMixup(network, num_classes=10, gamma=0.5, warmup_steps=3, seed=5, temperature="mixup")

    def step(network: nn.Module, mixup: GenLabelMixup) -> Tensor:
        batch = mixup.mix(*digits)
        network(batch.x)
        return batch.target()

    network, mixup = make()
    for _ in range(3):
        step(network, mixup)
    stream = io.BytesIO()
    torch.save(mixup.state_dict(), stream)
    other, resumed = make()
    resumed.load_state_dict(torch.load(io.BytesIO(stream.getvalue()), weights_only=True))
    other.load_state_dict(network.state_dict())
    torch.testing.assert_close(step(network, mixup), step(other, resumed), rtol=0.0, atol=0.0)
    assert not any("conv" in name or "fc" in name for name in mixup.state_dict())
    assert not list(mixup.parameters())


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_draw_is_a_function_of_seed_rank_and_step(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", str(rank))
    mixup = GenLabelMixup(num_classes=3, gamma=0.0, seed=7)
    drawn = [mixup.draw(5) for _ in range(3)]
    for t, draw in enumerate(drawn):
        expected = Mixup().draw(5, np.random.default_rng([7, rank, t]))
        assert np.array_equal(draw.partner, expected.partner)
        assert np.allclose(draw.lam, expected.lam)
    assert len({tuple(draw.lam.tolist()) for draw in drawn}) == 3
    if rank == 0:
        assert np.allclose(drawn[0].lam, Mixup().draw(5, 7).lam)


def test_a_staged_network_uses_the_input_of_its_head(digits: Batch) -> None:
    network = MLP(64, 10, hidden=(16,), seed=0)
    mixup = GenLabelMixup(network, num_classes=10, gamma=1.0, statistics="clean")
    x = digits[0].flatten(1)
    draw = copy.deepcopy(mixup).draw(64)
    batch = mixup.mix(x, digits[1])
    network(batch.x)
    oracle = OnlineGenLabel(OnlineGaussianDensity(10, statistics="clean"), gamma=1.0)
    oracle.observe(network.encode(x, 1), torch.eye(10)[digits[1]], draw)
    targets = torch.eye(10)[digits[1]]
    expected = oracle.label(network.encode(blend(x, draw), 1).detach(), targets, draw)
    torch.testing.assert_close(batch.target(), keep_unmixed(expected, targets, draw))


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
@pytest.mark.parametrize("statistics", ["near", "clean"])
@pytest.mark.filterwarnings("ignore:TensorFloat32", "ignore:.*torch.jit")  # of the compiler
def test_a_step_does_not_synchronize_the_gpu(
    mixer: Mixer, statistics: str, make_network: Make, digits: Batch,
    nothing_waits: Callable[[], AbstractContextManager[None]],
) -> None:  # fmt: skip
    x, y = (part.cuda() for part in digits)
    network = make_network().cuda()
    mixup = GenLabelMixup(
        network, num_classes=10, mixer=mixer, mix_layers=LAYERS, statistics=statistics, warmup_steps=5
    ).cuda()
    batch = mixup.mix(x, y)
    batch.loss(network(batch.x)).backward()
    with nothing_waits():
        batch = mixup.mix(x, y)
        scores = network(batch.x)
        batch.loss(scores).backward()
        accuracy = batch.accuracy(scores)
    assert batch.target().device == x.device
    assert 0.0 <= float(accuracy.weighted) <= 1.0


class CountOperations(TorchDispatchMode):
    """Count the operations of torch, without views and casts, each of which a GPU would launch."""

    VIEWS = (
        "view",
        "slice",
        "select",
        "squeeze",
        "transpose",
        "mT",
        "aten.t.",
        "detach",
        "split",
        "expand",
        "aten.to.",
    )

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the operation, and run it."""
        self.count += not any(name in str(func) for name in self.VIEWS)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("gamma, limit", [(0.1, 90), ("auto", 135)])
def test_labels_take_few_operations(gamma: float | str, limit: int, make_network: Make, digits: Batch) -> None:
    """Each operation takes some microseconds, in a step of a small network as in one of a large one."""
    counts = []
    for weight in (0.0, gamma):
        network = make_network()
        mixup = GenLabelMixup(network, num_classes=10, gamma=weight, compiled=False)
        for _ in range(2):
            with CountOperations() as operations:
                batch = mixup.mix(*digits)
                batch.loss(network(batch.x)).backward()
        counts.append(operations.count)
    assert counts[1] - counts[0] <= limit


def test_accuracy_counts_both_parents() -> None:
    rng = np.random.default_rng(0)
    scores, y = torch.from_numpy(rng.normal(size=(50, 4))), torch.from_numpy(rng.integers(4, size=50))
    draw = Mixup().draw(50, rng)
    predicted = scores.argmax(1).numpy()
    weighted = draw.lam * (predicted == y.numpy()) + (1 - draw.lam) * (predicted == y.numpy()[draw.partner])
    dominant = np.where(draw.lam >= 0.5, y.numpy(), y.numpy()[draw.partner])
    tensors = MixParams(torch.from_numpy(draw.partner), torch.from_numpy(draw.lam))
    for labels in (y, torch.eye(4)[y]):
        ours = mixed_accuracy(scores, labels, tensors)
        assert float(ours.weighted) == pytest.approx(weighted.mean())
        assert float(ours.dominant) == pytest.approx((predicted == dominant).mean())


def early(network: nn.Module, x: Tensor, y: Tensor) -> None:
    """Take features from a layer before the mixed layer."""
    mixer = ManifoldMixup(depths=(2,))
    mixup = GenLabelMixup(network, num_classes=10, mixer=mixer, mix_layers=LAYERS, feature_layer="layer1")
    network(mixup.mix(x, y).x)


def second_pass(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> None:
    """The labels of one batch, and the scores of another."""
    batch = mixup.mix(x, y)
    batch.loss(network(batch.x))
    batch.loss(network(x.flip(0)))


def other_points(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> None:
    """A pass over points that were not mixed."""
    mixup.mix(x, y).loss(network(x))


def older_batch(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> None:
    """The loss of a batch after the next one was mixed."""
    first, second = mixup.mix(x, y), mixup.mix(x, y)
    first.loss(network(second.x))


def evaluation_in_between(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> None:
    """A batch that was mixed for training, and scores of an evaluation."""
    batch = mixup.mix(x, y)
    batch.loss(network(batch.x))
    batch.loss(network.eval()(x))


def not_a_number(mixup: GenLabelMixup, x: Tensor, y: Tensor) -> None:
    """One pixel that is NaN."""
    x = x.clone()
    x[7, 0, 3, 3] = torch.nan
    mixup.mix(x, y)


def mixed_by_chance(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> None:
    """Every other batch is mixed, and the batch takes the place of its points."""
    for chance in (False, True):
        network(mixup.mix(x, y) if chance else x)


def fitted_density(x: Tensor, y: Tensor) -> GaussianDensity:
    """Density that does not learn in training."""
    return GaussianDensity(shrinkage=0.5).fit(x.flatten(1), y)


@pytest.mark.parametrize(
    "call, error, keyword",
    [
        (lambda m, n, x, y: m.mix(x, y).loss(torch.zeros(64, 10)), RuntimeError, "run"),
        (lambda m, n, x, y: m.mix(x, y).target(), RuntimeError, "run"),
        (lambda m, n, x, y: m.mix(x, y).loss(torch.zeros(64, 9)), RuntimeError, "run"),
        (lambda m, n, x, y: (b := m.mix(x, y), n(b.x), b.loss(torch.zeros(64, 9))), ValueError, r"\(64, 9\)"),
        (lambda m, n, x, y: (b := m.mix(x, y)).loss({"logits": n(b.x)}), TypeError, "dict"),
        (lambda m, n, x, y: second_pass(m, n, x, y), RuntimeError, "points"),
        (lambda m, n, x, y: second_pass(m.eval(), n, x, y), RuntimeError, "points"),
        (lambda m, n, x, y: other_points(m, n, x, y), RuntimeError, "batch.x"),
        (lambda m, n, x, y: older_batch(m, n, x, y), RuntimeError, "another batch"),
        (lambda m, n, x, y: evaluation_in_between(m, n, x, y), RuntimeError, "evaluation"),
        (lambda m, n, x, y: mixed_by_chance(m, n, x, y), TypeError, "MixedBatch"),
        (lambda m, n, x, y: m.mix((255 * x).to(torch.uint8), y), TypeError, "uint8"),
        (lambda m, n, x, y: m.mix(x.numpy(), y), TypeError, "ndarray"),
        (lambda m, n, x, y: not_a_number(m, x, y), ValueError, "row 7"),
        (lambda m, n, x, y: m.mix(x, torch.zeros(64, 8, 8).long()), ValueError, "masks"),
        (lambda m, n, x, y: m.mix(x, [{"boxes": torch.zeros(2, 4)}] * 64), TypeError, "boxes"),
        (lambda m, n, x, y: m.mix(x, 2.0 * torch.eye(10)[y]), ValueError, "2"),
        (lambda m, n, x, y: m.mix(x, 1.0 - torch.eye(10)[y]), ValueError, "multi_label"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, multi_label=True), ValueError, "gamma=0"),
        (
            lambda m, n, x, y: GenLabelMixup(n, num_classes=10, gamma=0.0, multi_label=True).mix(x, y),
            ValueError,
            "multi_label",
        ),
        (
            lambda m, n, x, y: GenLabelMixup(n, num_classes=10, gamma="auto", density=fitted_density(x, y)),
            ValueError,
            "auto",
        ),
        (lambda m, n, x, y: setattr(m, "gamma", "best"), ValueError, "best"),
        (lambda m, n, x, y: m.mix(x, y + 5), ValueError, "14"),
        (lambda m, n, x, y: m.mix(x, y.float()), ValueError, "float32"),
        (lambda m, n, x, y: m.mix(x, torch.eye(9)[y.clamp(max=8)]), ValueError, "9"),
        (lambda m, n, x, y: m.mix(x, y[:5]), ValueError, "64"),
        (lambda m, n, x, y: m.mix(x[:0], y[:0]), ValueError, "row"),
        (lambda m, n, x, y: m(x, y), RuntimeError, "network"),
        (lambda m, n, x, y: early(n, x, y), RuntimeError, "'layer2'"),
        (lambda m, n, x, y: m.update_ema(), RuntimeError, "teacher='ema'"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=11), ValueError, "nn.Linear"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, feature_layer="layer9"), ValueError, "'layer9'"),
        (lambda m, n, x, y: GenLabelMixup(num_classes=10), ValueError, "gamma=0"),
        (lambda m, n, x, y: GenLabelMixup(num_classes=10, gamma=0.0).mix(x, y), RuntimeError, "network"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, mixer=ManifoldMixup()), ValueError, "depth 2"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, mix_layers=("layer1",)), ValueError, "''"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, mixer="cutmix"), TypeError, "mixer='cutmix'"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, teacher=n), ValueError, "teacher"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, teacher="mean"), ValueError, "teacher='mean'"),
        (lambda m, n, x, y: GenLabelMixup(nn.DataParallel(n), num_classes=10), TypeError, "DataParallel"),
        (lambda m, n, x, y: GenLabelMixup(n, num_classes=10, density=OnlineGaussianDensity(9)), ValueError, "=9"),
        (
            lambda m, n, x, y: GenLabelMixup(n, num_classes=10, density=OnlineGaussianDensity(10), beta=0.5),
            ValueError,
            "beta",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_misuse_raises(
    call: Callable[..., object], error: type[Exception], keyword: str, make_network: Make, digits: Batch
) -> None:
    network = make_network()
    mixup = GenLabelMixup(network, num_classes=10)
    with pytest.raises(error, match=keyword):
        call(mixup, network, *digits)


class Shared(nn.Module):
    """A module with a ReLU that runs twice and a layer that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.relu = nn.Linear(4, 4), nn.Linear(4, 3), nn.ReLU()
        self.aside = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.relu(self.relu(self.first(x)) - 1.0))


@pytest.mark.parametrize("name, keyword", [("relu", "2 times"), ("aside", "not run")])
def test_mixing_after_a_layer_that_does_not_run_once_raises(name: str, keyword: str) -> None:
    network = Shared()
    mixup = GenLabelMixup(network, num_classes=3, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", name), gamma=0.0)
    batch = mixup.mix(torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    with pytest.raises(RuntimeError, match=keyword):
        batch.loss(network(batch.x))


def test_mixing_after_a_tuple_mixes_its_first_item() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, str]:
            return x, "attention"

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair, self.head = Pair(), nn.Linear(3, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            h, word = self.pair(x)
            assert word == "attention"
            return self.head(h.mean(1))

    network, x, y = Two(), torch.rand(4, 5, 3), torch.tensor([0, 1, 1, 0])
    mixup = GenLabelMixup(network, num_classes=2, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "pair"))
    expected = blend(network.head(x.mean(1)), copy.deepcopy(mixup).draw(4))
    batch = mixup.mix(x, y)
    torch.testing.assert_close(network(batch.x), expected)
    assert batch.target().shape == (4, 2)

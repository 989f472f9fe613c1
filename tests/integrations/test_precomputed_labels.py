"""Test labels that are computed before the network, as in timm and torchvision: of a fitted density or a teacher."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from genlabel import CutMix, GaussianDensity, GenLabel, GenLabelMixup, ManifoldMixup, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.integrations import MixCollate
from genlabel.integrations.batches import mixed_accuracy
from genlabel.mixing import Mixer, MixParams
from genlabel.mixing.base import blend, draw_to_device

Batch = tuple[Tensor, Tensor]
Make = Callable[..., nn.Module]


def keep_unmixed(labels: Tensor, targets: Tensor, draw: MixParams) -> Tensor:
    """Return the labels, with the given ones for rows that are mixed with lam 1 or with themselves."""
    own = [
        i for i, (j, lam) in enumerate(zip(draw.partner.tolist(), draw.lam.tolist(), strict=True)) if i == j or lam == 1
    ]
    labels = labels.clone()
    labels[own] = targets[own].to(labels)
    return labels


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(lam_per="batch"), CutMix()], ids=repr)
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
def test_a_fitted_density_labels_the_flattened_points(mixer: Mixer, gamma: float, digits: Batch) -> None:
    x, y = digits
    density = GaussianDensity(shrinkage=0.5).fit(x.flatten(1), y)
    mixup = GenLabelMixup(num_classes=10, mixer=mixer, density=density, gamma=gamma, top_k=None)
    draw = copy.deepcopy(mixup).draw(64)
    original = x.clone()
    mixed, target = mixup(x, y)
    torch.testing.assert_close(mixed, mixer.mix(x, draw))
    expected = GenLabel.from_fitted(density, gamma=gamma).label(mixed.flatten(1).double(), torch.eye(10)[y], draw)
    expected = keep_unmixed(expected.float(), torch.eye(10)[y], draw)
    torch.testing.assert_close(target, expected, rtol=1e-3, atol=1e-4)
    assert target.dtype == torch.float32
    assert torch.equal(x, original)
    assert mixed_accuracy(target, y, draw_to_device(draw, x)).weighted > 0.3


def test_a_fitted_density_works_in_a_training_loop(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    density = GaussianDensity(shrinkage=0.5).fit(x.flatten(1), y)
    mixups = [
        GenLabelMixup(module, num_classes=10, density=density, gamma=0.7, mixer=Mixup()) for module in (None, network)
    ]  # fmt: skip
    target = mixups[0](x, y)[1]
    batch = mixups[1].mix(x, y)
    torch.testing.assert_close(batch.target(network(batch.x)), target)
    hidden = GenLabelMixup(
        network, num_classes=10, density=density, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "layer1"), gamma=1.0
    )
    draw = copy.deepcopy(hidden).draw(64)
    batch = hidden.mix(x, y)
    assert batch.x is x  # mixed in the network; the density is evaluated at the mixed input
    network(x)
    expected = GenLabel.from_fitted(density, top_k=2).label(blend(x, draw).flatten(1), torch.eye(10)[y], draw)
    expected = keep_unmixed(expected, torch.eye(10)[y], draw)
    torch.testing.assert_close(batch.target(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("statistics", ["near", "clean", "part"])
def test_a_frozen_teacher_labels_with_its_features(statistics: str, make_network: Make, digits: Batch) -> None:
    (x, y), teacher = digits, make_network()
    teacher(x)  # running statistics of batch normalization
    settings = {"statistics": statistics, "margin": 0.3}
    mixup = GenLabelMixup(num_classes=10, teacher=teacher, gamma=0.6, **settings)
    oracle = OnlineGenLabel(OnlineGaussianDensity(10, **settings), gamma=0.6)
    body = nn.Sequential(*list(copy.deepcopy(teacher).children())[:-1]).eval()
    state = copy.deepcopy(teacher.state_dict())
    for _ in range(3):
        draw = copy.deepcopy(mixup).draw(64)
        mixed, target = mixup.train()(x, y)
        rows = {"near": mixed, "clean": x, "part": x[:16]}[statistics]
        oracle.observe(body(rows), torch.eye(10)[y][: len(rows)], draw)
        expected = oracle.label(body(mixed).detach(), torch.eye(10)[y], draw)
        torch.testing.assert_close(target, keep_unmixed(expected, torch.eye(10)[y], draw))
    assert not teacher.training
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, state[name])


def test_an_ema_teacher_is_updated_and_saved(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, teacher="ema", decay=0.5)
    expected = [p.detach().clone() for p in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    for t in range(1, 12):
        mixed, target = mixup(x, y)
        loss = nn.functional.cross_entropy(network(mixed), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mixup.update_ema()
        rate = min(0.5, (1 + t) / (10 + t))
        expected = [rate * old + (1 - rate) * p.detach() for old, p in zip(expected, network.parameters(), strict=True)]
    for teacher_value, value in zip(mixup.teacher.network.parameters(), expected, strict=True):
        torch.testing.assert_close(teacher_value, value)
        assert not teacher_value.requires_grad
    for teacher_value, network_value in zip(mixup.teacher.network.buffers(), network.buffers(), strict=True):
        assert torch.equal(teacher_value, network_value)
    other = GenLabelMixup(make_network(), num_classes=10, teacher="ema", decay=0.5)
    other.load_state_dict(mixup.state_dict())
    torch.testing.assert_close(other(x, y)[1], mixup(x, y)[1])
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), mixup.network.parameters(), strict=True))


def test_memory_format_is_unchanged(digits: Batch) -> None:
    x = torch.rand(6, 3, 8, 8).to(memory_format=torch.channels_last)
    y = digits[1][:6]
    for mixer in (Mixup(), Mixup(lam_per="batch"), CutMix()):
        mixed = GenLabelMixup(num_classes=10, gamma=0.0, mixer=mixer)(x, y)[0]
        assert mixed.is_contiguous(memory_format=torch.channels_last)
        plain = GenLabelMixup(num_classes=10, gamma=0.0, mixer=mixer)(x.contiguous(), y)[0]
        assert plain.is_contiguous()
        torch.testing.assert_close(mixed, plain)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_mixes_in_its_workers(workers: int) -> None:
    x, y = torch.arange(32.0)[:, None], torch.arange(32)
    collate = MixCollate(GenLabelMixup(num_classes=32, gamma=0.0, mixer=Mixup(lam_per="batch")))
    loader = DataLoader(TensorDataset(x, y), batch_size=8, collate_fn=collate, num_workers=workers)

    def epoch() -> list[Batch]:
        return list(loader)

    torch.manual_seed(0)
    first, second = epoch(), epoch()
    for mixed, target in first:
        assert mixed.shape == (8, 1)
        assert target.dtype == torch.float32
        torch.testing.assert_close(target.sum(1), torch.ones(8))
    shares = {round(float(target[target < 1.0].max()), 6) for _, target in first + second}
    assert len(shares) == 8  # one lam a batch, all different
    if workers:
        torch.manual_seed(0)
        again = epoch()
        assert all(torch.equal(a[1], b[1]) for a, b in zip(first, again, strict=True))


def test_settings_that_need_the_network_raise(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    with pytest.raises(RuntimeError, match="network"):
        GenLabelMixup(network, num_classes=10, gamma=0.0, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "layer1"))(
            x, y
        )
    with pytest.raises(ValueError, match="inside"):
        GenLabelMixup(num_classes=10, gamma=0.0, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "layer1"))
    with pytest.raises(ValueError, match="learns"):
        MixCollate(GenLabelMixup(network, num_classes=10))
    with pytest.raises(TypeError, match="GenLabelMixup"):
        MixCollate(Mixup())  # type: ignore[arg-type]
    density = GaussianDensity(shrinkage=0.5).fit(x.flatten(1), y)
    with pytest.raises(ValueError, match="warmup_steps=5"):
        GenLabelMixup(num_classes=10, density=density, warmup_steps=5)
    with pytest.raises(ValueError, match="10"):
        GenLabelMixup(num_classes=11, density=density)
    with pytest.raises(ValueError, match="averages"):
        GenLabelMixup(num_classes=10, teacher="ema")
    assert np.isfinite(density.log_prob(x.flatten(1)).numpy()).all()


def test_a_loader_of_dicts_or_of_tuples_of_three() -> None:
    mixup, x, y = GenLabelMixup(num_classes=3, gamma=0.0), torch.rand(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    named = [{"image": row, "label": int(c), "id": i} for i, (row, c) in enumerate(zip(x, y, strict=True))]
    batch = MixCollate(mixup, x="image", y="label")(named)
    assert batch["id"].tolist() == [*range(6)]
    torch.testing.assert_close(batch["label"].sum(1), torch.ones(6))
    triples = [(i, row, int(c)) for i, (row, c) in enumerate(zip(x, y, strict=True))]
    index, mixed, target = MixCollate(mixup, x=1, y=2)(triples)
    assert index.tolist() == [*range(6)]
    assert not torch.equal(mixed, x)
    assert target.shape == (6, 3)
    with pytest.raises(KeyError, match="image"):
        MixCollate(mixup)(named)
    with pytest.raises(IndexError, match="3 entries"):
        MixCollate(mixup, y=5)(triples)

"""Settings of GenLabelMixup: they may change while a network trains, and do what timm and PyTorch do."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch import Tensor, nn

from genlabel import CutMix, GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import LogisticLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing.base import blend, draw_to_device

Batch = tuple[Tensor, Tensor]
Make = Callable[..., nn.Module]


def label(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    batch = mixup.mix(x, y)
    network(batch.x)
    return batch.target()


@pytest.mark.parametrize("start", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # of the compiler
def test_gamma_can_change(start: float, gamma: float, compiled: bool, make_network: Make, digits: Batch) -> None:
    options = {"num_classes": 10, "statistics": "clean"}
    network, twin = make_network(), make_network()
    changed = GenLabelMixup(network, gamma=start, compiled=compiled, **options)
    expected = GenLabelMixup(twin, gamma=gamma, **options)
    changed.gamma = gamma
    assert changed.gamma == gamma
    assert f"gamma={gamma}" in repr(changed)
    for _ in range(2):
        torch.testing.assert_close(label(changed, network, *digits), label(expected, twin, *digits))


def test_a_new_gamma_needs_no_compilation(digits: Batch) -> None:
    features, targets = digits[0].flatten(1), torch.eye(10)[digits[1]]
    draw = draw_to_device(Mixup().draw(64, 0), features)
    mixup = GenLabelMixup(nn.Linear(64, 10), num_classes=10, gamma=0.1)
    graphs = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    label = torch.compile(observe_and_label, backend=count, dynamic=False)
    mixup.labeler.allocate(features)
    labels = []
    for gamma in (0.1, 0.2, 0.9):
        mixup.gamma = gamma
        labels.append(label(mixup.labeler, features, targets, features, targets, draw))
    assert len(graphs) == 1
    assert not torch.allclose(labels[0], labels[2])


def test_gamma_of_a_fitted_density_can_change(digits: Batch) -> None:
    x, y = digits[0].flatten(1), digits[1]
    density = GaussianDensity(shrinkage=0.5).fit(x, y)
    mixup, twin = (GenLabelMixup(num_classes=10, density=density, gamma=gamma) for gamma in (0.9, 0.2))
    mixup.gamma = 0.2
    torch.testing.assert_close(mixup(x, y), twin(x, y))


def test_gamma_follows_the_module_to_another_precision_and_into_a_copy(make_network: Make, digits: Batch) -> None:
    network = make_network()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.1, statistics="clean").double().float()
    both = copy.deepcopy(nn.ModuleDict({"network": network, "mixup": mixup}))
    for one in (mixup, both["mixup"]):
        one.gamma = 1.0
    torch.testing.assert_close(label(mixup, network, *digits), label(both["mixup"], both["network"], *digits))
    assert isinstance(mixup.labeler, OnlineGenLabel)
    assert float(mixup.labeler.gamma) == 1.0


@pytest.mark.parametrize("lam_per", ["sample", "batch"])
def test_prob_is_the_share_of_rows_that_are_mixed(lam_per: str) -> None:
    mixup = GenLabelMixup(num_classes=2, gamma=0.0, mixer=Mixup(lam_per=lam_per), prob=0.3)
    lam = np.stack([mixup.draw(50).lam.numpy() for _ in range(400)])
    is_mixed = lam < 1.0
    if lam_per == "batch":
        assert (is_mixed.all(1) | (~is_mixed).all(1)).all()
        is_mixed = is_mixed[:, :1]
    assert abs(is_mixed.mean() - 0.3) < 4 * (0.21 / is_mixed.size) ** 0.5
    x, y = torch.rand(50, 3), torch.randint(2, (50,))
    mixup.prob = 0.0
    mixed, target = mixup(x, y)
    assert torch.equal(mixed, x)
    assert torch.equal(target, torch.eye(2)[y])


def test_a_pair_of_mixers_takes_turns(digits: Batch) -> None:
    x, y = digits
    mixup = GenLabelMixup(num_classes=10, gamma=0.0, mixer=(Mixup(), CutMix()))
    for share in (0.0, 0.25, 1.0):
        mixup.switch_prob = share
        draws = [mixup.draw(4) for _ in range(300)]
        pasted = np.array([bool((draw.box != 0).any()) for draw in draws])
        assert abs(pasted.mean() - share) <= 4 * (share * (1 - share) / 300) ** 0.5
        mixed = mixup.mixer.mix(x[:4], draws[0])
        expected = (CutMix() if pasted[0] else Mixup()).mix(x[:4], draws[0])
        torch.testing.assert_close(mixed, expected)
    draw = copy.deepcopy(mixup).draw(64)
    torch.testing.assert_close(mixup(x, y)[1], blend(torch.eye(10)[y], draw))


def test_mixing_ends_at_off_step(make_network: Make, digits: Batch) -> None:
    network = make_network()
    mixup = GenLabelMixup(network, num_classes=10, off_step=2)
    assert [mixup.mix(*digits).x is digits[0] for _ in range(4)] == [False, False, True, True]
    mixup.off_step = None
    assert mixup.mix(*digits).x is not digits[0]


def test_a_labeler_of_ones_own(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, labeler=LogisticLabel(0.3))
    draw = copy.deepcopy(mixup).draw(64)
    is_pair = draw.partner != torch.arange(64)
    expected = torch.where(is_pair[:, None], LogisticLabel(0.3).label(x, torch.eye(10)[y], draw), torch.eye(10)[y])
    torch.testing.assert_close(label(mixup, network, x, y), expected)
    online = OnlineGenLabel(OnlineGaussianDensity(10, statistics="clean"), gamma=0.4)
    own = GenLabelMixup(network, num_classes=10, labeler=online)
    twin = GenLabelMixup(network, num_classes=10, gamma=0.4, statistics="clean")
    for mixup in (own, twin):
        mixup.detach()
    own_label = label(own, network, x, y)
    own.detach()
    torch.testing.assert_close(own_label, label(twin, network, x, y))


def test_features_are_the_input_of_a_named_head(make_network: Make, digits: Batch) -> None:
    labels = []
    for names in ({}, {"input_of": "fc"}, {"feature_layer": "flatten"}):
        network = make_network()
        mixup = GenLabelMixup(network, num_classes=10, gamma=1.0, statistics="clean", **names)
        labels.append(label(mixup, network, *digits))
    torch.testing.assert_close(labels[1], labels[0])
    torch.testing.assert_close(labels[2], labels[0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_clean_rows_is_that_of_class_indices(
    reduction: str, label_smoothing: float, weighted: bool, make_network: Make, digits: Batch
) -> None:
    network = make_network().eval()
    mixup = GenLabelMixup(network, num_classes=10)
    options = {"reduction": reduction, "label_smoothing": label_smoothing}
    options["weight"] = torch.linspace(0.2, 3.0, 10) if weighted else None
    batch = mixup.mix(*digits)
    scores = network(batch.x)
    torch.testing.assert_close(batch.loss(scores, **options), nn.functional.cross_entropy(scores, digits[1], **options))


@pytest.mark.parametrize(
    "options, error, keyword",
    [
        ({"prob": 1.5}, ValueError, "prob"),
        ({"switch_prob": -0.1}, ValueError, "switch_prob"),
        ({"gamma": 2.0}, ValueError, "gamma"),
        ({"mixer": ()}, TypeError, "mixer"),
        ({"mixer": (Mixup(), CutMix(), Mixup())}, TypeError, "mixer"),
        ({"mixer": (Mixup(), ManifoldMixup())}, ValueError, "mix_layers"),
        ({"labeler": "logistic"}, TypeError, "labeler"),
        ({"labeler": LogisticLabel(), "density": OnlineGaussianDensity(10)}, ValueError, "labeler"),
        ({"labeler": LogisticLabel(), "beta": 0.5}, ValueError, "beta"),
        ({"feature_layer": "layer1", "input_of": "fc"}, ValueError, "input_of"),
        ({"input_of": "head"}, ValueError, "'head'"),
        ({"alpha": 0.2}, TypeError, r"mixer=Mixup\(alpha=0.2\)"),
        ({"betta": 0.2}, TypeError, "betta"),
        ({"num_classes": 5}, ValueError, "num_classes"),
    ],
    ids=str,
)
def test_bad_settings_are_named(
    options: dict[str, object], error: type[Exception], keyword: str, make_network: Make
) -> None:
    with pytest.raises(error, match=keyword):
        GenLabelMixup(make_network(), **{"num_classes": 10, **options})


def test_gamma_has_no_effect_on_a_labeler_of_ones_own(make_network: Make) -> None:
    mixup = GenLabelMixup(make_network(), num_classes=10, labeler=LogisticLabel())
    assert mixup.gamma is None
    with pytest.raises(ValueError, match="gamma"):
        mixup.gamma = 0.5


def test_gamma_without_a_source_of_features_is_refused() -> None:
    mixup = GenLabelMixup(num_classes=3, gamma=0.0)
    with pytest.raises(ValueError, match="network"):
        mixup.gamma = 0.5
    assert mixup.gamma == 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_several_labels_per_row_train_by_binary_cross_entropy(
    weighted: bool, reduction: str, make_network: Make, digits: Batch
) -> None:
    network, x = make_network(), digits[0]
    y = (torch.rand(64, 10, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.0, multi_label=True)
    batch = mixup.mix(x, y)
    scores, weight = network(batch.x), torch.arange(1.0, 11.0) if weighted else None
    target = blend(y, batch.draw)
    torch.testing.assert_close(batch.target(), target)
    expected = nn.functional.binary_cross_entropy_with_logits(
        scores, 0.8 * target + 0.1, weight=weight, reduction=reduction
    )
    torch.testing.assert_close(batch.loss(scores, weight, reduction, label_smoothing=0.2), expected)
    before = float(batch.loss(scores.detach()))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(30):
        batch = mixup.mix(x, y)
        loss = batch.loss(network(batch.x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < before


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore:.*torch.jit")  # of the compiler
def test_automatic_gamma_is_at_most_the_ceiling_and_may_be_switched_off(compiled: bool, digits: Batch) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    mixup = GenLabelMixup(network, num_classes=10, gamma="auto", max_gamma=0.4, mixer=Mixup(0.3), compiled=compiled)
    assert "gamma=auto" in repr(mixup)
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    weights = []
    for _ in range(150):
        batch = mixup.mix(*digits)
        loss = batch.loss(network(batch.x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weights.append(float(mixup.effective_gamma))
    assert weights[0] < 0.01
    assert 0.2 < max(weights) <= 0.4  # 64 images are learned by heart
    mixup.gamma = 0.25
    assert float(mixup.effective_gamma) == 0.25
    batch = mixup.mix(*digits)
    network(batch.x)
    assert float(batch.metrics()["genlabel/gamma"]) == 0.25


def test_the_metrics_of_a_batch(make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.6, top_k=None)
    for _ in range(3):
        batch = mixup.mix(x, y)
        network(batch.x)
        target = batch.target()
    for name, value in batch.metrics().items():  # as TensorBoard, wandb and Lightning take scalars
        assert (type(name), value.ndim, value.requires_grad) == (str, 0, False)
    metrics = {name.removeprefix("genlabel/"): float(value) for name, value in batch.metrics().items()}
    labels, partner = target.double().numpy(), batch.draw.partner.numpy()
    outside = [
        float(row[[c for c in range(10) if c not in (y[i], y[partner[i]])]].sum()) for i, row in enumerate(labels)
    ]
    assert metrics["gamma"] == pytest.approx(0.6)
    assert metrics["label_entropy"] == pytest.approx(float(np.mean([entropy(row) for row in labels])), rel=1e-4)
    assert metrics["outside_parents"] == pytest.approx(float(np.mean(np.array(outside) > 0.5)))
    assert 0.0 <= metrics["trust"] <= 1.0
    network.eval()
    assert float(mixup.mix(x, y).metrics()["genlabel/label_entropy"]) == 0.0


def test_a_teacher_that_is_never_updated_warns(make_network: Make, digits: Batch) -> None:
    network = make_network()
    mixup = GenLabelMixup(network, num_classes=10, teacher="ema")
    for _ in range(3):
        mixup.mix(*digits)
    with pytest.warns(RuntimeWarning, match="update_ema"):
        mixup.check()
    mixup.update_ema()
    mixup.check()

"""Misuse of GenLabelMixup is an error, and settings do what they say: each case once went wrong in silence."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genlabel import CutMix, GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.integrations.checks import check_batch
from genlabel.labeling import LogisticLabel
from genlabel.mixing import KMixup, RandomChoice, RegMixup

Batch = tuple[Tensor, Tensor]
Make = Callable[..., nn.Module]
LAYERS = ("", "layer1", "layer2")


def make_mlp() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def label(mixup: GenLabelMixup, network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    batch = mixup.mix(x, y)
    network(batch.x)
    return batch.target()


@pytest.mark.parametrize("options", [{"mixer": ManifoldMixup(depths=(1,)), "mix_layers": LAYERS}, {"off_step": 0}, {}])
def test_slices_of_one_tensor_are_other_points(options: dict[str, Any], make_network: Make, digits: Batch) -> None:
    (x, y), network = digits, make_network()
    mixup = GenLabelMixup(network, num_classes=10, **options).train(bool(options))
    batch = mixup.mix(x[:32], y[:32])
    assert batch.x.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match=r"batch\.x"):
        batch.loss(network(x[32:]))
    batch = mixup.mix(x[:32], y[:32])
    batch.loss(network(x[:32]))  # the same points


@pytest.mark.parametrize("kind", ["fitted", "own", "learned"])
def test_rows_that_are_not_mixed_keep_their_labels(kind: str, digits: Batch) -> None:
    (x, y), network = digits, make_mlp()
    if kind == "fitted":
        noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).flatten(1)
        density = GaussianDensity(shrinkage=0.5).fit(noise, y)  # of other points, to whose labels they do not agree
        mixup = GenLabelMixup(network, num_classes=10, density=density, gamma=0.5)
    elif kind == "own":
        mixup = GenLabelMixup(network, num_classes=10, labeler=LogisticLabel(2.0))
    else:
        mixup = GenLabelMixup(network, num_classes=10, gamma=0.5, statistics="clean")
    targets = torch.eye(10)[y]
    draw = mixup.draw(64)
    itself = draw._replace(partner=torch.arange(64), lam=torch.full((64,), 0.5))
    for unmixed in (draw._replace(lam=torch.ones(64)), itself):
        batch = mixup.apply_draw(x, y, unmixed)
        network(batch.x)
        torch.testing.assert_close(batch.target(), targets)
    batch = mixup.apply_draw(x, y, draw._replace(lam=torch.full((64,), 0.5)))
    network(batch.x)
    assert not torch.allclose(batch.target(), targets)


def test_a_labeler_of_ones_own_is_saved(digits: Batch) -> None:
    def make() -> tuple[nn.Module, GenLabelMixup]:
        network = make_mlp()
        labeler = OnlineGenLabel(OnlineGaussianDensity(10, statistics="clean"), gamma=0.4)
        return network, GenLabelMixup(network, num_classes=10, labeler=labeler)

    (network, mixup), (other, resumed) = make(), make()
    for _ in range(3):
        label(mixup, network, *digits)
    assert mixup.density is mixup.labeler.state
    assert float(mixup.density.steps) == 3.0
    stream = io.BytesIO()
    torch.save(mixup.state_dict(), stream)
    resumed.load_state_dict(torch.load(io.BytesIO(stream.getvalue()), weights_only=True))
    torch.testing.assert_close(label(mixup, network, *digits), label(resumed, other, *digits), rtol=0.0, atol=0.0)
    assert mixup.double().density.mean.dtype == torch.float64
    with pytest.raises(ValueError, match="num_classes"):
        GenLabelMixup(make_mlp(), num_classes=10, labeler=OnlineGenLabel(OnlineGaussianDensity(9)))


def test_a_random_choice_of_ones_own_is_not_changed(digits: Batch) -> None:
    for mixers, p in (((Mixup(), CutMix()), (0.25, 0.75)), ((Mixup(), CutMix(), KMixup()), None)):
        choice = RandomChoice(mixers, p)
        mixup = GenLabelMixup(num_classes=10, gamma=0.0, mixer=choice)
        assert mixup.mixer is choice
        assert choice.p is p
        assert mixup.switch_prob is None
        assert mixup(*digits)[1].shape == (64, 10)
        with pytest.raises(ValueError, match="switch_prob"):
            mixup.switch_prob = 0.5
    with pytest.raises(ValueError, match="switch_prob"):
        GenLabelMixup(num_classes=10, gamma=0.0, mixer=Mixup(), switch_prob=0.5)
    assert "switch_prob=0.3" in repr(
        GenLabelMixup(num_classes=10, gamma=0.0, mixer=(Mixup(), CutMix()), switch_prob=0.3)
    )


def test_gamma_grows_from_zero_in_a_compiled_network(digits: Batch) -> None:
    torch.compiler.reset()
    network, twin = make_mlp(), make_mlp()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.0, statistics="clean")
    compiled = torch.compile(network, backend="eager")
    for gamma in (0.0, 0.3, "auto", 0.1):
        mixup.gamma = gamma
        other = GenLabelMixup(twin, num_classes=10, gamma=gamma, statistics="clean")
        other.load_state_dict(mixup.state_dict(), strict=False)
        torch.testing.assert_close(label(mixup, compiled, *digits), label(other, twin, *digits))
        other.detach()


def test_a_network_without_a_linear_head_is_mixed_until_gamma_is_set() -> None:
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    mixup = GenLabelMixup(network, num_classes=3, gamma=0.0)
    x, y = torch.rand(6, 1, 5, 5), torch.arange(6) % 3
    batch = mixup.mix(x, y)
    assert torch.isfinite(batch.loss(network(batch.x)))
    with pytest.raises(ValueError, match="feature_layer"):
        mixup.gamma = 0.1
    assert mixup.gamma == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"max_gamma": 0.1}, {"top_k": None}, {"warmup_steps": 50}, {"same_class": "keep"}, {"mixer": CutMix()}],
    ids=str,
)
def test_a_setting_that_is_changed_is_that_of_a_new_object(changes: dict[str, Any], digits: Batch) -> None:
    networks = [make_mlp(), make_mlp()]
    options: dict[str, Any] = {"num_classes": 10, "statistics": "clean", "temperature": 50.0}
    options["gamma"] = "auto" if "max_gamma" in changes else 0.8
    changed = GenLabelMixup(networks[0], **options)
    expected = GenLabelMixup(networks[1], **options, **changes)
    for name, value in changes.items():
        setattr(changed, name, value)
        assert getattr(changed, name) == value
    for mixup in (changed, expected):
        mixup.density.trust.prior.zero_()  # trust from the start
    for _ in range(3):
        labels = [label(mixup, network, *digits) for mixup, network in zip((changed, expected), networks, strict=True)]
        torch.testing.assert_close(*labels)


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("max_gamma", 1.5, ValueError),
        ("top_k", 0, ValueError),
        ("same_class", "drop", ValueError),
        ("warmup_steps", -1, ValueError),
        ("off_step", "3", ValueError),
        ("off_step", -1, ValueError),
        ("off_step", float("nan"), ValueError),
        ("prob", "0.5", ValueError),
        ("mixer", ManifoldMixup(depths=(3,)), ValueError),
        ("mixer", "cutmix", TypeError),
        ("label_smoothing", 0.1, AttributeError),
        ("seed", 5, AttributeError),
        ("feature_layer", "layer1", AttributeError),
        ("labeler", LogisticLabel(), AttributeError),
        ("density", OnlineGaussianDensity(10), AttributeError),
    ],
)
def test_settings_that_are_wrong_or_fixed_are_refused(name: str, value: Any, error: type[Exception]) -> None:
    mixup = GenLabelMixup(make_mlp(), num_classes=10)
    before = repr(mixup)
    with pytest.raises(error, match=name[:3]):
        setattr(mixup, name, value)
    assert repr(mixup) == before
    copied = pickle.loads(pickle.dumps(mixup))
    copied.prob = 0.5
    assert copied.eval().training is False


def test_several_labels_per_row_have_no_generative_labels_or_accuracy(digits: Batch) -> None:
    network = make_mlp()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.0, multi_label=True)
    with pytest.raises(ValueError, match="multi_label"):
        mixup.gamma = 0.5
    batch = mixup.mix(digits[0], (torch.rand(64, 10) < 0.3).float())
    scores = network(batch.x)
    with pytest.raises(ValueError, match="multi_label"):
        batch.accuracy(scores)
    assert not any("entropy" in name for name in batch.metrics())
    with pytest.raises(ValueError, match="label_smoothing"):
        batch.loss(scores, label_smoothing=2.0)


@pytest.mark.parametrize("reads_gpu", [False, True])
def test_values_on_a_gpu_are_checked_where_asked(reads_gpu: bool) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x, y = torch.rand(4, 3).cuda(), torch.tensor([0, 1, 2, 7]).cuda()
    if reads_gpu:
        with pytest.raises(ValueError, match="0 to 7"):
            check_batch(x, y, 5, reads_gpu=True)
        mixup = GenLabelMixup(nn.Linear(3, 5).cuda(), num_classes=5)
        with pytest.raises(ValueError, match="NaN"):
            mixup.mix(x * torch.nan, y.clamp(max=4))
    else:
        check_batch(x, y, 5)
        assert x.is_cuda


@pytest.mark.parametrize("classes", [(4,), (4, 6)], ids=["hidden (n, d)", "hidden (n, t, d)"])
def test_manifold_mixup_or_cutmix_of_a_network_without_feature_maps(classes: tuple[int, ...], digits: Batch) -> None:
    (x, y), d = digits, int(np.prod(classes))
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, d), nn.Unflatten(1, classes))
    network = nn.Sequential(body, nn.Flatten(), nn.Linear(d, 10))
    mixup = GenLabelMixup(
        network, num_classes=10, mixer=(ManifoldMixup(depths=(0, 1)), CutMix()), mix_layers=("", "0"), gamma=0.2
    )
    depths = set()
    for _ in range(12):
        batch = mixup.mix(x, y)
        depths.add((batch.draw.depth, bool(batch.draw.box.any())))
        assert torch.isfinite(batch.loss(network(batch.x)))
    assert depths == {(0, False), (1, False), (0, True)}
    flat = torch.rand(3, 8)
    blended = mixup.mixer.mix(
        flat, batch.draw._replace(partner=torch.arange(3), lam=torch.ones(3), box=torch.zeros(3, 4))
    )
    torch.testing.assert_close(blended, flat)


def test_a_head_that_is_called_by_keyword(digits: Batch) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 8)), nn.Linear(8, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(input=self.body(x))

    network = Named()
    mixup = GenLabelMixup(network, num_classes=10, gamma=1.0, statistics="clean")
    label(mixup, network, *digits)
    features = network.body(digits[0])
    torch.testing.assert_close(mixup.density.mean[3], features[digits[1] == 3].mean(0).detach())


def test_the_layer_of_the_features_and_the_ceiling_are_in_the_repr(make_network: Make) -> None:
    text = repr(GenLabelMixup(make_network(), num_classes=10, gamma="auto", max_gamma=0.3))
    assert "input of 'fc'" in text
    assert "max_gamma=0.3" in text
    assert "output of 'layer2'" in repr(GenLabelMixup(make_network(), num_classes=10, feature_layer="layer2"))


@pytest.mark.parametrize("gamma", [0.5, "auto"])
def test_metrics_are_those_of_the_batch(gamma: Any, digits: Batch) -> None:
    network = make_mlp()
    mixup = GenLabelMixup(network, num_classes=10, gamma=gamma)
    batch = mixup.mix(*digits)
    batch.loss(network(batch.x))
    expected = float(mixup.effective_gamma)
    mixup.gamma = 0.25
    label(mixup, network, *digits)
    assert float(batch.metrics()["genlabel/gamma"]) == pytest.approx(expected)
    own = GenLabelMixup(num_classes=10, labeler=LogisticLabel()).mix_before_pass(*digits)
    assert "genlabel/gamma" not in own.metrics()


@pytest.mark.parametrize("mixer", [Mixup(lam_per="pair"), CutMix(lam_per="pair")], ids=repr)
def test_a_pair_is_mixed_or_not(mixer: Any) -> None:
    mixup = GenLabelMixup(num_classes=3, gamma=0.0, mixer=mixer, prob=0.5)
    shares = []
    for _ in range(100):
        draw = mixup.draw(20)
        is_mixed = draw.lam < 1.0
        assert torch.equal(draw.partner[draw.partner], torch.arange(20))
        assert torch.equal(draw.lam[draw.partner], draw.lam)
        shares.append(float(is_mixed.float().mean()))
    assert 0.4 < np.mean(shares) < 0.6
    assert np.std(shares) > 0.1  # 10 coins, not 20


@pytest.mark.parametrize(
    "options, keyword",
    [
        ({"mixup_alpha": 0.8, "cutmix_alpha": 1.0}, r"CutMix\(alpha"),
        ({"mode": "elem"}, "lam_per"),
        ({"label_smoothing": 0.1}, r"batch\.loss"),
        ({"mixup_off_epoch": 3}, "off_step"),
    ],
)
def test_settings_of_other_libraries_have_a_hint(options: dict[str, Any], keyword: str) -> None:
    with pytest.raises(TypeError, match=keyword):
        GenLabelMixup(make_mlp(), num_classes=10, **options)


def test_labels_in_one_column_and_parts_of_a_network_have_a_hint(digits: Batch) -> None:
    (x, y), network = digits, make_mlp()
    mixup = GenLabelMixup(network, num_classes=10)
    with pytest.raises(ValueError, match=r"y\[:, 0\]"):
        mixup.mix(x, y[:, None])
    for call in (network.forward, lambda x: network[3](network[:3](x))):
        batch = mixup.mix(x, y)
        with pytest.raises(RuntimeError, match="forward"):
            batch.loss(call(batch.x))


def test_labels_before_the_network_are_smoothed(digits: Batch) -> None:
    mixup = GenLabelMixup(num_classes=10, gamma=0.0)
    target = copy.deepcopy(mixup)(*digits)[1]
    torch.testing.assert_close(mixup(*digits, label_smoothing=0.2)[1], 0.8 * target + 0.02)
    with pytest.raises(ValueError, match="label_smoothing"):
        mixup(*digits, label_smoothing=-0.1)


def test_training_continues_after_a_batch_in_inference_mode(digits: Batch) -> None:
    network = make_mlp()
    mixup = GenLabelMixup(network, num_classes=10, gamma="auto")
    with torch.inference_mode():
        label(mixup, network, *digits)
    batch = mixup.mix(*digits)
    batch.loss(network(batch.x)).backward()
    assert float(mixup.density.steps) == 2.0


def test_gamma_changes_in_a_captured_step(digits: Batch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x, y = (part.cuda() for part in digits)
    network = make_mlp().cuda()
    mixup = GenLabelMixup(network, num_classes=10, gamma=0.9, statistics="clean", compiled=False).cuda()
    draw = mixup.draw(64, x)

    def step() -> Tensor:
        batch = mixup.apply_draw(x, y, draw)
        network(batch.x)
        return batch.target()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target = step()
    y_mix = (
        draw.lam[:, None] * torch.eye(10).cuda()[y] + (1 - draw.lam[:, None]) * torch.eye(10).cuda()[y[draw.partner]]
    )
    for gamma in (0.9, 0.3, 0.0):
        mixup.gamma = gamma
        graph.replay()
        distance = float((target - y_mix).abs().sum())
        assert (distance < 1e-4) is (gamma == 0.0)
    with pytest.warns(RuntimeWarning, match="capture again"):
        mixup.gamma = "auto"


def test_rows_of_regmixup_that_stay_clean_are_not_relabeled(digits: Batch) -> None:
    network = make_mlp()
    mixup = GenLabelMixup(network, num_classes=10, mixer=RegMixup(), gamma=0.5)
    for _ in range(2):
        batch = mixup.mix(*digits)
        network(batch.x)
        clean = batch.draw.lam == 1.0
        assert int(clean.sum()) == 32
        torch.testing.assert_close(batch.target()[clean], batch.targets[clean])

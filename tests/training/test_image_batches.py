"""Batches of images: every image once, cropped and flipped as it is said, and the same on every process of a run."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genlabel.mixing import CutMix, ManifoldMixup, Mixer, Mixup
from genlabel.training import ImageBatches, train_network
from genlabel.training.batching import Batch
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import LeNet5, ResNet18

PAD = 4


def images(n: int = 23, c: int = 2, h: int = 5, w: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random bytes; the label is the row."""
    return np.random.default_rng(seed).integers(1, 256, (n, c, h, w), dtype=np.uint8), np.arange(n)


def rows_of(batches: list[Batch]) -> list[int]:
    return [int(row) for batch in batches for row in batch.y]


def same(one: list[Batch], other: list[Batch]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and same_draw(a, b) for a, b in pairs)


def same_draw(a: Batch, b: Batch) -> bool:
    assert a.draw is not None
    assert b.draw is not None
    return torch.equal(a.draw.partner, b.draw.partner) and torch.equal(a.draw.lam, b.draw.lam)


@pytest.mark.parametrize("batch_size", [1, 5, 23, 100])
def test_an_epoch_has_each_image_at_most_once_as_it_is(batch_size: int) -> None:
    x, y = images()
    batches = ImageBatches(x, y, batch_size=batch_size, seed=0)
    size = min(batch_size, 23)
    assert len(batches) == 23 // size
    orders = []
    for _ in range(3):
        epoch = list(batches)
        assert [batch.x.shape for batch in epoch] == [(size, 2, 5, 4)] * (23 // size)
        rows = rows_of(epoch)
        assert len(set(rows)) == len(rows) == size * (23 // size)
        given = torch.cat([batch.x for batch in epoch])
        assert given.dtype == torch.float32
        np.testing.assert_allclose(given.numpy(), x[rows] / 255.0, rtol=1e-6)
        orders.append(rows)
    assert len({tuple(rows) for rows in orders}) == 3


def cuts(image: np.ndarray) -> list[tuple[int, int, bool, np.ndarray]]:
    """Every part of the padded image that has its size, and its mirror image."""
    _, h, w = image.shape
    wide = np.pad(image, ((0, 0), (PAD, PAD), (PAD, PAD)))
    parts = []
    for down in range(2 * PAD + 1):
        for across in range(2 * PAD + 1):
            part = wide[:, down : down + h, across : across + w]
            parts += [(down, across, False, part), (down, across, True, part[..., ::-1])]
    return parts


def test_an_augmented_image_is_a_part_of_the_padded_one_maybe_flipped() -> None:
    """By brute force; over some epochs every place and both directions are met, about equally often."""
    x, y = images(n=20, c=1, h=7, w=6)
    batches, met = ImageBatches(x, y, batch_size=20, augment=True, seed=3), []
    known = [cuts(image) for image in x]
    for _ in range(60):
        for batch in batches:
            for image, row in zip((batch.x * 255.0).round().numpy(), batch.y.tolist(), strict=True):
                fits = [(d, a, flip) for d, a, flip, part in known[row] if np.array_equal(part, image)]
                assert len(fits) == 1
                met.append(fits[0])
    down, across, flipped = (np.array(part) for part in zip(*met, strict=True))
    for offsets in (down, across):
        share = np.bincount(offsets, minlength=9) / len(met)
        assert np.abs(share - 1 / 9).max() < 5 * np.sqrt(1 / 9 / len(met))
    assert abs(flipped.mean() - 0.5) < 5 * np.sqrt(0.25 / len(met))
    assert abs(np.corrcoef(down, across)[0, 1]) < 0.15
    assert abs(np.corrcoef(flipped, across)[0, 1]) < 0.15


@pytest.mark.parametrize("mixer", [None, Mixup(), ManifoldMixup(), CutMix(pixels=20)], ids=repr)
@pytest.mark.parametrize("augment", [False, True])
def test_all_that_is_random_follows_from_seed_and_epoch(mixer: Mixer | None, augment: bool) -> None:
    x, y = images()

    def make(rng: object) -> ImageBatches:
        return ImageBatches(x, y, batch_size=5, mixer=mixer, augment=augment, seed=rng)

    one, two, other = make(4), make([4]), make([4, 1])
    first, second = list(one), list(one)
    assert same(first, list(two))
    assert same(second, list(two))
    assert not same(first, second)
    assert not same(first, list(other))
    late = make(4)
    late.load_state_dict({"epoch": 1})
    assert same(second, list(late))
    assert late.state_dict() == {"epoch": 2}
    draws = [batch.draw for batch in first]
    assert all(draw is not None and sorted(draw.partner.tolist()) == list(range(5)) for draw in draws)


@pytest.mark.parametrize("ranks, n", [(2, 50), (3, 50), (3, 34)])
def test_processes_share_the_images_of_a_batch(ranks: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their parts are disjoint, and together the batch of one process; what is drawn of them differs."""
    x, y = images(n)
    settings = {"batch_size": 12, "mixer": Mixup(), "augment": True, "seed": 1}
    alone, parts = ImageBatches(x, y, **settings), []
    for rank in range(ranks):
        monkeypatch.setattr("genlabel.training.image_batches.rank_and_world_size", lambda rank=rank: (rank, ranks))
        parts.append(ImageBatches(x, y, **settings))
    for _ in range(2):
        whole, split = list(alone), [list(part) for part in parts]
        assert len(whole) == len(alone) == n // 12
        for t, batch in enumerate(whole):
            rows = [rows_of([part[t]]) for part in split]
            assert [len(row) for row in rows] == [12 // ranks] * ranks
            assert [row for part in rows for row in part] == batch.y.tolist()
        lams = [part[0].draw.lam for part in split]
        assert not torch.equal(lams[0], lams[1])


def test_arrays_that_are_no_images_are_refused() -> None:
    x, y = images()
    for given, labels in ((x / 255.0, y), (x[:, 0], y), (x, y[:5]), (x[:0], y[:0])):
        with pytest.raises(ValueError, match="uint8"):
            ImageBatches(given, labels)
    with pytest.raises(ValueError, match="batch_size=0"):
        ImageBatches(x, y, batch_size=0)
    with pytest.raises(ValueError, match="seed="):
        ImageBatches(x, y, seed=np.random.default_rng(0))


def test_too_small_a_batch_for_the_processes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genlabel.training.image_batches.rank_and_world_size", lambda: (0, 4))
    with pytest.raises(ValueError, match="batch_size=3"):
        ImageBatches(*images(), batch_size=3)


def test_the_loop_sees_the_pixels() -> None:
    """One step of a batch that holds every image is the step of a loader that holds them in the same order."""
    x, y = images(n=12, c=1, h=8, w=8)
    (epoch,) = list(ImageBatches(x, y % 3, batch_size=12, seed=0))
    nets = [LeNet5(3, size=8, seed=0) for _ in range(2)]
    one = train_network(nets[0], ImageBatches(x, y % 3, batch_size=12, seed=0), epochs=1)
    two = train_network(nets[1], [(epoch.x, epoch.y)], epochs=1)
    assert one == two
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 1000])
@pytest.mark.parametrize("kind", ["bytes", "pixels", "tensor"])
def test_scores_are_those_of_a_plain_evaluation(training: bool, batch_size: int, kind: str) -> None:
    x = images(n=9, c=3, h=8, w=8)[0]
    net: nn.Module = ResNet18(4, width=2, seed=0)
    pixels = torch.from_numpy(x).float() / 255.0
    net(pixels)
    with torch.no_grad():
        expected: Tensor = net.eval()(pixels)
    net.train(training)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    given = {"bytes": x, "pixels": x / 255.0, "tensor": pixels}[kind]
    scores = predict_scores(net, given, batch_size=batch_size)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    assert net.training == training
    assert not scores.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(ValueError, match="batch_size=0"):
        predict_scores(net, given, batch_size=0)

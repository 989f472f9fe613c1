"""Test batches of images: order, augmentation, seeds and several processes."""

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


def same(first: list[Batch], second: list[Batch]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and same_draw(a, b) for a, b in pairs)


def same_draw(a: Batch, b: Batch) -> bool:
    assert a.draw is not None
    assert b.draw is not None
    return torch.equal(a.draw.partner, b.draw.partner) and torch.equal(a.draw.lam, b.draw.lam)


@pytest.mark.parametrize("batch_size", [1, 5, 23, 100])
def test_an_epoch_has_each_image_at_most_once(batch_size: int) -> None:
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
        pixels = torch.cat([batch.x for batch in epoch])
        assert pixels.dtype == torch.float32
        np.testing.assert_allclose(pixels.numpy(), x[rows] / 255.0, rtol=1e-6)
        orders.append(rows)
    assert len({tuple(rows) for rows in orders}) == 3


def all_crops(image: np.ndarray) -> list[tuple[int, int, bool, np.ndarray]]:
    """Return every crop of the padded image, and its mirror image."""
    _, h, w = image.shape
    wide = np.pad(image, ((0, 0), (PAD, PAD), (PAD, PAD)))
    parts = []
    for down in range(2 * PAD + 1):
        for across in range(2 * PAD + 1):
            part = wide[:, down : down + h, across : across + w]
            parts += [(down, across, False, part), (down, across, True, part[..., ::-1])]
    return parts


def test_augmented_images_are_random_crops_and_flips() -> None:
    """By brute force: offsets and flips are uniform and independent."""
    x, y = images(n=20, c=1, h=7, w=6)
    batches, offsets_seen = ImageBatches(x, y, batch_size=20, augment=True, seed=3), []
    crops = [all_crops(image) for image in x]
    for _ in range(60):
        for batch in batches:
            for image, row in zip((batch.x * 255.0).round().numpy(), batch.y.tolist(), strict=True):
                fits = [(d, a, flip) for d, a, flip, part in crops[row] if np.array_equal(part, image)]
                assert len(fits) == 1
                offsets_seen.append(fits[0])
    down, across, flipped = (np.array(part) for part in zip(*offsets_seen, strict=True))
    for offsets in (down, across):
        frequency = np.bincount(offsets, minlength=9) / len(offsets_seen)
        assert np.abs(frequency - 1 / 9).max() < 5 * np.sqrt(1 / 9 / len(offsets_seen))
    assert abs(flipped.mean() - 0.5) < 5 * np.sqrt(0.25 / len(offsets_seen))
    assert abs(np.corrcoef(down, across)[0, 1]) < 0.15
    assert abs(np.corrcoef(flipped, across)[0, 1]) < 0.15


@pytest.mark.parametrize("mixer", [None, Mixup(), ManifoldMixup(), CutMix(pixels=20)], ids=repr)
@pytest.mark.parametrize("augment", [False, True])
def test_seed_and_epoch_determine_the_batches(mixer: Mixer | None, augment: bool) -> None:
    x, y = images()

    def make(rng: object) -> ImageBatches:
        return ImageBatches(x, y, batch_size=5, mixer=mixer, augment=augment, seed=rng)

    first_run, same_seed, other_seed = make(4), make([4]), make([4, 1])
    first, second = list(first_run), list(first_run)
    assert same(first, list(same_seed))
    assert same(second, list(same_seed))
    assert not same(first, second)
    assert not same(first, list(other_seed))
    resumed = make(4)
    resumed.load_state_dict({"epoch": 1})
    assert same(second, list(resumed))
    assert resumed.state_dict() == {"epoch": 2}
    draws = [batch.draw for batch in first]
    assert all(draw is not None and sorted(draw.partner.tolist()) == list(range(5)) for draw in draws)


@pytest.mark.parametrize("ranks, n", [(2, 50), (3, 50), (3, 34)])
def test_processes_share_the_images_of_a_batch(ranks: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their parts are disjoint and form the batch of one process; their draws differ."""
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


def test_bad_arrays_raise() -> None:
    x, y = images()
    for array, labels in ((x / 255.0, y), (x[:, 0], y), (x, y[:5]), (x[:0], y[:0])):
        with pytest.raises(ValueError, match="uint8"):
            ImageBatches(array, labels)
    with pytest.raises(ValueError, match="batch_size=0"):
        ImageBatches(x, y, batch_size=0)
    with pytest.raises(ValueError, match="seed="):
        ImageBatches(x, y, seed=np.random.default_rng(0))


def test_a_batch_smaller_than_the_number_of_processes_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genlabel.training.image_batches.rank_and_world_size", lambda: (0, 4))
    with pytest.raises(ValueError, match="batch_size=3"):
        ImageBatches(*images(), batch_size=3)


def test_the_loop_trains_on_pixels() -> None:
    """One step on a batch of all images equals a step of a loader in the same order."""
    x, y = images(n=12, c=1, h=8, w=8)
    (epoch,) = list(ImageBatches(x, y % 3, batch_size=12, seed=0))
    nets = [LeNet5(3, size=8, seed=0) for _ in range(2)]
    image_losses = train_network(nets[0], ImageBatches(x, y % 3, batch_size=12, seed=0), epochs=1)
    loader_losses = train_network(nets[1], [(epoch.x, epoch.y)], epochs=1)
    assert image_losses == loader_losses
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 1000])
@pytest.mark.parametrize("kind", ["bytes", "pixels", "tensor"])
def test_predict_scores_equals_a_plain_evaluation(training: bool, batch_size: int, kind: str) -> None:
    x = images(n=9, c=3, h=8, w=8)[0]
    net: nn.Module = ResNet18(4, width=2, seed=0)
    pixels = torch.from_numpy(x).float() / 255.0
    net(pixels)
    with torch.no_grad():
        expected: Tensor = net.eval()(pixels)
    net.train(training)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = {"bytes": x, "pixels": x / 255.0, "tensor": pixels}[kind]
    scores = predict_scores(net, inputs, batch_size=batch_size)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)
    assert net.training == training
    assert not scores.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(ValueError, match="batch_size=0"):
        predict_scores(net, inputs, batch_size=0)

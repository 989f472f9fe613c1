"""Token ids: mixed after the embeddings of a transformers text model, with the attention masks of both parents."""

from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genlabel import GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup
from genlabel.mixing import Mixer, MixParams

LAYERS = {"mixer": ManifoldMixup(depths=(1,)), "mix_layers": ("", "embedding")}


class Text(nn.Module):
    """Mean of the embeddings of the tokens that the mask keeps, and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        h = self.embedding(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return self.head((h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def sentences(n: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences of 3 to 9 tokens, 0 being the padding; those of class 1 have more tokens above 25."""
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(2, (n,), generator=generator)
    mask = (torch.arange(9) < torch.randint(3, 10, (n, 1), generator=generator)).long()
    ids = (torch.randint(1, 25, (n, 9), generator=generator) + 24 * y[:, None]) * mask
    return ids, mask, y


@pytest.mark.parametrize("gamma", [0.0, 0.3, "auto"])
def test_embeddings_are_mixed(gamma: Any) -> None:
    network, (ids, mask, y) = Text(), sentences()
    mixup = GenLabelMixup(network, num_classes=2, gamma=gamma, **LAYERS)
    batch = mixup.mix(ids, y)
    joined = batch.join_mask(mask)
    scores = network(batch.x, joined)
    torch.testing.assert_close(batch.target(scores).sum(1), torch.ones(len(ids)))
    lam, partner = batch.draw.lam, batch.draw.partner
    for i in range(len(ids)):
        weight = network.embedding.weight
        h = lam[i] * weight[ids[i]] + (1.0 - lam[i]) * weight[ids[partner[i]]]
        length = max(int(mask[i].sum()), int(mask[partner[i]].sum()))
        assert int(joined[i].sum()) == length
        torch.testing.assert_close(scores[i], network.head.weight @ h[:length].mean(0) + network.head.bias)
    network.eval()
    assert torch.equal(mixup.mix(ids, y).join_mask(mask), mask)


@final
class TokenCut(Mixer):
    """Mixer of token ids: the second half of each sentence is its partner's."""

    linear = False

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return MixParams(np.random.default_rng(rng).permutation(n), np.full(n, 0.5))

    def mix(self, X: Any, draw: MixParams) -> Any:
        half = X.shape[1] // 2
        return torch.cat([X[:, :half], X[draw.partner, half:]], 1)


def test_a_mixer_that_does_not_blend_takes_ids() -> None:
    network, (ids, _, y) = Text(), sentences()
    mixup = GenLabelMixup(network, num_classes=2, mixer=TokenCut(), gamma=0.2)
    batch = mixup.mix(ids, y)
    assert torch.equal(batch.x[:, 4:], ids[batch.draw.partner, 4:])
    torch.testing.assert_close(batch.target(network(batch.x)).sum(1), torch.ones(len(ids)))


def test_ids_are_refused_where_the_input_is_mixed() -> None:
    network, (ids, _, y) = Text(), sentences()
    density = GaussianDensity().fit(ids.double() + torch.rand(ids.shape), y)
    for options in (
        {"mixer": Mixup()},
        {"mixer": ManifoldMixup(depths=(0, 1)), "mix_layers": ("", "embedding")},
        {**LAYERS, "density": density},
        {**LAYERS, "teacher": "ema"},
    ):
        mixup = GenLabelMixup(network, num_classes=2, **options)
        with pytest.raises(TypeError, match="embedding"):
            mixup.mix(ids, y)
        mixup.detach()


def test_a_text_model_of_transformers_learns(tmp_path: Path, their_own_advice: None) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
    pytest.importorskip("accelerate", reason="needs the extra transformers")
    from genlabel.integrations import GenLabelTrainer

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    ids, mask, y = sentences(64)
    rows = [{"input_ids": i, "attention_mask": m, "labels": int(c)} for i, m, c in zip(ids, mask, y, strict=True)]
    mixup = GenLabelMixup(
        model, num_classes=2, mixer=ManifoldMixup(depths=(1,)), mix_layers=("", "bert.embeddings"), gamma=0.1
    )
    settings = transformers.TrainingArguments(
        str(tmp_path), max_steps=60, learning_rate=1e-2, per_device_train_batch_size=32, report_to=[], use_cpu=True,
        disable_tqdm=True, logging_steps=20, save_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = GenLabelTrainer(
        model=model, args=settings, train_dataset=rows, eval_dataset=rows, mixup=mixup, input_name="input_ids"
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    assert float(mixup.density.steps) == 60.0
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 3
    assert all(0.0 <= entry["genlabel/trust"] <= 1.0 for entry in logged)

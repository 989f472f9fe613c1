"""Trainer of Hugging Face transformers with mixed images and generative labels."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from genlabel.integrations.mixup import GenLabelMixup
from genlabel.training.checkpoint import save_atomically

STATE_FILE = "genlabel.pt"
"""File next to the model, with everything learned."""


try:
    _Trainer: Any = importlib.import_module("transformers").Trainer
except ImportError:
    _Trainer = object


@final
class GenLabelTrainer(_Trainer):
    """A `transformers.Trainer` with mixed training batches and the loss of soft labels.

    A model that receives soft labels silently treats them as multiple labels, and trains each class by binary
    cross-entropy. Here the model receives no labels, and the loss is the cross-entropy of its `logits`. Evaluation is
    the Trainer's own. Everything learned is saved next to the model, and loaded when a run is resumed.

    Parameters
    ----------
    *args, **kwargs
        Arguments of `transformers.Trainer`; `remove_unused_columns=False` if a transform reads columns of the dataset.
    mixup : GenLabelMixup
        Object for the same model, in either form of use.
    images : str
        Name of the model input that is mixed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from transformers import TrainingArguments
    >>> class Model(nn.Module):  # a model of transformers, or anything with logits
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.body, self.head = nn.Linear(1, 4), nn.Linear(4, 2)
    ...     def forward(self, pixel_values, labels=None):
    ...         return {"logits": self.head(self.body(pixel_values))}
    >>> rows = [{"pixel_values": torch.tensor([float(i)]), "labels": int(i > 7)} for i in range(16)]
    >>> model = Model()
    >>> mixup = GenLabelMixup(model, num_classes=2, gamma=0.1)
    >>> with TemporaryDirectory() as folder:
    ...     args = TrainingArguments(folder, max_steps=3, report_to=[], use_cpu=True, disable_tqdm=True,
    ...                              logging_strategy="no", save_strategy="no", dataloader_pin_memory=False)
    ...     done = GenLabelTrainer(model=model, args=args, train_dataset=rows, mixup=mixup).train()
    {'train_runtime': ...}
    >>> done.global_step, float(mixup.density.steps)  # the densities have learned in every step
    (3, 3.0)
    """

    def __init__(self, *args: Any, mixup: GenLabelMixup, images: str = "pixel_values", **kwargs: Any) -> None:
        if _Trainer is object:
            raise ImportError("GenLabelTrainer needs transformers: pip install 'genlabel[transformers]'")
        super().__init__(*args, **kwargs)
        self.mixup, self.images = mixup.to(self.args.device), images
        self.model_accepts_loss_kwargs = False  # a mean over the batch: let the Trainer divide by accumulated batches

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss of a mixed batch in training; that of the Trainer otherwise."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if isinstance(model, nn.DataParallel):
            raise TypeError("the Trainer uses DataParallel; start one process per GPU, with torchrun")
        rest = {name: value for name, value in inputs.items() if name not in (self.images, "labels")}
        batch = self.mixup.mix(inputs[self.images], inputs["labels"])
        outputs = model(**{self.images: batch.x}, **rest)
        loss = batch.loss(outputs["logits"] if isinstance(outputs, dict) else outputs[0])
        return (loss, outputs) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Take a step of the Trainer; before it, update an averaged teacher, one batch behind the optimizer."""
        if self.mixup.teacher is not None and self.mixup.teacher.is_average:
            self.mixup.update_ema()
        return super().training_step(*args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as the Trainer does; before it, warn if the labels have collapsed."""
        self.mixup.check()
        return super().evaluate(*args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model, and everything learned next to it."""
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            save_atomically(self.mixup.state_dict(), Path(output_dir or self.args.output_dir) / STATE_FILE)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        path = Path(resume_from_checkpoint) / STATE_FILE
        if path.exists():
            self.mixup.load_state_dict(torch.load(path, map_location=self.args.device, weights_only=True))

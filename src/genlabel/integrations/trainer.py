"""Trainer of Hugging Face transformers with mixed images and generative labels."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from genlabel.integrations.batches import MixedBatch
from genlabel.integrations.mixup import GenLabelMixup
from genlabel.training.checkpoint import save_atomically

STATE_FILE = "genlabel.pt"
"""File next to the model, with everything learned."""


try:
    _transformers: Any = importlib.import_module("transformers")
except ImportError:
    _transformers = None
_Trainer: Any = object if _transformers is None else _transformers.Trainer
_Callback: Any = object if _transformers is None else _transformers.TrainerCallback


class _TeacherUpdate(_Callback):
    """Callback that updates an averaged teacher after each step of the optimizer."""

    def __init__(self, mixup: GenLabelMixup) -> None:
        self.mixup = mixup

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Update the teacher; accumulated batches before the step are not counted."""
        self.mixup.update_ema()


@final
class GenLabelTrainer(_Trainer):
    """A `transformers.Trainer` with mixed training batches and the loss of soft labels.

    A model that receives soft labels silently treats them as multiple labels, and trains each class by binary
    cross-entropy. Here the model receives no labels, and the loss is the cross-entropy of its `logits`, with the
    `label_smoothing_factor` of the arguments. Evaluation is the Trainer's own. Everything learned is saved next to the
    model, and loaded when a run is resumed.

    Parameters
    ----------
    *args, **kwargs
        Arguments of `transformers.Trainer`; `remove_unused_columns=False` if a transform reads columns of the dataset.
    mixup : GenLabelMixup
        Object for the same model, in either form of use.
    weight : Tensor, optional
        Class weights (k,) in the loss.
    input_name : str
        Name of the model input that is mixed, such as "input_ids" for a model of text that is mixed after its
        embeddings. An attention mask becomes that of both parents (:meth:`MixedBatch.join_mask`).

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

    def __init__(
        self,
        *args: Any,
        mixup: GenLabelMixup,
        weight: torch.Tensor | None = None,
        input_name: str = "pixel_values",
        **kwargs: Any,
    ) -> None:
        if _Trainer is object:
            raise ImportError("GenLabelTrainer needs transformers: pip install 'genlabel[transformers]'")
        if kwargs.get("compute_loss_func") is not None:
            raise ValueError("compute_loss_func has no effect: the loss is the cross-entropy of soft labels")
        super().__init__(*args, **kwargs)
        self.mixup, self.input_name = mixup.to(self.args.device), input_name
        self.weight = None if weight is None else weight.to(self.args.device)
        self._batch: MixedBatch | None = None
        if self.mixup.teacher is not None and self.mixup.teacher.is_average:
            self.add_callback(_TeacherUpdate(self.mixup))
        self.model_accepts_loss_kwargs = False  # a mean over the batch: let the Trainer divide by accumulated batches

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss of a mixed batch in training; that of the Trainer otherwise."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if isinstance(model, nn.DataParallel):
            raise TypeError("the Trainer uses DataParallel; start one process per GPU, with torchrun")
        if missing := {self.input_name, "labels"} - inputs.keys():
            raise ValueError(
                f"the batch has {', '.join(inputs)}, but not {' and '.join(sorted(missing))}; name the input that is "
                "mixed by input_name=, and keep columns by remove_unused_columns=False"
            )
        rest = {name: value for name, value in inputs.items() if name not in (self.input_name, "labels")}
        mix = self.mixup.mix_before_pass if self.mixup.network is None else self.mixup.mix
        self._batch = batch = mix(inputs[self.input_name], inputs["labels"])
        if "attention_mask" in rest:
            rest["attention_mask"] = batch.join_mask(rest["attention_mask"])
        outputs = model(**{self.input_name: batch.x}, **rest)
        scores = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        loss = batch.loss(scores, self.weight, label_smoothing=self.args.label_smoothing_factor)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log the scalars of the Trainer, and in training those of the labels (:meth:`MixedBatch.metrics`)."""
        if "loss" in logs and self._batch is not None:
            logs = {**logs, **{name: float(value) for name, value in self._batch.metrics().items()}}
        super().log(logs, *args, **kwargs)

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

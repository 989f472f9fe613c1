"""Lightning callback that mixes and labels training batches."""

from __future__ import annotations

import importlib
import sys
from typing import Any, final

from genlabel.integrations.mixup import GenLabelMixup

_Callback: Any = object
for _name in sorted(["pytorch_lightning", "lightning.pytorch"], key=lambda name: name not in sys.modules):  # in use
    try:
        _Callback = importlib.import_module(_name).Callback
        break
    except ImportError:
        continue


@final
class GenLabelCallback(_Callback):
    """Give a LightningModule mixed batches with soft labels (n, k), in training only.

    Its `training_step` needs no change if its loss takes soft labels: `F.cross_entropy(self(x), y)`. The batch is
    labeled before the network sees it, so that labels come from a fitted density, a teacher, or mixup (gamma=0). Labels
    from the network's own forward pass need two lines in the module instead of the callback: `self.mixup.mix`, and the
    loss of the batch that it returns. An averaged teacher is updated after each step of the optimizer. Loggers of the
    Trainer receive :meth:`MixedBatch.metrics`. Everything learned is in the checkpoint.

    Parameters
    ----------
    mixup : GenLabelMixup
    x, y : int or str
        Index or key of the points and of the labels in the batch, a list or a dict.

    Examples
    --------
    >>> import torch
    >>> from pytorch_lightning import LightningModule, Trainer
    >>> class Module(LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.net = torch.nn.Linear(1, 2)
    ...     def training_step(self, batch, index):
    ...         x, y = batch
    ...         print(x.shape, y.shape)
    ...         return torch.nn.functional.cross_entropy(self.net(x), y)
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), lr=0.1)
    >>> rows = torch.utils.data.TensorDataset(torch.arange(4.0)[:, None], torch.tensor([0, 0, 1, 1]))
    >>> callback = GenLabelCallback(GenLabelMixup(num_classes=2, gamma=0.0))
    >>> quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    >>> trainer = Trainer(callbacks=[callback], max_epochs=1, accelerator="cpu", enable_checkpointing=False, **quiet)
    >>> trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=4))  # the labels are soft
    torch.Size([4, 1]) torch.Size([4, 2])
    """

    def __init__(self, mixup: GenLabelMixup, x: int | str = 0, y: int | str = 1) -> None:
        if _Callback is object:
            raise ImportError("GenLabelCallback needs Lightning: pip install 'genlabel[lightning]'")
        super().__init__()
        if mixup.learns_from_pass or mixup.mixer.max_depth:
            raise ValueError(
                "the callback labels a batch before the network sees it: create mixup with density=, teacher= or "
                "gamma=0, and a mixer of the input; or call self.mixup.mix, and the loss of its batch, in training_step"
            )
        self.mixup, self._x, self._y = mixup, x, y
        self._global_step = self._optimizer_steps = 0

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Move to the device of the module."""
        self.mixup.to(pl_module.device)
        self._global_step = self._optimizer_steps = trainer.global_step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Replace points and labels of the batch by mixed ones."""
        if not isinstance(batch, list | dict):
            raise TypeError(
                f"the batch is a {type(batch).__name__}, which a callback cannot change; return a list or a dict "
                "from the loader's collate_fn, or use genlabel.integrations.MixCollate"
            )
        mixed = self.mixup.mix_before_pass(batch[self._x], batch[self._y])  # type: ignore[index]
        batch[self._x], batch[self._y] = mixed.x, mixed.target()  # type: ignore[index]
        every = trainer.log_every_n_steps
        if trainer.loggers and every and (self._optimizer_steps + 1) % every == 0:  # when Lightning logs this batch
            pl_module.log_dict(mixed.metrics())

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Update an averaged teacher after a step of the optimizer, not after each accumulated batch."""
        is_step, self._global_step = trainer.global_step != self._global_step, trainer.global_step
        self._optimizer_steps += is_step  # global_step counts a batch once for each of several optimizers
        if is_step and self.mixup.teacher is not None and self.mixup.teacher.is_average:
            self.mixup.update_ema()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Warn if the labels have collapsed."""
        self.mixup.check()

    def state_dict(self) -> dict[str, Any]:
        """Return everything learned, for the checkpoint."""
        return dict(self.mixup.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint."""
        self.mixup.load_state_dict(state_dict)

"""A Lightning callback that mixes and labels the batches of training, and of nothing else."""

from __future__ import annotations

import importlib
import sys
from typing import Any, final

from genlabel.integrations.mixup import GenLabelMixup


def _base() -> Any:
    """The class of callbacks, of the package in use or of one that is there; else any class, which says so later."""
    names = ["pytorch_lightning", "lightning.pytorch"]
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    return object


_Callback = _base()


@final
class GenLabelCallback(_Callback):  # type: ignore[misc, valid-type]
    """Give a LightningModule mixed batches with soft labels (n, k), in training only.

    Its `training_step` stays as it is, with a loss that takes soft labels: `F.cross_entropy(self(x), y)`. The batch is
    labelled before the network sees it, so that labels come from a fitted density, a teacher, or mixup itself
    (gamma=0). Labels from the network's own pass need two lines in the module instead, and no callback:
    `self.mixup.mix` and `self.mixup.loss`. An averaged teacher is moved after each batch. What is learned is in the
    checkpoint.

    Parameters
    ----------
    mixup : GenLabelMixup
    x, y : int or str
        Where the batch, a list or a dict, has its points and its labels.

    Examples
    --------
    >>> import torch
    >>> from pytorch_lightning import LightningModule, Trainer
    >>> class Module(LightningModule):  # as anybody writes it
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
        if mixup.needs_forward_hook or mixup.mixer.max_depth:
            raise ValueError(
                "the callback labels a batch before the network sees it: make mixup with density=, teacher= or "
                "gamma=0, and a mixer of the input; or call self.mixup.mix and self.mixup.loss in training_step"
            )
        self.mixup, self._x, self._y = mixup, x, y

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Follow the module to its device."""
        self.mixup.to(pl_module.device)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Put the mixed points and their labels in the place of those in the batch."""
        if not isinstance(batch, list | dict):
            raise TypeError(
                f"the batch is a {type(batch).__name__}, which a callback cannot change; let the loader's collate_fn "
                "return a list or a dict, or use genlabel.integrations.MixCollate"
            )
        batch[self._x], batch[self._y] = self.mixup(batch[self._x], batch[self._y])  # type: ignore[index]

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Move an averaged teacher."""
        if self.mixup.teacher is not None and self.mixup.teacher.averages:
            self.mixup.update_ema()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Warn where the labels have collapsed."""
        self.mixup.check()

    def state_dict(self) -> dict[str, Any]:
        """What was learned, for the checkpoint."""
        return dict(self.mixup.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.mixup.load_state_dict(state_dict)

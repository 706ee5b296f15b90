"""Train for a goal with Lightning: MiniBatchPenalty is the loss of a LightningModule.

The first epochs minimise cross-entropy, the others the goal's loss. After every epoch the module
finds the exact threshold on the validation rows and logs the goal's metric there, by which the best
epoch is kept. Further rows certify a threshold for it.

It needs pytorch-lightning, and generates its data.
"""

import logging
import tempfile
import warnings

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from setpoint import MiniBatchPenalty, certify, choose_threshold

GOAL = "max recall s.t. precision >= 0.9"
EPOCHS, WARM_UP = 12, 4


class Classifier(pl.LightningModule):
    """A small network that trains for the goal after a warm-up by cross-entropy."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.penalty = MiniBatchPenalty(GOAL, steps=steps)  # part of the checkpoints
        self.held_out: list[tuple[Tensor, Tensor]] = []

    def forward(self, X: Tensor) -> Tensor:
        """Return one logit per row."""
        return self.network(X).squeeze(1)

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        """Return the loss of a batch."""
        X, y = batch
        logits = self(X)
        if self.current_epoch >= WARM_UP:
            return self.penalty(logits, y)
        self.penalty.observe(logits, y)
        return binary_cross_entropy_with_logits(logits, y.float())

    def validation_step(self, batch: list[Tensor], _: int) -> None:
        """Keep the logits and labels of a batch."""
        X, y = batch
        self.held_out.append((self(X).cpu(), y.cpu()))

    def on_validation_epoch_end(self) -> None:
        """Log the goal's objective at the exact threshold, lowered where the goal is missed."""
        logits, y = (torch.cat(each) for each in zip(*self.held_out, strict=True))
        self.held_out.clear()
        point = choose_threshold(y, logits, GOAL, on="the validation rows")
        self.log("objective", point.objective - 10 * point.violation)
        print(f"epoch {self.current_epoch + 1:2}: {point.message}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return an ordinary optimizer: the penalty has no parameters."""
        return torch.optim.Adam(self.network.parameters(), lr=5e-3)


def transactions(n: int, seed: int) -> TensorDataset:
    """Return rows of which an eighth is positive: half are easy, half near some negatives."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 1 / 8
    X = torch.randn(n, 6, generator=generator)
    easy = y & (torch.rand(n, generator=generator) < 0.5)
    X[easy, 0] += 4.0
    X[y & ~easy, :2] += torch.tensor([-1.0, 3.0])
    X[~y & (torch.rand(n, generator=generator) < 0.05), 1] += 3.0
    return TensorDataset(X, y)


def main() -> None:
    """Train, keep the best epoch, and certify a threshold for it on further rows."""
    warnings.filterwarnings("ignore", module="pytorch_lightning")  # advice on loaders' workers
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    pl.seed_everything(0, verbose=False)
    training = DataLoader(transactions(2400, 0), batch_size=120, shuffle=True)
    validation, others = (DataLoader(transactions(3000, s), batch_size=500) for s in (1, 2))
    model = Classifier(steps=(EPOCHS - WARM_UP) * len(training))
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="objective", mode="max")
        trainer = pl.Trainer(
            max_epochs=EPOCHS,
            callbacks=[best],
            accelerator="auto",
            devices=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        trainer.fit(model, training, validation)
        model.load_state_dict(torch.load(best.best_model_path, weights_only=True)["state_dict"])

    model.eval().cpu()
    with torch.no_grad():
        (y, scores), (y_new, scores_new) = (
            (rows.dataset.tensors[1], model(rows.dataset.tensors[0]))
            for rows in (validation, others)
        )
    print(choose_threshold(y, scores, GOAL, on="the validation rows"))
    print(certify(y_new, scores_new, GOAL, on="the certification rows"))


if __name__ == "__main__":
    main()

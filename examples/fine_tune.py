"""Fine-tune a small transformer, end to end, for a floor on precision.

The goal is to hide spam, with at most one legitimate message among a hundred hidden ones. The model
is first trained with cross-entropy, as usual, and then for the goal. Both models are evaluated on
messages that neither has seen.

The messages are read from sms_spam.parquet (columns text and label) in the folder SETPOINT_DATA.
If there is no such file, they are generated; the result then says nothing about real spam.
"""

import argparse
import copy
import os
import zlib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

from setpoint import OperatingPoint, certify
from setpoint.data import LoaderRows
from setpoint.report import plot_certificate
from setpoint.thresholds import stream_evaluate, stream_threshold
from setpoint.training import Stochastic, train

GOAL = "max recall s.t. precision >= 0.99"
VOCABULARY, LENGTH = 4096, 30
PLAIN = ("see", "you", "at", "the", "station", "tonight", "lunch", "home", "late", "call", "ok")
LOUD = ("win", "free", "prize", "claim", "now", "urgent", "cash", "offer", "reply", "txt", "call")


class SmallTransformer(nn.Module):
    """Word embeddings, two transformer layers, mean pooling, and one logit."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        # No dropout: the counts of a training step are then those of the model in evaluation mode.
        layer = nn.TransformerEncoderLayer(
            width, nhead=2, dim_feedforward=2 * width, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.logit = nn.Linear(width, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return one logit per message."""
        real = tokens > 0
        encoded = self.encoder(self.words(tokens) + self.positions, src_key_padding_mask=~real)
        mean = (encoded * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return self.logit(mean).squeeze(1)


def read_messages() -> tuple[list[str], np.ndarray]:
    """Return the distinct messages and whether each is spam."""
    for folder in os.environ.get("SETPOINT_DATA", "data").split(os.pathsep):
        path = Path(folder) / "sms_spam.parquet"
        if path.is_file():
            import pandas as pd

            table = pd.read_parquet(path).drop_duplicates("text")
            return list(table["text"]), table["label"].to_numpy() == 1
    print("There is no sms_spam.parquet in SETPOINT_DATA; using generated messages.")
    rng = np.random.default_rng(0)
    spam = rng.random(4000) < 0.15
    loudness = np.where(spam, rng.uniform(0.1, 0.9, 4000), rng.uniform(0.0, 0.3, 4000))
    texts = [
        " ".join(
            rng.choice(LOUD if loud else PLAIN) for loud in rng.random(rng.integers(5, 20)) < p
        )
        for p in loudness
    ]
    return texts, spam


def tokens_of(text: str) -> list[int]:
    """Return the token ids of a message, padded with 0 to LENGTH."""
    for mark in '.,!?:;()"':
        text = text.replace(mark, f" {mark} ")
    words = (text.lower().split() or [""])[:LENGTH]
    tokens = [1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in words]
    return tokens + [0] * (LENGTH - len(tokens))


def loaders(quick: bool) -> list[DataLoader]:
    """Return the loaders of training, validation and test messages."""
    texts, spam = read_messages()
    X, y = torch.tensor([tokens_of(text) for text in texts]), torch.from_numpy(spam)
    order = torch.randperm(len(y))[: 1200 if quick else None]
    cuts = [int(len(order) * fraction) for fraction in (0.5, 0.75)]
    splits = order.tensor_split(cuts)
    return [DataLoader(TensorDataset(X[rows], y[rows]), batch_size=256) for rows in splits]


def train_by_cross_entropy(
    model: nn.Module, rows: DataLoader, validation: DataLoader, epochs: int
) -> None:
    """Train as usual, and keep the weights of the epoch with the lowest validation loss."""
    X, y = rows.dataset.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    lowest, best = float("inf"), {}
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(X[batch]), y[batch].float()).backward()
            optimizer.step()
        logits, truth = scores_on(model, validation)
        loss = float(binary_cross_entropy_with_logits(logits, truth.float()))
        if loss < lowest:
            lowest, best = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)


@torch.no_grad()
def scores_on(model: nn.Module, rows: DataLoader) -> tuple[Tensor, Tensor]:
    """Return logits and labels."""
    model.eval()
    pairs = [(model(X), y) for X, y in rows]
    return torch.cat([z for z, _ in pairs]), torch.cat([y for _, y in pairs])


def on_test(model: nn.Module, threshold: float, test: DataLoader) -> OperatingPoint:
    """Return the operating point of a threshold on the test messages."""
    logits, y = scores_on(model, test)
    return stream_evaluate(lambda: [(y, logits, None)], threshold, GOAL, on="the test messages")


def main() -> None:
    """Train with cross-entropy and for the goal, and compare both on the test messages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer messages and steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    training, validation, test = loaders(options.quick)

    model = SmallTransformer()
    train_by_cross_entropy(model, training, validation, epochs=4 if options.quick else 12)
    logits, y = scores_on(model, validation)
    chosen = stream_threshold(lambda: [(y, logits, None)], GOAL, on="the validation messages")
    before = on_test(model, chosen.threshold, test)

    solver = Stochastic(
        start="given",
        proximity=(0.0,),
        batch_size=256,
        lr=5e-4,
        outer_iterations=2 if options.quick else 8,
        inner_iterations=5 if options.quick else 30,
    )
    solution = train(
        model, LoaderRows(training), GOAL, validation=LoaderRows(validation), solver=solver
    )
    print(solution.candidates)
    after = on_test(model, solution.operating_point.threshold, test)
    print(f"\n{'on test messages':<38}  recall  precision  hidden  of which not spam")
    for name, point in (
        ("cross-entropy, threshold tuned", before),
        ("trained for the goal", after),
    ):
        recall, precision = point.value("recall"), point.value("precision")
        hidden = f"{point.tp + point.fp:6.0f}  {point.fp:17.0f}"
        print(f"{name:<38}  {recall:6.3f}  {precision:9.3f}  {hidden}")

    logits, y = scores_on(model, test)
    threshold = solution.operating_point.threshold
    plot_certificate(certify(y, logits, GOAL, threshold=threshold), y, logits)
    plt.savefig("fine_tune.png")


if __name__ == "__main__":
    main()

"""Fine-tune a Hugging Face model for a goal: MiniBatchPenalty is the Trainer's loss function.

A tiny BERT is made from a configuration, so that nothing is downloaded; put
``AutoModelForSequenceClassification.from_pretrained(...)`` in its place. The first epochs minimise
cross-entropy, the others the goal's loss. ``compute_metrics`` finds the exact threshold on the
validation texts after every epoch, and the Trainer keeps the best one.

It needs transformers and accelerate, and generates its data.
"""

import tempfile

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EvalPrediction,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging

from setpoint import MiniBatchPenalty, certify, choose_threshold

GOAL = "max recall s.t. precision >= 0.9"
EPOCHS, WARM_UP, BATCH = 14, 4, 32


class Messages(Dataset):
    """Texts as token ids; those of the positive class have more words of one kind."""

    def __init__(self, n: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = (torch.rand(n, generator=generator) < 0.2).long()
        loudness = torch.rand(n, generator=generator) * (0.3 + 0.3 * self.labels)
        loud = torch.rand(n, 12, generator=generator) < (loudness + 0.2 * self.labels)[:, None]
        self.input_ids = torch.randint(4, 40, (n, 12), generator=generator) + 40 * loud

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {
            "input_ids": self.input_ids[i],
            "attention_mask": torch.ones(12, dtype=torch.long),
            "labels": self.labels[i],
        }


class GoalLoss:
    """The loss of a batch: cross-entropy at first, then the goal's."""

    def __init__(self, penalty: MiniBatchPenalty, warm_up_steps: int) -> None:
        self.penalty, self.left = penalty, warm_up_steps

    def __call__(
        self,
        outputs: SequenceClassifierOutput,
        labels: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Return the loss; that of validation batches is asked for without gradients."""
        if self.left == 0:
            return self.penalty(outputs, labels)
        if torch.is_grad_enabled():
            self.penalty.observe(outputs, labels)
            self.left -= 1
        return cross_entropy(outputs.logits, labels)


def two_class_logit(logits: np.ndarray) -> np.ndarray:
    """Return the logit of the positive class."""
    return logits[:, 1] - logits[:, 0]


def at_the_exact_threshold(prediction: EvalPrediction) -> dict[str, float]:
    """Return the goal's metrics at the exact threshold."""
    scores = two_class_logit(prediction.predictions)
    point = choose_threshold(prediction.label_ids, scores, GOAL, on="the validation texts")
    print(point.message)
    return {
        "recall": point.recall,
        "precision": point.precision,
        "objective": point.objective - 10 * point.violation,  # lowered where the goal is missed
    }


def main() -> None:
    """Fine-tune, keep the best epoch, and certify a threshold for it on further texts."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    set_seed(0)
    training, validation, others = Messages(1024, 0), Messages(1500, 1), Messages(3000, 2)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=80,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.1,
            num_labels=2,
        )
    )
    steps = -(-len(training) // BATCH)  # of an epoch
    penalty = MiniBatchPenalty(GOAL, steps=(EPOCHS - WARM_UP) * steps)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=500,
                learning_rate=2e-3,
                eval_strategy="epoch",
                save_strategy="epoch",
                save_total_limit=1,
                load_best_model_at_end=True,
                metric_for_best_model="objective",
                logging_strategy="no",
                report_to="none",
                dataloader_pin_memory=False,
                disable_tqdm=True,
            ),
            train_dataset=training,
            eval_dataset=validation,
            compute_loss_func=GoalLoss(penalty, WARM_UP * steps),
            compute_metrics=at_the_exact_threshold,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        found = [trainer.predict(texts) for texts in (validation, others)]

    (y, scores), (y_new, scores_new) = (
        (f.label_ids, two_class_logit(f.predictions)) for f in found
    )
    print(choose_threshold(y, scores, GOAL, on="the validation texts"))
    print(certify(y_new, scores_new, GOAL, on="the certification texts"))


if __name__ == "__main__":
    main()

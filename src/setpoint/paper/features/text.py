"""Vectors of texts, by BERT and its kin."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from setpoint._internal.validation import check_whole
from setpoint.errors import SetpointError
from setpoint.paper.features.encoder import Features, fingerprint, first_token, load

_PLACES = ("_file", "name_or_path")  # options that say where a tokenizer lies, not what it does


class TextEncoder:
    """The [CLS] vector of a text in the last layer of a pretrained model.

    Texts are cut at ``max_tokens`` tokens, [CLS] and [SEP] among them. A text that is missing is
    an error, an empty one is not. Broken characters (lone surrogates) are read as U+FFFD.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A model whose output has ``last_hidden_state``.
    tokenizer : transformers.PreTrainedTokenizerBase
        Its tokenizer, which must put a [CLS] first. It is set to pad and cut on the right.
    max_tokens : int
        The most tokens of a text that are read; 128 in the paper.
    """

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int = 128) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_tokens = _check(model, tokenizer, max_tokens)
        tokenizer.padding_side = tokenizer.truncation_side = "right"

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        max_tokens: int = 128,
        device: str = "auto",
        precision: str = "float32",
        *,
        revision: str = "main",
    ) -> TextEncoder:
        """Load a model of huggingface.co, or one that ``save_pretrained`` wrote to a folder.

        Parameters
        ----------
        name : str or path-like
            E.g. ``"bert-base-uncased"`` (768 features), the paper's; or a path.
        max_tokens : int
            The most tokens of a text that are read.
        device : str
            ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda:1"``, ...
        precision : {"float32", "float16", "bfloat16"}
            Of the weights and the computation. The features are float32 in any case.
        revision : str
            A branch, tag or commit of the model's repository.
        """
        model, tokenizer = load("AutoTokenizer", name, revision, device, precision)
        return cls(model, tokenizer, max_tokens)

    @property
    def dimension(self) -> int:
        """The length of a vector: 768 for bert-base-uncased."""
        return int(self.model.config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the weights, the configuration, the tokenizer and the limit of tokens."""
        return fingerprint(
            self.model, {"tokenizer": _describe(self.tokenizer), "max_tokens": self.max_tokens}
        )

    def digest(self, item: Any) -> str:
        """Return a digest of a text."""
        return hashlib.sha256(_text(item).encode()).hexdigest()

    def length(self, item: Any) -> int:
        """Return the number of characters, by which texts that go well together are found."""
        return len(item)

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per text; the texts are padded to the longest of them."""
        texts = [_text(item) for item in items]
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        inputs = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        return first_token(self.model, inputs.to(self.model.device))


def _text(item: Any) -> str:
    """Return a text that can be written as UTF-8."""
    if not isinstance(item, str):
        raise SetpointError(
            f"a text must be a str, but this is {item!r} ({type(item).__name__}); "
            "where texts are missing, drop the rows or use ''."
        )
    text = str(item)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two surrogates that make a pair become the character they stand for.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _check(model: Any, tokenizer: Any, max_tokens: int) -> int:
    """Return the limit of tokens if model and tokenizer can do with it and with each other."""
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise SetpointError(
            "the tokenizer knows no words, only special tokens: its files (tokenizer.json or "
            "vocab.txt) are missing beside the model."
        )
    if len(tokenizer) > model.config.vocab_size:
        raise SetpointError(
            f"the tokenizer has {len(tokenizer)} tokens, the model {model.config.vocab_size}; "
            "they do not belong together."
        )
    ids = tokenizer("a")["input_ids"]
    if tokenizer.cls_token_id is None or ids[0] != tokenizer.cls_token_id:
        raise SetpointError(
            "the tokenizer does not put a [CLS] token first, so the model has no vector for a "
            "whole text; take a model of the BERT kind."
        )
    if tokenizer.pad_token_id is None:
        raise SetpointError("the tokenizer has no token for padding; set tokenizer.pad_token.")
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    most = min(tokenizer.model_max_length, positions)
    least = tokenizer.num_special_tokens_to_add() + 1
    return check_whole(max_tokens, "max_tokens", least, most)


def _describe(tokenizer: Any) -> Any:
    """Return all that decides how a text becomes tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:  # a tokenizer written in Python
        options = {k: v for k, v in tokenizer.init_kwargs.items() if not k.endswith(_PLACES)}
        return [type(tokenizer).__name__, tokenizer.get_vocab(), options]
    described = json.loads(backend.to_str())
    # What the last call asked for; every call sets these anew.
    return {k: v for k, v in described.items() if k not in ("truncation", "padding")}

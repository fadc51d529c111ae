"""Which layer of an encoder BERTScore uses: the choices of bert-score 0.3.13, tuned by its authors on WMT16."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {"eng": "en", "english": "en", "chinese": "zh", "turkish": "tr"}
_OF_LANGUAGE = {"en": "roberta-large", "zh": "bert-base-chinese", "tr": "dbmdz/bert-base-turkish-cased"}
_OF_OTHERS = "bert-base-multilingual-cased"

LAYERS: dict[str, int] = {
    "bert-base-uncased": 9, "bert-large-uncased": 18, "bert-base-cased-finetuned-mrpc": 9,
    "bert-base-multilingual-cased": 9, "bert-base-chinese": 8, "bert-base-turkish-cased": 10,
    "distilbert-base-turkish-cased": 4, "scibert_scivocab_uncased": 8, "scibert_scivocab_cased": 9,
    "scibert_basevocab_uncased": 9, "spanbert-base-cased": 8, "spanbert-large-cased": 17, "finbert": 10,
    "roberta-base": 10, "roberta-large": 17, "roberta-large-mnli": 19, "roberta-base-openai-detector": 7,
    "roberta-large-openai-detector": 15, "distilroberta-base": 5, "bertweet-base": 9, "xlm-roberta-base": 9,
    "xlm-roberta-large": 17, "distilbert-base-uncased": 5, "distilbert-base-uncased-distilled-squad": 4,
    "distilbert-base-multilingual-cased": 5, "xlnet-base-cased": 5, "xlnet-large-cased": 7, "xlm-mlm-en-2048": 6,
    "xlm-mlm-100-1280": 10, "albert-base-v1": 10, "albert-large-v1": 17, "albert-xlarge-v1": 16,
    "albert-xxlarge-v1": 8, "albert-base-v2": 9, "albert-large-v2": 14, "albert-xlarge-v2": 13,
    "albert-xxlarge-v2": 8, "electra-small-generator": 9, "electra-small-discriminator": 11,
    "electra-base-generator": 10, "electra-base-discriminator": 9, "electra-large-generator": 18,
    "electra-large-discriminator": 14, "deberta-base": 9, "deberta-base-mnli": 9, "deberta-large": 16,
    "deberta-large-mnli": 18, "deberta-xlarge": 18, "deberta-xlarge-mnli": 40, "deberta-v2-xlarge": 10,
    "deberta-v2-xlarge-mnli": 17, "deberta-v2-xxlarge": 21, "deberta-v2-xxlarge-mnli": 22, "deberta-v3-xsmall": 10,
    "deberta-v3-small": 4, "deberta-v3-base": 9, "mdeberta-v3-base": 10, "deberta-v3-large": 12,
    "DeBERTa-v3-large-mnli": 18, "mpnet-base": 8, "conv-bert-base": 10, "conv-bert-small": 10,
    "conv-bert-medium-small": 9, "squeezebert-uncased": 9, "squeezebert-mnli": 9, "squeezebert-mnli-headless": 9,
    "bart-base": 6, "bart-large": 10, "bart-large-cnn": 10, "bart-large-mnli": 11, "bart-large-xsum": 9,
    "mbart-large-cc25": 12, "mbart-large-50": 12, "mbart-large-en-ro": 12, "mbart-large-50-many-to-many-mmt": 12,
    "mbart-large-50-one-to-many-mmt": 12, "t5-small": 6, "t5-base": 11, "t5-large": 23, "mt5-small": 8,
    "mt5-base": 11, "mt5-large": 19, "mt5-xl": 24, "pegasus-large": 8, "pegasus-xsum": 11,
    "longformer-base-4096": 7, "longformer-large-4096": 14, "longformer-large-4096-finetuned-triviaqa": 14,
    "unsup-simcse-bert-base-uncased": 10, "unsup-simcse-bert-large-uncased": 18, "unsup-simcse-roberta-base": 8,
    "unsup-simcse-roberta-large": 13, "sup-simcse-bert-base-uncased": 10, "sup-simcse-bert-large-uncased": 18,
    "sup-simcse-roberta-base": 10, "sup-simcse-roberta-large": 16,
}  # fmt: skip
"""Layers by the last part of a model's name, so that a folder of that name is known too."""


def published_layer(name: str) -> int | None:
    """Return the layer that is published for a model of that name, None if none is.

    Upper and lower case, `_` and `-` are the same: `Roberta_Large` is known, `roberta-large-copy` is not.
    """
    return _BY_PLAIN_NAME.get(plain_name(name))


def plain_name(name: str) -> str:
    """Return a model's name in lower case with `-` for `_`."""
    return name.lower().replace("_", "-")


_BY_PLAIN_NAME = {plain_name(name): layer for name, layer in LAYERS.items()}


def default_language(languages: Sequence[str]) -> str | None:
    """Return the two-letter code of the texts' language, None if there are several."""
    codes = {code.lower().replace("_", "-").partition("-")[0] for code in languages}
    codes = {_NAMES.get(code, code) for code in codes}
    return codes.pop() if len(codes) == 1 else None


def default_model(languages: Sequence[str]) -> str:
    """Return the encoder for texts in some languages: bert-score's choice, a multilingual one for several."""
    return _OF_LANGUAGE.get(default_language(languages) or "", _OF_OTHERS)

"""ROUGE for text that is not English: the same measures on Unicode tokens, under names of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lm_eval_healthcare.metrics import tokenizer_unicode
from lm_eval_healthcare.metrics.rouge import ROUGE, Rouge


class RougeUnicode(Rouge):
    """One ROUGE type on the tokens of `tokenizer_unicode.tokenize`, 0 to 1, higher is better.

    Equations and the rule for several references are those of `Rouge`. Not comparable with it: accents, other scripts,
    comparison signs and units count here.
    """

    family = "rouge_unicode"
    suffix = "_unicode"
    words = "runs of letters and digits of any script, characters of scripts without spaces, mathematical symbols"

    def tokenizer(self) -> Any:
        """Return the Unicode tokenizer in the shape that rouge-score-rs takes."""
        return SimpleNamespace(tokenize=tokenizer_unicode.tokenize)

    def signature_fields(self) -> dict[str, str]:
        """Return the fields of the signature, in order."""
        fields = super().signature_fields()
        return fields | {
            "impl": f"{fields['impl']}+lm_eval_healthcare",
            "ref": "lm_eval_healthcare",
            "tok": tokenizer_unicode.NAME,
            "case": "fold",
        }


ROUGE_UNICODE = tuple(RougeUnicode(metric.rouge_type) for metric in ROUGE)

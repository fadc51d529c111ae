"""Which documents can be scored: the one rule for missing and blank texts, the same for every metric."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})


def is_blank(text: str | None) -> bool:
    """Return whether a text is missing or has no visible character.

    Invisible are whitespace and separators, control and format characters (form feed, zero-width space, byte order
    mark): the Unicode categories Z*, Cc and Cf. A code point that this Python's Unicode table does not know may well be
    a visible one of a newer version. Anything that is not a string (`None`, a float NaN) is missing.
    """
    if not isinstance(text, str):
        return True
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


@dataclass(frozen=True)
class Pairs:
    """The documents of one batch, sorted by whether they can be scored.

    Attributes:
        n: Number of documents.
        scored: Rows with a prediction and a reference, in document order.
        unanswered: Rows whose prediction is missing or blank while the reference is not: they get the worst score.
            The rows left over have no reference: they get NaN.
        predictions: The predictions of `scored`.
        references: The references of `scored` that are not blank, at least one for each.
        unanswered_references: The same of `unanswered`.
        notes: What metrics have counted of these texts, so that they count once for several calls.
    """

    n: int
    scored: list[int]
    unanswered: list[int]
    predictions: list[str]
    references: list[list[str]]
    unanswered_references: list[list[str]] = field(default_factory=list)
    notes: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def with_blanks(self) -> Pairs:
        """Return the same with an empty text as the prediction of every document that has none."""
        rows = sorted(self.scored + self.unanswered)
        predictions = dict(zip(self.scored, self.predictions, strict=True))
        references = dict(zip(self.scored + self.unanswered, self.references + self.unanswered_references, strict=True))
        return Pairs(
            n=self.n, scored=rows, unanswered=[], predictions=[predictions.get(row, "") for row in rows],
            references=[references[row] for row in rows], notes=self.notes,
        )  # fmt: skip

    @classmethod
    def of(cls, predictions: Sequence[str | None], references: Sequence[Any]) -> Pairs:
        """Sort a batch.

        Args:
            predictions: One text a document; `None` or NaN where there is none.
            references: One text or one list of texts a document; `None` or NaN where there is none.

        Raises:
            TypeError: If a single string is given in place of a sequence.
            ValueError: If the two differ in length.
        """
        for role, texts in (("predictions", predictions), ("references", references)):
            if isinstance(texts, str):
                raise TypeError(f"{role} is one string; give a sequence with one text a document, such as [text]")
            if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
                kind = type(texts).__name__
                raise TypeError(f"{role} is of type {kind}; give a sequence with one text a document, such as [text]")
        predictions, references = list(predictions), list(references)
        if len(predictions) != len(references):
            raise ValueError(
                f"got {len(predictions)} predictions and {len(references)} references; there must be one reference "
                "(or one list of references) a document. Put None where a document has none"
            )
        pairs = cls(n=len(predictions), scored=[], unanswered=[], predictions=[], references=[])
        for row, (prediction, texts) in enumerate(zip(predictions, references, strict=True)):
            visible = _visible(texts)
            if not visible:
                continue
            if isinstance(prediction, str) and not is_blank(prediction):
                pairs.scored.append(row)
                pairs.predictions.append(prediction)
                pairs.references.append(visible)
            else:
                pairs.unanswered.append(row)
                pairs.unanswered_references.append(visible)
        return pairs


def _visible(references: Any) -> list[str]:
    """Return a document's references that are not blank."""
    if isinstance(references, str) or not isinstance(references, Iterable):
        references = [references]
    return [text for text in references if not is_blank(text)]

"""Taking a reasoning model's thoughts out of its answer, so that only the answer is scored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CUT_REASONING = "cut_reasoning"
_WORD = r"(?:seed:)?(?:think(?:ing)?|thought|reasoning)"
# Also as some models write them: [THINK], \u25c1think\u25b7, <|begin_of_thought|>.
_OPEN = rf"<{_WORD}>|\[think\]|\u25c1think\u25b7|<\|begin_of_thought\|>"
_CLOSE = rf"</{_WORD}>|\[/think\]|\u25c1/think\u25b7|<\|end_of_thought\|>"
_TAG = re.compile(rf"(?P<close>{_CLOSE})|{_OPEN}", re.IGNORECASE | re.ASCII)
_OPEN_AT_THE_END = re.compile(rf"(?:{_OPEN})\s*\Z", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Answer:
    """What is left of a reply.

    Attributes:
        text: The text that is scored; stripped of the blanks around it where reasoning was taken out.
        cut: Whether the model was still reasoning when its reply ended, so that there is no answer.
    """

    text: str
    cut: bool = False


def opens_reasoning(prompt: str) -> bool:
    """Say whether a prompt ends inside a block of reasoning, as some chat templates do."""
    return _OPEN_AT_THE_END.search(prompt) is not None


def kept_spans(reply: str, begun: bool = False) -> list[tuple[int, int]] | None:
    """Return where the answer stands in a reply, as `without_reasoning` sees it; None if there is none.

    Args:
        reply: The model's reply.
        begun: Whether the prompt itself ended with an opening tag.

    Returns:
        Places as for slicing, in order; one for all of the reply if it holds no reasoning.
    """
    kept: list[tuple[int, int]] = []
    start = 0  # of the text that is neither kept nor dropped yet
    inside = begun
    for tag in _TAG.finditer(reply):
        if tag["close"]:
            if not inside:  # closes what began before the reply: all text so far was reasoning
                kept = []
            start, inside = tag.end(), False
        elif not inside:
            kept.append((start, tag.start()))
            start, inside = tag.start(), True
    if inside and ((begun and start == 0) or not any(reply[a:b].strip() for a, b in kept)):
        return None
    return [*kept, (start, len(reply))]


def without_reasoning(reply: str, begun: bool = False) -> Answer:
    """Take `<think>...</think>`, and what other models write in its place, out of a reply, in one pass.

    A block that is closed is taken out wherever it stands. A closing tag that nothing opened ends reasoning that began
    before the reply. An opening tag at the beginning of the reply that is never closed means that the reply was cut
    inside the reasoning: there is no answer. An opening tag in the middle of an answer that is never closed is text.

    Args:
        reply: The model's reply.
        begun: Whether the prompt itself ended with an opening tag.

    Returns:
        The answer; unchanged, blanks included, if the reply holds no reasoning.
    """
    kept = kept_spans(reply, begun)
    if kept is None:
        return Answer("", cut=True)
    text = "".join(reply[start:end] for start, end in kept)
    return Answer(text if text == reply else text.strip())


def stopped(text: str, until: Sequence[str]) -> str:
    """Return a text up to the first of its stop strings.

    Args:
        text: An answer, without reasoning.
        until: Stop strings; empty ones are ignored.
    """
    places = [place for stop in until if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text

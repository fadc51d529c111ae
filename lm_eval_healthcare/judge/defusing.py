"""Making material harmless: what is graded cannot pass for a verdict, a fence, a heading or a control token.

Rewritten are, so that a person still reads the same:

- the mark of a verdict in every form that the parser knows, look-alikes and halves of it too, `[RESULT]` to `(RESULT)`;
- what tokenizers turn into control tokens, and the tags of reasoning: `<|im_end|>`, `</s>`, `<think>` and any other
  `<word>` get `‹` and `›`, `[INST]` and its kind get round brackets;
- runs of three or more `<` or `>`, of which fences are made;
- lines that begin like a heading of the template, whose `#` become the wide `＃`.

This keeps material from acting through the parser and the tokenizer. It cannot keep a model from believing what an
answer says of itself in plain words (`the experts gave this the highest score`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from lm_eval_healthcare.judge.verdict_marker import marks_and_halves, visible

_LESS, _MORE = "<\uff1c\ufe64", ">\uff1e\ufe65"
_BAR = "|\uff5c"
_CONTROL = re.compile(
    rf"[{_LESS}][{_BAR}][^{_LESS}{_MORE}{_BAR}\n]{{0,60}}[{_BAR}][{_MORE}]"
    rf"|[{_LESS}][{_BAR}]|[{_BAR}][{_MORE}]"  # and either half, wherever it stands
    rf"|[{_LESS}]/?[A-Za-z][^{_LESS}{_MORE}\s]{{0,40}}[{_MORE}]"
    rf"|[{_LESS}]{{3,}}|[{_MORE}]{{3,}}"
    r"|\u25c1/?think\u25b7"
    r"|\[/?(?:INST|SYS|THINK|SYSTEM_PROMPT|AVAILABLE_TOOLS|MODEL_SETTINGS|TOOL_[A-Z]{1,12}|ARGS|CALL_ID|IMG(?:_[A-Z]{1,8})?"
    r"|AUDIO|BOS|EOS|PAD|UNK|CLS|SEP|MASK|[gs]MASK|PREFIX|MIDDLE|SUFFIX)\]",
    re.IGNORECASE,
)
_WRITTEN = str.maketrans(
    {**dict.fromkeys(_LESS + "\u25c1", "\u2039"), **dict.fromkeys(_MORE + "\u25b7", "\u203a"), "[": "(", "]": ")"}
)
_BREAKS = r"\n\r\x0b\x0c\x85\u2028\u2029"
_HEADING = re.compile(rf"(?:\A|(?<=[{_BREAKS}]))([^\w#{_BREAKS}]*)(#{{1,6}})([^{_BREAKS}]*)")
_WIDE_HASH = "\uff03"


@functools.lru_cache(maxsize=64)
def headings(template: str) -> frozenset[str]:
    """Return the headings of a template, each without its `#`, marks and case, up to a colon or bracket."""
    return frozenset(_plain(found[3]) for found in _HEADING.finditer(template) if _plain(found[3]))


def defuse(text: str, of_template: Collection[str] = ()) -> tuple[str, int]:
    """Rewrite what must not stand in a prompt.

    Args:
        text: Material: an answer, a question, a reference.
        of_template: The template's headings, as `headings` returns them.

    Returns:
        The text, and how many pieces of it were rewritten.
    """
    text, marks = _without_marks(text)
    text, controls = _CONTROL.subn(lambda found: found[0].translate(_WRITTEN), text)
    changed, names = 0, tuple(of_template)

    def heading(found: re.Match[str]) -> str:
        nonlocal changed
        if not _plain(found[3]).startswith(names):
            return found[0]
        changed += 1
        return found[1] + _WIDE_HASH * len(found[2]) + found[3]

    if names:
        text = _HEADING.sub(heading, text)
    return text, marks + controls + changed


def _without_marks(text: str) -> tuple[str, int]:
    seen = visible(text)
    pieces: list[str] = []
    done = count = 0
    for place in marks_and_halves(seen.text):
        start, end = seen.span(*place)
        if start < done:
            continue
        pieces += [text[done:start], "(RESULT)"]
        done, count = end, count + 1
    return "".join([*pieces, text[done:]]), count


def _plain(heading: str) -> str:
    """Return a heading without marks, invisible characters and case, up to a colon or bracket."""
    return re.split("[:(\uff1a]", visible(heading).text, maxsplit=1)[0].strip(" \t*_`#").casefold()

"""What judges that run in this process share: their names in signatures, their prompts as tokens, their replies."""

from __future__ import annotations

import ctypes
import difflib
import logging
import math
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_eval_healthcare.judge.backends.base import LAST_TOKENS, Ask, Reply, Token
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.metrics.encoding import batches, checkpoints
from lm_eval_healthcare.metrics.encoding.fingerprints import fingerprint_of
from lm_eval_healthcare.metrics.encoding.machine import first_line
from lm_eval_healthcare.metrics.encoding.soundness import cut_short

logger = logging.getLogger(__name__)

Row = Sequence[tuple[int, float]]
"""Token ids and the natural logarithms of their probabilities, at one place of a text."""

_SETTLING = ("tokenizer", "tokenizer_revision", "quantization", "quantization_config", "hf_overrides", "rope_scaling")
"""Arguments with which the same weights write other texts."""
_CONTEXT_OF_A_PIECE = 8  # tokens before the first one that is decoded: letters of several bytes, blanks that depend
_UNFINISHED = "\ufffd"


def check_folder(model: str, revision: str | None = None) -> None:
    """See whether a model can be had and its files are whole, without loading it.

    Raises:
        JudgeError: If not; the message says what to do.
    """
    problem = checkpoints.missing(_named(model, revision))
    if problem:
        raise JudgeError(f"judge {problem}")
    folder = checkpoints.find(_named(model, revision))
    if folder is None:  # still on the hub
        return
    faults = [cut_short(path) for path in checkpoints.weight_files(folder) if path.suffix != ".json"]
    fault = next(filter(None, faults), None)
    if fault:
        raise JudgeError(f"judge model {model}: {fault}")


def refuse_unknown(given: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse names that do not exist, with those that look like them.

    Args:
        given: Names that a user gave.
        known: Names that exist.
        what: What they name, in the plural.

    Raises:
        JudgeError: If one is unknown.
    """
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    texts = []
    for name in unknown:
        close = difflib.get_close_matches(name, sorted(known), n=3)
        texts.append(f"'{name}'" + (f" (did you mean {' or '.join(close)}?)" if close else ""))
    listed = "" if len(known) > 40 else f"; there are {', '.join(sorted(known))}"
    raise JudgeError(f"unknown {what} for the judge: {', '.join(texts)}{listed}")


def revision_of(args: Mapping[str, Any]) -> str | None:
    """Return the revision among arguments; one of digits only may have been read as a number."""
    return None if args.get("revision") is None else str(args["revision"])


def signature_name(model: str, revision: str | None = None, args: Mapping[str, Any] | None = None) -> str:
    """Return what stands for a judge in signatures.

    A folder is named by the kind, layers and width of its model and by its content, such as
    `mistral-32x4096@0a1b2c3d4e5f`, so that the same files have the same name wherever they lie; a model of the hub is
    `id@revision` with the first 12 digits of the commit if it is on this machine.

    Args:
        model: A folder, or the hub's id with or without `@revision`.
        revision: The revision, where it is not in the id.
        args: Arguments of the back end, of which those that change what is written are added.
    """
    name, inside = checkpoints.parse(model)
    wanted = inside or revision
    folder = checkpoints.find(_named(model, revision))
    if _is_folder(model):
        kind = checkpoints.label(model).rpartition("@")[0]
        found = f"{kind}@{_fingerprint(folder)}" if folder is not None else checkpoints.label(model)
    elif folder is not None and folder.parent.name == "snapshots":
        found = f"{name}@{folder.name[:12]}"
    else:
        found = f"{name}@{wanted}" if wanted else name
    extra = [f"+{key}={args[key]}" for key in _SETTLING if args and args.get(key) is not None]
    return re.sub(r"[|\s]", "_", found + "".join(extra))


def free_memory() -> None:
    """Give back what nothing uses any more, of the GPU, and of the C library where it keeps freed memory."""
    batches.free_memory()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def _named(model: str, revision: str | None) -> str:
    inside = checkpoints.parse(model)[1]
    return model if inside or not revision or _is_folder(model) else f"{model}@{revision}"


def _is_folder(model: str) -> bool:
    return Path(os.path.expanduser(model)).is_dir()


def _fingerprint(folder: Path) -> str:
    """Return 12 digits for everything in a folder that decides what the judge writes, its chat template with it."""
    tokens = ("tokenizer", "vocab", "merges", "special_tokens", "added_tokens", "chat_template", "tekken")
    weights = {path.name for path in checkpoints.weight_files(folder)}
    chosen = [
        path
        for path in folder.iterdir()
        if path.is_file()
        and (
            path.name in weights
            or path.name in ("config.json", "generation_config.json")
            or path.name.startswith(tokens)
        )
    ]
    return fingerprint_of((path.name, path) for path in chosen)


class ChatTokens:
    """A judge's tokenizer and chat template: prompts to tokens, tokens to replies."""

    def __init__(self, tokenizer: Any, end_tokens: Collection[int] = ()) -> None:
        """Take a tokenizer of transformers.

        Args:
            tokenizer: The tokenizer, with its chat template if it has one.
            end_tokens: Tokens that end a text, beside the tokenizer's own and the one that its template puts after a
                turn.
        """
        self.tokenizer = tokenizer
        self._given_ends = frozenset(int(token) for token in end_tokens)
        self._texts: dict[int, str] = {}

    @classmethod
    def load(
        cls,
        model: str,
        *,
        revision: str | None = None,
        tokenizer: str | None = None,
        trust_remote_code: bool = False,
    ) -> ChatTokens:
        """Read a judge's tokenizer, and the tokens that its folder says end a text.

        Args:
            model: A folder or the hub's id.
            revision: The revision of the hub's id.
            tokenizer: The tokenizer's folder or id, if it is another one.
            trust_remote_code: Whether code in the folder may run.

        Raises:
            JudgeError: If the tokenizer cannot be loaded.
        """
        try:
            from transformers import AutoTokenizer, GenerationConfig
        except ImportError:
            raise JudgeError(
                "a judge in this process needs transformers: pip install 'lm-eval-healthcare[hf]', or let a server run "
                "the judge (backend openai)"
            ) from None
        name = checkpoints.parse(model)[0]
        try:
            found = AutoTokenizer.from_pretrained(
                tokenizer or name, revision=None if tokenizer else revision, trust_remote_code=trust_remote_code
            )
        except Exception as error:  # of the hub, of files, in many forms
            raise JudgeError(
                f"the tokenizer of judge {tokenizer or model} cannot be loaded ({first_line(error)}); give a folder "
                "that holds the tokenizer's files beside the weights"
            ) from error
        ends: Any = None
        with suppress(Exception):  # most folders of old models have none
            ends = GenerationConfig.from_pretrained(name, revision=revision).eos_token_id
        return cls(found, ends if isinstance(ends, list | tuple) else [] if ends is None else [ends])

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end a judge's text."""
        own = self.tokenizer.eos_token_id
        turn = self._end_of_turn()
        return self._given_ends | {int(token) for token in (own, turn) if token is not None}

    def ids(self, prompt: Prompt) -> list[int]:
        """Return a prompt as token ids, laid out by the chat template if there is one.

        Texts of special tokens inside the prompt's contents are written with a blank in them: an answer that says
        `<|im_end|>` must not end its turn.

        Raises:
            JudgeError: If the template cannot be applied.
        """
        messages = [{"role": message.role, "content": self._plain(message.content)} for message in prompt.messages]
        if not self._has_template:
            return self._encode("\n\n".join(message["content"] for message in messages), special=True)
        return self._encode(self._rendered(messages if self._takes_system else _merged(messages)), special=False)

    def reply(
        self, ask: Ask, prompt_tokens: int, generated: Sequence[int], rows: Sequence[Row], finish: str | None
    ) -> Reply:
        """Return the reply that generated tokens are.

        Args:
            ask: The request.
            prompt_tokens: Tokens of its prompt.
            generated: The tokens, with the end token or without it.
            rows: Log-probabilities at the places of the tokens; fewer are those of the first ones.
            finish: `stop` or `length`.
        """
        ids = list(generated)
        while ids and ids[-1] in self.end_tokens:
            ids.pop()
        first = max(0, len(ids) - LAST_TOKENS)
        tokens = tuple(
            Token(piece, self._by_text(row))
            for piece, row in zip(self._pieces(ids, first), rows[first : len(ids)], strict=False)
        )
        return Reply(
            ask.number,
            self._decode(ids),
            finish=finish,
            tokens=tokens if len(rows) >= len(ids) else (),
            prompt_tokens=prompt_tokens,
            completion_tokens=len(generated),
        )

    @property
    def _has_template(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    @cached_property
    def _takes_system(self) -> bool:
        """Whether the chat template shows what a `system` role says; some refuse it, some leave it out."""
        mark = "What the system says"
        try:
            return mark in self._rendered([{"role": "system", "content": mark}, {"role": "user", "content": "x"}])
        except JudgeError:
            return False

    @cached_property
    def _special(self) -> frozenset[int]:
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        return frozenset(self.tokenizer.all_special_ids) | {
            token for token, text in added.items() if getattr(text, "special", False)
        }

    @cached_property
    def _special_texts(self) -> re.Pattern[str] | None:
        texts = {str(self.tokenizer.convert_ids_to_tokens(token) or "") for token in self._special}
        longest_first = sorted((text for text in texts if len(text.strip()) > 1), key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def _plain(self, text: str) -> str:
        """Write the texts of special tokens so that they are none."""
        if self._special_texts is None:
            return text
        return self._special_texts.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _rendered(self, messages: list[dict[str, str]], *, ask: bool = True) -> str:
        from jinja2 import TemplateError

        try:
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask))
        except (TemplateError, TypeError, ValueError) as error:
            raise JudgeError(
                f"the judge's chat template cannot lay out a prompt ({first_line(error)}); correct chat_template in "
                "the folder of its tokenizer, or remove it: the prompt is then given without one"
            ) from error

    def _end_of_turn(self) -> int | None:
        """Return the special token that the template puts after what an assistant says, if any."""
        if not self._has_template:
            return None
        said = "What the assistant says"
        try:
            text = self._rendered([{"role": "user", "content": "x"}, {"role": "assistant", "content": said}], ask=False)
        except JudgeError:
            return None
        after = self._encode(text.rpartition(said)[2].lstrip(), special=False) if said in text else []
        return after[0] if after and after[0] in self._special else None

    def _encode(self, text: str, *, special: bool) -> list[int]:
        """Encode a text; the template has already written the token that begins one."""
        return [int(token) for token in self.tokenizer(text, add_special_tokens=special)["input_ids"]]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _pieces(self, ids: Sequence[int], first: int) -> list[str]:
        """Return what each token from `first` on adds to the text; bytes of an unfinished letter add nothing yet."""
        start = max(0, first - _CONTEXT_OF_A_PIECE)
        known = self._decode(ids[start:first]).rstrip(_UNFINISHED)
        pieces = []
        for end in range(first + 1, len(ids) + 1):
            text = self._decode(ids[start:end])
            text = text if end == len(ids) else text.rstrip(_UNFINISHED)
            pieces.append(text[len(known) :])
            known = text if len(text) > len(known) else known
        return pieces

    def _by_text(self, row: Row) -> dict[str, float]:
        """Return log-probabilities by the tokens' texts; equal texts are added up."""
        found: dict[str, float] = {}
        for token, log_p in row:
            if token not in self._texts:
                self._texts[token] = self._decode([token])
            text = self._texts[token]
            found[text] = _log_sum(found[text], log_p) if text in found else log_p
        return found


def too_long(ask: Ask, prompt_tokens: int, context: int) -> Reply:
    """Return the reply to a prompt that leaves no room for a single token."""
    detail = f"the prompt has {prompt_tokens} tokens, the judge's context {context}"
    return Reply(ask.number, None, Reason.TOO_LONG, detail, prompt_tokens=prompt_tokens)


def _merged(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Put what the system says before the first user turn, on a line of its own."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [dict(message) for message in messages if message["role"] != "system"]
    if system and others:
        others[0]["content"] = "\n".join([*system, others[0]["content"]])
    return others


def _log_sum(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))

"""What a server's answer to a chat completion is: a text, a refusal, something to try again, or the end of it all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lm_eval_healthcare.judge.backends.base import LAST_TOKENS, Reply, Token
from lm_eval_healthcare.judge.backends.http_loop import Answer, Gone
from lm_eval_healthcare.judge.backends.retries import demanded_wait
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.results.names import printable

_AGAIN = frozenset({408, 409, 425, 429})
_THIS_REQUEST = frozenset({400, 413, 422})
_OTHER_PARTS = frozenset({"reasoning_content", "reasoning", "refusal"})
"""Of a message; a server that sends one may leave out an empty content."""
_SHOWN = 300
"""Signs of a server's message that are kept."""
_ENDS = 3
"""Tokens that may stand after a text without being part of it, such as the one that ends it."""
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|maximum (model|sequence|input|prompt) length|max_model_len|max_seq_len|"
    r"(prompt|input|request|messages?).{0,40}(too long|too many tokens)|too many (input )?tokens|"
    r"(prompt|input) (length|tokens).{0,60}(exceed|longer|larger|greater)|reduce the length"
)


class Again(Exception):
    """The same request may do better at another time.

    Attributes:
        limited: Whether a rate limit is the reason.
        wait: Seconds that the server wants everyone to wait; None if it does not say.
    """

    def __init__(self, message: str, limited: bool = False, wait: float | None = None) -> None:
        """Take what happened."""
        super().__init__(message)
        self.limited, self.wait = limited, wait


class Declined(Exception):
    """This request, and only this one, will never be answered.

    Attributes:
        reason: `TOO_LONG`, `REFUSED` or `NO_REPLY`.
        form: Whether it may be for the request's form, which others share, and not for its content.
        parameter: What the server says it does not like, as its `param`; None if it does not say.
    """

    def __init__(self, reason: Reason, message: str, form: bool = False, parameter: object = None) -> None:
        """Take what happened."""
        super().__init__(message)
        self.reason, self.form, self.parameter = reason, form, parameter


class Complaint(NamedTuple):
    """An error as a server words it."""

    message: str
    code: object = None
    parameter: object = None


def read(answer: Answer, number: int) -> Reply:
    """Return the text of an answer.

    Args:
        answer: What the server sent.
        number: Of the request.

    Raises:
        Again: If the server is busy or broken, or what it sent is no chat completion.
        Declined: If it refuses this request.
        Gone: If it refuses all of them.
    """
    if not 200 <= answer.status < 300:
        raise failure(answer.status, complaint(answer), answer)
    try:
        found = json.loads(answer.data)
    except (ValueError, RecursionError):
        raise Again(_what_it_is(answer)) from None
    if isinstance(found, dict) and "choices" not in found and found.get("error"):
        worded = complaint(answer)
        status = worded.code if isinstance(worded.code, int) and 400 <= worded.code < 600 else 500
        raise failure(status, worded, answer)
    try:
        return _reply(found, number)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        raise Again("JSON that is no chat completion") from None


def failure(status: int, worded: Complaint, answer: Answer) -> Exception:
    """Return what an error of the server means."""
    message = f"HTTP {status}: {worded.message}"
    if 300 <= status < 400:
        target = urlsplit(answer.headers.get("Location", ""))
        return Gone(
            f"HTTP {status}: it sends requests on to {target.hostname or 'another path'}, which is not followed"
        )
    if status == 402 or (status == 429 and worded.code == "insufficient_quota"):
        return Gone(f"the account's means are used up ({message})")
    if status in _AGAIN or status >= 500:
        wait = demanded_wait(answer.headers, refused=True)
        return Again(message, limited=status == 429 or (status == 503 and wait is not None), wait=wait)
    if status in _THIS_REQUEST:
        long = worded.code == "context_length_exceeded" or _TOO_LONG.search(worded.message.lower())
        form = status != 413 and not long
        return Declined(Reason.TOO_LONG if long else Reason.REFUSED, message, form, worded.parameter)
    return Gone(message)


def complaint(answer: Answer) -> Complaint:
    """Return a server's error message in one line, with its code and the parameter it is about."""
    try:
        found = json.loads(answer.data)
    except (ValueError, RecursionError):
        return Complaint(_what_it_is(answer))
    error = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(error, dict):
        return Complaint(_one_line(error))
    message = error.get("message") or error.get("detail") or error
    parameter = error.get("param")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        where = message[0].get("loc")
        parameter = where[-1] if isinstance(where, list) and where else parameter
        message = f"{parameter}: {message[0].get('msg')}"
    return Complaint(_one_line(message), error.get("code"), parameter)


def _one_line(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return printable(" ".join(text.split()))[:_SHOWN]


def _what_it_is(answer: Answer) -> str:
    start = answer.data[:200].lstrip().lower()
    if not start:
        return "an empty body"
    if start.startswith((b"<!doctype", b"<html", b"<?xml")) or b"<html" in start:
        return "an HTML page"
    return "a body that is not JSON"


def clean(text: str) -> str:
    """Return a text without halves of surrogate pairs, which JSON may hold and no file can."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _reply(found: Any, number: int) -> Reply:
    choice = min(found["choices"], key=lambda one: one.get("index") or 0)
    message, finish = choice["message"], choice.get("finish_reason")
    content = message.get("content") if _OTHER_PARTS & message.keys() else message["content"]
    if finish == "content_filter":
        raise Declined(Reason.REFUSED, "the server's content filter")
    if not content and message.get("refusal"):
        raise Declined(Reason.REFUSED, f"the judge refused: {_one_line(message['refusal'])}")
    text = clean(_text(content))
    usage = found.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        number,
        text,
        finish=finish if isinstance(finish, str) else None,
        tokens=tokens(text, choice.get("logprobs")),
        prompt_tokens=_whole(usage.get("prompt_tokens")),
        completion_tokens=_whole(usage.get("completion_tokens")),
    )


def _text(content: object) -> str:
    """Return the text of a content; servers that keep reasoning apart give None when nothing followed it."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else part.get("text") or "" for part in content)
    if not isinstance(content, str):
        raise TypeError(type(content).__name__)
    return content


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def tokens(text: str, logprobs: Any) -> tuple[Token, ...]:
    """Return a text's last tokens with the log-probabilities that a server gave.

    Only tokens whose texts, put together, are the end of the text: what ends a text is left out, and a token that holds
    a part of a character ends the search.

    Args:
        text: The reply's text.
        logprobs: The `logprobs` of its choice.
    """
    try:
        entries: Sequence[Any] = logprobs["content"] or ()
        kept: list[Token] = []
        end, dropped = len(text), 0
        for entry in entries[: -LAST_TOKENS - _ENDS - 1 : -1]:
            token = clean(entry["token"])
            if text.endswith(token, 0, end):
                kept.append(Token(token, _likeliest(entry)))
                end -= len(token)
            elif kept or dropped == _ENDS:
                break
            else:
                dropped += 1
    except (KeyError, TypeError, AttributeError, ValueError):
        return ()
    return tuple(reversed(kept[:LAST_TOKENS]))


def _likeliest(entry: Any) -> dict[str, float]:
    top: dict[str, float] = {}
    for one in entry.get("top_logprobs") or (entry,):
        text, value = clean(one["token"]), float(one["logprob"])
        if math.isnan(value):
            continue
        if text in top:
            high, low = max(top[text], value), min(top[text], value)
            value = high if low == -math.inf else high + math.log1p(math.exp(low - high))
        top[text] = value
    return top

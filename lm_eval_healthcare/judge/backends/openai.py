"""A judge behind an OpenAI-compatible server, such as `vllm serve`, llama.cpp's, or one far away."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from lm_eval_healthcare.judge.backends import chat_reply
from lm_eval_healthcare.judge.backends.base import TOP, Ask, Backend, Reply
from lm_eval_healthcare.judge.backends.chat_flow import BODY, Effort, Flow
from lm_eval_healthcare.judge.backends.chat_request import Dialect, Understanding, turns
from lm_eval_healthcare.judge.backends.http_loop import Answer, HttpLoop, Unanswered
from lm_eval_healthcare.judge.backends.server_address import DEFAULT_KEY, ServerAddress
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.settings import Sampling

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.local_model import ChatTokens

logger = logging.getLogger(__name__)

_FIRST_ANSWER = 10.0
"""Seconds in which a server must say what models it has."""
_NOT_JSON = (ValueError, KeyError, TypeError, RecursionError)


class OpenAIBackend(Backend):
    """A server that speaks OpenAI's chat completions.

    Several requests are made at once from a thread of their own; each is repeated if the server is busy, breaks off or
    sends what is no reply. Nothing but the answers' texts is logged or kept of what is sent, and the key is neither.
    """

    name: ClassVar[str] = "openai"
    counters = 16

    def __init__(
        self,
        *,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        api_key_env: str = DEFAULT_KEY,
        concurrency: int = 32,
        timeout: float = 120.0,
        retries: int = 6,
        first_wait: float = 0.5,
        tokenizer: str | None = None,
        context: int | None = None,
        logprobs: bool = True,
    ) -> None:
        """Take the options; nothing is sent yet.

        Args:
            base_url: The server, normally with `/v1` at its end.
            model: The name by which it knows the judge; None if it has only one model.
            api_key: The key; None to read it from the environment.
            api_key_env: Name of the environment variable that holds the key; the default one may be unset.
            concurrency: Requests at once.
            timeout: Seconds for one request.
            retries: Repeats of one request before it counts as not answered.
            first_wait: Seconds before the first repeat, doubled before each further one.
            tokenizer: Folder of the judge's tokenizer, to count tokens without the server.
            context: Most tokens of a prompt and its text together, where the server does not say.
            logprobs: Whether to ask for log-probabilities; servers that have none are asked without.

        Raises:
            JudgeError: If an option makes no sense, or the key's variable is missing.
        """
        if context is not None and context < 1:
            raise JudgeError(f"the judge's context is {context}; expected a number of tokens from 1")
        self._effort = Effort(concurrency, timeout, retries, first_wait)
        self._address = ServerAddress(base_url, api_key, api_key_env)
        self.model = model or ""
        self._root = ""
        self.remote = not self._address.near
        self.context = context
        self._tokenizer = tokenizer
        self._tokens: ChatTokens | None = None
        self._understanding = Understanding(Dialect(top=TOP if logprobs else 0))
        self._counts = True
        self._version: str | None = None
        self._http: HttpLoop | None = None

    @property
    def identity(self) -> str:
        """The name that the server knows the judge by, and what it stands for, where the server says so (as vLLM)."""
        return f"{self.model} ({self._root})" if self._root not in ("", self.model) else self.model

    @property
    def facts(self) -> dict[str, object]:
        """The address without secrets, and what the server turned out to know."""
        known = {"backend": self.name, "base_url": self._address.shown, "logprobs": self._understanding.dialect.top}
        if self._version:
            known["vllm"] = self._version
        if not self._understanding.dialect.seed:
            known["seed"] = "not known to the server"
        return known

    def start(self) -> None:
        """See whether the server answers and has the model; ask for its context and, of vLLM, its version."""
        if self._http is not None:
            return
        if self._tokenizer is not None:
            from lm_eval_healthcare.judge.backends.local_model import ChatTokens

            self._tokens = ChatTokens.load(self._tokenizer)
        if self.remote and self._address.authorised and self._address.shown.startswith("http:"):
            logger.warning("the key for %s is sent without encryption", self._address.shown)
        self._http = HttpLoop(self._address)
        try:
            self._find_model(self._models())
            self._version = self._vllm_version()
            self._see_about_system()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all requests and close the connections."""
        if self._http is not None:
            self._http.close()
            self._http = None

    # What the server says of itself

    def _get(self, url: str, method: str = "GET", data: bytes | None = None) -> Answer:
        assert self._http is not None
        return self._http.call(self._http.send(method, url, data, min(self._effort.timeout, _FIRST_ANSWER), BODY))

    def _models(self) -> list[dict[str, Any]] | None:
        """Return what the server lists; None if it has no list."""
        address = self._address
        for repeat in (False, True):
            try:
                answer = self._get(address.url("models"))
            except Unanswered as error:
                if error.connected and not repeat:
                    continue
                raise JudgeError(
                    f"no judge at {address.shown}: {error}; start the server (such as `vllm serve`), or correct the "
                    "base URL"
                ) from None
            if answer.status not in (404, 405) or not self.model:
                break
            return None
        if not 200 <= answer.status < 300:
            raise self._unusable(answer)
        try:
            listed = json.loads(answer.data)["data"]
            return [entry for entry in listed if isinstance(entry["id"], str)]
        except _NOT_JSON:
            raise JudgeError(
                f"the server at {address.shown} answers, but not as an OpenAI-compatible one (no list of models at "
                f"{address.shown}/models); {self._hint()}"
            ) from None

    def _unusable(self, answer: Answer) -> JudgeError:
        address, worded = self._address, chat_reply.complaint(answer)
        said = address.hide(str(chat_reply.failure(answer.status, worded, answer)))
        if answer.status in (401, 403):
            do = "it refuses the key" if address.authorised else "it wants a key"
            return JudgeError(
                f"the judge's server at {address.shown}: {do} ({said}); set the environment variable "
                f"{address.key_name}, or name another one"
            )
        do = "try again later" if answer.status == 429 or answer.status >= 500 else self._hint()
        return JudgeError(f"the judge's server at {address.shown} cannot be used ({said}); {do}")

    def _hint(self) -> str:
        shown = self._address.shown
        return "correct the base URL" if self._address.has_version else f"did you mean {shown.rstrip('/')}/v1?"

    def _find_model(self, listed: list[dict[str, Any]] | None) -> None:
        shown = self._address.shown
        if listed is None:
            self._probe()
            return
        names = [entry["id"] for entry in listed]
        some = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        if not self.model and len(names) == 1:
            self.model = names[0]
        if not names:
            raise JudgeError(f"the judge's server at {shown} has no model; load one")
        if not self.model:
            raise JudgeError(
                f"the judge's server at {shown} has {len(names)} models ({some}); name the one that is to judge"
            )
        if self.model not in names:
            raise JudgeError(f"the judge's server at {shown} has no model '{self.model}'; it has: {some}")
        own = next(entry for entry in listed if entry["id"] == self.model)
        root = own.get("root")
        self._root = root.rstrip("/").rpartition("/")[2] if isinstance(root, str) else ""
        most = own.get("max_model_len")
        if isinstance(most, int) and most > 0:
            self.context = min(most, self.context or most)

    def _probe(self) -> None:
        """Ask a server that has no list of models for one token."""
        fields = {"model": self.model, "messages": [{"role": "user", "content": "Hello"}]}
        url = self._address.url("chat/completions")
        try:
            answer = self._get(url, "POST", json.dumps(fields | {"max_tokens": 1}).encode())
        except Unanswered as error:
            raise JudgeError(f"the judge's server at {self._address.shown} does not answer: {error}") from None
        if not (200 <= answer.status < 300 or answer.status in (400, 422, 429)):
            raise self._unusable(answer)

    def _vllm_version(self) -> str | None:
        with contextlib.suppress(Unanswered, *_NOT_JSON):
            answer = self._get(self._address.root_url("version"))
            version = json.loads(answer.data)["version"] if answer.status == 200 else None
            return version[:40] if isinstance(version, str) else None
        return None

    # Counting

    def count(self, prompt: Prompt) -> int | None:
        """Return the tokens of a prompt by the local tokenizer, else by vLLM's `/tokenize`, else None."""
        if self._tokens is not None:
            return len(self._tokens.ids(prompt))
        self.start()
        return self._counted(prompt.messages, self._understanding.dialect.system)[0]

    def _counted(self, messages: Sequence[Message], system: bool) -> tuple[int | None, int]:
        """Return the server's count and the HTTP status, 0 if there was none."""
        if not self._counts:
            return None, 0
        fields = {"model": self.model, "messages": turns(messages, system)}
        try:
            answer = self._get(self._address.root_url("tokenize"), "POST", json.dumps(fields).encode())
        except Unanswered:
            return None, 0
        if answer.status == 200:
            with contextlib.suppress(*_NOT_JSON):
                return int(json.loads(answer.data)["count"]), 200
        # Servers that have no such endpoint are not asked again; one that is busy, or refuses this prompt, is.
        self._counts = answer.status in (400, 422, 429) or answer.status >= 500
        return None, answer.status

    def _see_about_system(self) -> None:
        """See, where tokens can be counted, whether the chat template refuses system messages or leaves them out."""
        question = Message("user", "Who is there?")
        alone, _ = self._counted([question], True)
        both, status = self._counted([Message("system", "You are a doorkeeper and ask for names."), question], True)
        if alone is not None and (both == alone or status == 400):
            self._understanding.dialect = replace(self._understanding.dialect, system=False)

    # Asking

    def replies(self, asks: Iterable[Ask], sampling: Sampling) -> Iterator[Reply]:
        """Yield replies as they come; at most twice as many requests are under way or waiting as are made at once."""
        self.start()
        assert self._http is not None
        flow = Flow(self._http, self._address, self.model, self._understanding, self._effort, sampling)
        at_once = self._effort.concurrency
        waiting, under_way, most, least = iter(asks), 0, 2 * at_once, max(1, at_once // 4)
        try:
            while True:
                # Several at a time, as each hand-over wakes the other thread.
                if most - under_way >= least:
                    batch = list(itertools.islice(waiting, most - under_way))
                    under_way += len(batch)
                    flow.give(batch)
                if not under_way:
                    return
                reply = flow.take()
                under_way -= 1
                yield reply
        finally:
            flow.stop()

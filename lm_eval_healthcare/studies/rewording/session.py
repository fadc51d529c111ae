"""Asking one model for rewordings: what is known is not asked again, what is turned down is drawn again.

Every text goes to the store as it comes, and what is accepted is found out from the store alone: so a command that was
killed goes on where it stopped, better checks look at old texts anew, and memory holds no texts.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from lm_eval_healthcare.judge.backends.base import Ask, Reply
from lm_eval_healthcare.judge.cases import key_of
from lm_eval_healthcare.judge.fit import room, tokens_of
from lm_eval_healthcare.judge.prompt import Message, Prompt
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.store import Kind, Stored, VerdictStore
from lm_eval_healthcare.metrics import is_blank
from lm_eval_healthcare.studies.rewording.outcome import BLANK, NO_REPLY, TOO_LONG, Passage, Settled, Version, settle

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.studies.rewording.prompt import Instruction
    from lm_eval_healthcare.studies.rewording.settings import RewordingSettings

logger = logging.getLogger(__name__)

REWORDINGS = Kind("rewording", "--rewording-cache", "rewordings.sqlite3")
"""What the store holds."""
Advance = Callable[[int, int], None]
"""Called with the number of texts that came or failed, and the number that is wanted beyond what was told before."""
_AT_ONCE = 200
_BYTES_A_TOKEN = 3  # where nobody can count: rather too many tokens than too few


@dataclass
class _Open:
    """An answer of which rewordings are asked for."""

    passage: Passage
    key: bytes
    most: int
    to_ask: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Prepared:
    """Answers that were looked at before the model is asked.

    Attributes:
        open: What has to be asked, by key.
        distinct: The keys of all answers that can be asked about.
        known: Texts that the store had.
        blank: Answers without words.
        too_long: Answers that do not fit.
    """

    open: dict[bytes, _Open] = field(default_factory=dict)
    distinct: set[bytes] = field(default_factory=set)
    known: int = 0
    blank: int = 0
    too_long: int = 0


class RewordingSession:
    """Asks one model.

    Attributes:
        asked: Requests that were sent and answered with a text.
        silent: Requests without one.
        tokens: Tokens of prompts and of texts, as far as they are known.
        details: What was told of requests that failed, by reason, the first one of each.
    """

    def __init__(
        self, backend: Backend, instruction: Instruction, settings: RewordingSettings, store: VerdictStore
    ) -> None:
        """Prepare; the back end has been started.

        Args:
            backend: Where the model runs.
            instruction: How it is asked.
            settings: How it answers.
            store: Where its texts are kept.

        Raises:
            JudgeError: If `max_tokens` leaves no room for a prompt.
        """
        self._backend, self._instruction, self._settings, self._store = backend, instruction, settings, store
        self._identity = backend.identity
        if settings.max_tokens is not None:
            room(backend, settings.max_tokens)
        self._fits: dict[bytes, bool] = {}
        self._silent: dict[bytes, set[int]] = defaultdict(set)
        self._seen: dict[bytes, bytes] = {}
        self.asked = self.silent = 0
        self.tokens: Counter[str] = Counter()
        self.details: dict[Reason, str] = {}

    @property
    def by(self) -> str:
        """Who rewords."""
        return self._identity

    @property
    def signature(self) -> str:
        """What all rewordings depend on."""
        return self._settings.signature(self._identity, self._instruction.label)

    def prepare(self, passages: Sequence[Passage], looked: Callable[[int], None] = lambda n: None) -> Prepared:
        """See which answers fit into the model's context, and look up what is known.

        Args:
            passages: The answers.
            looked: Called with numbers of answers whose known texts were checked, which takes milliseconds a text.
        """
        prepared = Prepared()
        blank = [is_blank(passage.answer) for passage in passages]
        prepared.blank = sum(blank)
        asked = [passage for passage, nothing in zip(passages, blank, strict=True) if not nothing]
        for passage, key in zip(asked, self._keys(asked), strict=True):
            if not self._fits[key]:
                prepared.too_long += 1
            elif key not in prepared.distinct:
                prepared.distinct.add(key)
                prepared.open[key] = _Open(passage, key, self._settings.tokens_for(passage.answer or ""))
        prepared.known = self._look_up(prepared, looked)
        return prepared

    def ask(self, prepared: Prepared, advance: Advance = lambda done, more: None) -> None:
        """Ask until every version is accepted or given up.

        Args:
            prepared: What `prepare` returned.
            advance: Told of progress.

        Raises:
            JudgeError: If the model has gone; what it has said is in the store.
        """
        first = True
        while prepared.open:
            if not first:
                advance(0, sum(len(one.to_ask) for one in prepared.open.values()))
            first = False
            for most in sorted({one.most for one in prepared.open.values()}):
                self._round([one for one in prepared.open.values() if one.most == most], most, advance)
            asked = {(one.key, *place) for one in prepared.open.values() for place in one.to_ask}
            self._look_up(prepared)
            for one in prepared.open.values():  # what neither the model nor the store gave back is not asked for ever
                self._silent[one.key].update(version for version, n in one.to_ask if (one.key, version, n) in asked)
            if any(self._silent[key] for key in prepared.open):
                self._look_up(prepared)

    def versions(self, passages: Sequence[Passage]) -> Iterator[tuple[bytes | None, list[Version]]]:
        """Yield for each answer, in order, its key (None if it is not asked about) and its rewordings.

        Args:
            passages: The answers.
        """
        for start in range(0, len(passages), _AT_ONCE):
            part = passages[start : start + _AT_ONCE]
            asked = [passage for passage in part if not is_blank(passage.answer)]
            keys = iter(self._keys(asked))
            keyed = [(None if is_blank(passage.answer) else next(keys), passage) for passage in part]
            found = self._settled([(key, passage) for key, passage in keyed if key is not None and self._fits[key]])
            for key, _ in keyed:
                if key is None or key not in found:
                    yield None, self._without(BLANK if key is None else TOO_LONG)
                else:
                    yield key, self._made(key, found[key])

    def _without(self, reason: str) -> list[Version]:
        return [Version(number, self.by, None, reason=reason) for number in range(1, self._settings.n + 1)]

    def _made(self, key: bytes, settled: Settled) -> list[Version]:
        made = []
        for number in range(1, self._settings.n + 1):
            rejected = tuple(settled.rejected[number])
            text, attempt = settled.accepted.get(number, (None, 0))
            seed = None if text is None else self._settings.seed_of(key, number - 1, attempt)
            reason = rejected[-1][0] if rejected and len(rejected) >= self._settings.tries else NO_REPLY
            attempts = len(rejected) + (text is not None)
            made.append(Version(number, self.by, text, attempts, rejected, None if text is not None else reason, seed))
        return made

    def _keys(self, passages: Sequence[Passage]) -> list[bytes]:
        """Return the keys of answers in the store, and note which of them fit; a server counts several at a time."""
        threads = self._backend.counters
        if threads == 1:
            return [self._key(passage) for passage in passages]
        with ThreadPoolExecutor(threads, "rephrase-count") as pool:
            return list(pool.map(self._key, passages))

    def _key(self, passage: Passage) -> bytes:
        answer = passage.answer or ""
        prompt = self._instruction.prompt(answer)
        digest = sha256(key_of(prompt))
        for text in (passage.question, passage.language or ""):
            content = text.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "big") + content)
        key = digest.digest()
        if key not in self._fits:
            self._fits[key] = self._fit(answer, prompt)
        return key

    def _fit(self, answer: str, prompt: Prompt) -> bool:
        """Say whether a rewording of about the same length can be written, and the prompt fits beside it.

        An answer is never cut: a rewording of its beginning is no rewording of it.
        """
        if self._tokens(answer) > self._settings.longest:
            return False
        if self._backend.context is None:
            return True
        left = self._backend.context - self._settings.tokens_for(answer)
        return left > 0 and tokens_of(prompt, self._backend, left) <= left

    def _tokens(self, answer: str) -> int:
        """Return the tokens of an answer, those of the chat template aside, or more where that does not matter."""
        size = len(answer.encode("utf-8", "surrogatepass"))
        if size <= self._settings.longest:  # a token stands for a byte at least
            return size
        whole, frame = (self._backend.count(Prompt((Message("user", text),))) for text in (answer, "x"))
        return size // _BYTES_A_TOKEN if whole is None or frame is None else whole - frame + 1

    def _look_up(self, prepared: Prepared, looked: Callable[[int], None] = lambda n: None) -> int:
        """Settle what the store knows, and leave open what it does not; return how many texts it has."""
        known = 0
        asked = list(prepared.open.values())
        for start in range(0, len(asked), _AT_ONCE):
            part = asked[start : start + _AT_ONCE]
            found = self._settled([(one.key, one.passage) for one in part])
            for one in part:
                one.to_ask = found[one.key].to_ask
                known += found[one.key].drawn
            looked(len(part))
        prepared.open = {one.key: one for one in asked if one.to_ask}
        return known

    def _settled(self, asked: Iterable[tuple[bytes, Passage]]) -> dict[bytes, Settled]:
        """Read what the store has about some answers, and go through it."""
        passages, by_signature = dict(asked), defaultdict(list)
        for key, passage in passages.items():
            by_signature[self._reply_signature(self._settings.tokens_for(passage.answer or ""))].append(key)
        texts: dict[bytes, dict[tuple[int, int], Stored]] = defaultdict(dict)
        for signature, keys in by_signature.items():
            for stored in self._store.texts(signature, keys):
                if stored.text is not None:
                    texts[stored.key][stored.sample + 1, stored.attempt] = stored
        n, tries = self._settings.n, self._settings.tries
        found = {}
        for key, passage in passages.items():
            silent, seen = self._silent.get(key, ()), self._seen.get(key, b"")
            found[key] = settle(passage, texts[key], n, tries, silent, seen)
            self._seen[key] = bytes(found[key].seen)
        return found

    def _reply_signature(self, most: int) -> str:
        return self._settings.reply_signature(self._identity, most)

    def _round(self, asked: Sequence[_Open], most: int, advance: Advance) -> None:
        """Ask once for everything that is open; what comes goes to the store."""
        waiting: dict[int, tuple[_Open, int, int]] = {}

        def asks() -> Iterator[Ask]:
            number = 0
            for one in asked:
                prompt = self._instruction.prompt(one.passage.answer or "")
                for version, attempt in one.to_ask:
                    waiting[number] = one, version, attempt
                    yield Ask(number, prompt, self._settings.seed_of(one.key, version - 1, attempt))
                    number += 1

        signature = self._reply_signature(most)
        with closing(self._backend.replies(asks(), self._settings.sampling(most))) as replies:  # type: ignore[type-var]
            for reply in replies:
                one, version, attempt = waiting.pop(reply.number, (None, 0, 0))
                if one is None:
                    logger.debug("a reply that nobody waits for, or the second to one request: %d", reply.number)
                    continue
                self._take(signature, one, version, attempt, reply)
                advance(1, 0)
        for one, version, _ in waiting.values():
            self.details.setdefault(Reason.NO_REPLY, "the back end gave no reply")
            self._silent[one.key].add(version)
            self.silent += 1
            advance(1, 0)

    def _take(self, signature: str, one: _Open, version: int, attempt: int, reply: Reply) -> None:
        if reply.text is None:  # another day it may do better, so the store does not know of it
            self.details.setdefault(reply.reason or Reason.NO_REPLY, reply.detail)
            self._silent[one.key].add(version)
            self.silent += 1
            return
        self._store.put(
            signature,
            Stored(
                one.key, version - 1, attempt, None, None, finish=reply.finish, text=reply.text,
                prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens,
            ),
        )  # fmt: skip
        self.asked += 1
        self.tokens.update(prompt=reply.prompt_tokens or 0, completion=reply.completion_tokens or 0)

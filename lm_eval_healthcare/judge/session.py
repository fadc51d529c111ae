"""Asking one judge about many answers: what is known is not asked again, what fails is tried again.

Prompts are made when they are sent and forgotten, and the judge's texts go to the store, so that memory holds a few
numbers for each answer.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lm_eval_healthcare.judge.backends.base import Ask, Reply
from lm_eval_healthcare.judge.cases import Case, Graded, key_of
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.expected import expected_score
from lm_eval_healthcare.judge.fit import Fitted, fit, room
from lm_eval_healthcare.judge.reasons import Reason
from lm_eval_healthcare.judge.settings import CUT, FAIL, Settings
from lm_eval_healthcare.judge.store import Stored, VerdictStore

if TYPE_CHECKING:
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.judge.prompt import Wording

logger = logging.getLogger(__name__)

_CHANGED = "the answers have changed while they were judged; give the same command again"
Advance = Callable[[int], None]
"""Called with the number of verdicts that are settled, whether they have a score or not."""


@dataclass
class Judged:
    """What came of one case.

    Attributes:
        scores: The score of each sample, None where there is none.
        reasons: Why, sample by sample; None where there is one.
        key: By which the store knows the judge's texts; None if it was not asked.
        asked: Whether the judge was shown it.
        cut: Whether the end of an answer was not shown.
        defused: Pieces of the answer that looked like a verdict and were written differently.
        conflicting: Whether a text that gave a score held another one before.
        expected: The expected scores, where the back end gives log-probabilities.
        attempts: Texts that were needed, for all samples.
    """

    scores: list[int | None]
    reasons: list[Reason | None]
    key: bytes | None = None
    asked: bool = False
    cut: bool = False
    defused: int = 0
    conflicting: bool = False
    expected: list[float] = field(default_factory=list)
    attempts: int = 0

    @property
    def score(self) -> float:
        """The mean over the samples that have a score; NaN if none has."""
        known = [score for score in self.scores if score is not None]
        return sum(known) / len(known) if known else math.nan

    @property
    def variance(self) -> float:
        """The variance over the samples that have a score, with n - 1; NaN if fewer than two have."""
        known = [score for score in self.scores if score is not None]
        if len(known) < 2:
            return math.nan
        mean = sum(known) / len(known)
        return sum((score - mean) ** 2 for score in known) / (len(known) - 1)

    @property
    def reason(self) -> Reason | None:
        """Why there is no score; None if a sample has one."""
        return None if any(score is not None for score in self.scores) else self.reasons[0]


@dataclass
class _Open:
    """A prompt that is asked."""

    case: Case
    key: bytes
    most: int | None
    places: list[int]
    left: dict[int, int]  # the next attempt of each sample that has no verdict yet


@dataclass
class Prepared:
    """Cases that were looked at before the judge is asked.

    Attributes:
        judged: What is known of each case already.
        fits: How each fits into the judge's context; None for those that are not asked.
        open: What has to be asked, by key.
        known: Verdicts that the store had.
        cut: Cases whose answer is cut.
        too_long: Cases that do not fit.
    """

    judged: list[Judged]
    fits: list[Fitted | None]
    open: dict[bytes, _Open] = field(default_factory=dict)
    known: int = 0
    cut: int = 0
    too_long: int = 0

    def give_up(self) -> None:
        """Say of everything that is still open that the judge did not reply."""
        for asked in self.open.values():
            for sample in asked.left:
                for place in asked.places:
                    self.judged[place].reasons[sample] = self.judged[place].reasons[sample] or Reason.NO_REPLY

    @property
    def to_ask(self) -> int:
        """Verdicts that have to be asked for."""
        return sum(len(one.left) for one in self.open.values())


class Session:
    """Asks one judge.

    Attributes:
        asked: Requests that were sent and answered with a text.
        tokens: Tokens of prompts and of texts, as far as they are known.
        details: What was told of requests that failed, by reason, the first one of each.
    """

    def __init__(
        self, backend: Backend, wording: Wording, settings: Settings, store: VerdictStore, keep_text: bool = True
    ) -> None:
        """Prepare; the back end has been started.

        Args:
            backend: Where the judge runs.
            wording: How it is asked.
            settings: How it answers.
            store: Where its texts are kept.
            keep_text: Whether they are, or only their verdicts.
        """
        self._backend, self._wording, self._settings = backend, wording, settings
        self._store, self._keep_text = store, keep_text
        self._signature = settings.reply_signature(backend.identity)
        self._room = room(backend, settings.sampling.max_tokens)
        self.asked = 0
        self.tokens: Counter[str] = Counter()
        self.details: dict[Reason, str] = {}

    def prepare(self, cases: Sequence[Case], fits: Sequence[Fitted | None] = ()) -> Prepared:
        """Fit all prompts into the judge's context and look up what is known.

        Args:
            cases: What is asked.
            fits: How these cases fit, if they were prepared before, so that tokens are counted once.

        Raises:
            JudgeError: If one does not fit and `too_long` is `fail`, or other cases were prepared before.
        """
        samples = self._settings.samples
        if fits and len(fits) != len(cases):
            raise JudgeError(_CHANGED)
        settled = [_settled(case.without_asking, samples) for case in cases]
        prepared = Prepared(settled, list(fits) or self._fits(cases))
        for place, (case, judged) in enumerate(zip(cases, prepared.judged, strict=True)):
            if case.without_asking is not None:
                continue
            fitted = prepared.fits[place]
            if fitted is None or not fitted.fits:
                judged.reasons = [Reason.TOO_LONG] * samples
                prepared.too_long += 1
                continue
            judged.key, judged.asked, judged.cut = fitted.key, True, fitted.most is not None
            judged.defused = fitted.defused
            prepared.cut += judged.cut
            asked = prepared.open.setdefault(judged.key, _Open(case, judged.key, fitted.most, [], {}))
            asked.places.append(place)
        self._look_up(prepared)
        return prepared

    def judge(self, prepared: Prepared, advance: Advance = lambda _: None) -> list[Judged]:
        """Ask for every verdict that is missing.

        Args:
            prepared: What `prepare` returned.
            advance: Told of progress.

        Returns:
            What came of each case, in order.

        Raises:
            JudgeError: If the judge has gone; what it has said is in the store.
        """
        asked = list(prepared.open.values())
        while self._round(prepared, advance):
            pass
        self._settle(asked, prepared.judged)
        return prepared.judged

    def texts(self, judged: Sequence[Judged]) -> Iterator[tuple[bytes, list[Stored]]]:
        """Yield what the judge wrote about cases, by key."""
        found: dict[bytes, list[Stored]] = defaultdict(list)
        for stored in self._store.texts(self._signature, [one.key for one in judged if one.key is not None]):
            if stored.sample < self._settings.samples and stored.attempt < self._settings.tries:
                found[stored.key].append(stored)
        yield from found.items()

    def _fits(self, cases: Sequence[Case]) -> list[Fitted | None]:
        """Fit all cases that are asked; a server counts tokens of several at a time."""
        asked = [place for place, case in enumerate(cases) if case.without_asking is None]
        found: list[Fitted | None] = [None] * len(cases)
        threads = 1 if self._room is None else self._backend.counters
        with ThreadPoolExecutor(threads, "judge-count") as pool:
            fit_one = map if threads == 1 else pool.map
            for place, fitted in zip(asked, fit_one(self._fit, (cases[place] for place in asked)), strict=True):
                found[place] = fitted
        return found

    def _fit(self, case: Case) -> Fitted:
        fitted = fit(case, self._wording, self._backend, self._room, self._settings.too_long == CUT)
        if not fitted.fits and self._settings.too_long == FAIL:
            raise JudgeError(
                f"a prompt does not fit into the {self._backend.context} tokens of {self._backend.model} with "
                f"{self._settings.sampling.max_tokens} for the verdict; cut answers (--too-long cut), leave "
                "such answers out (--too-long skip), or take a judge with a longer context"
            )
        return fitted

    def _look_up(self, prepared: Prepared) -> None:
        """Take over the verdicts that the store has, and leave open what it has not."""
        samples, tries = self._settings.samples, self._settings.tries
        for asked in prepared.open.values():
            asked.left = dict.fromkeys(range(samples), 0)
        for stored in self._store.texts(self._signature, prepared.open):
            asked = prepared.open[stored.key]
            if stored.sample in asked.left and stored.attempt == asked.left[stored.sample] < tries:
                prepared.known += self._take(asked, self._read_again(asked, stored), prepared.judged)
        prepared.open = {key: asked for key, asked in prepared.open.items() if asked.left}

    def _round(self, prepared: Prepared, advance: Advance) -> bool:
        """Ask once for everything that is open; return whether something still is."""
        waiting: dict[int, tuple[_Open, int]] = {}
        unanswered: list[tuple[_Open, int]] = []

        def asks() -> Iterator[Ask]:
            numbers = iter(range(2**62))
            for asked in list(prepared.open.values()):
                prompt = asked.case.prompt(self._wording, asked.most)
                if key_of(prompt) != asked.key:
                    raise JudgeError(_CHANGED)
                for sample, attempt in list(asked.left.items()):
                    number = next(numbers)
                    waiting[number] = asked, sample
                    yield Ask(number, prompt, self._settings.seed_of(asked.key, sample, attempt))

        with closing(self._backend.replies(asks(), self._settings.sampling)) as replies:  # type: ignore[type-var]
            for reply in replies:
                asked, sample = waiting.pop(reply.number, (None, 0))
                if asked is None:
                    logger.debug("a reply that nobody waits for, or the second to one request: %d", reply.number)
                    continue
                advance(self._take_reply(asked, sample, reply, prepared.judged))
        unanswered += waiting.values()  # a back end that forgets a request must not make a score of it
        for asked, sample in unanswered:
            if sample in asked.left:
                del asked.left[sample]
                self.details.setdefault(Reason.NO_REPLY, "the back end gave no reply")
                for place in asked.places:
                    prepared.judged[place].reasons[sample] = prepared.judged[place].reasons[sample] or Reason.NO_REPLY
                advance(1)
        prepared.open = {key: asked for key, asked in prepared.open.items() if asked.left}
        return bool(prepared.open)

    def _settle(self, asked: Sequence[_Open], judged: list[Judged]) -> None:
        """Let the first verdict count where another command has asked for the same at the same time."""
        by_key = {one.key: one.places for one in asked}
        settled: set[tuple[bytes, int]] = set()
        for stored in self._store.verdicts(self._signature, by_key):
            mine = stored.sample < self._settings.samples and stored.attempt < self._settings.tries
            if not mine or stored.score is None or (stored.key, stored.sample) in settled:
                continue
            settled.add((stored.key, stored.sample))
            for place in by_key[stored.key]:
                judged[place].scores[stored.sample], judged[place].reasons[stored.sample] = stored.score, None

    def _take_reply(self, asked: _Open, sample: int, reply: Reply, judged: list[Judged]) -> int:
        """Keep what came back; return 1 if the verdict is settled by it."""
        if reply.text is None:  # another day it may do better, so the store does not know of it
            reason = reply.reason or Reason.NO_REPLY
            self.details.setdefault(reason, reply.detail)
            for place in asked.places:
                judged[place].reasons[sample] = reason
            del asked.left[sample]
            return 1
        stored = self._read(asked, sample, reply, reply.text)
        self._store.put(self._signature, stored, self._keep_text)
        self.asked += 1
        self.tokens.update(prompt=reply.prompt_tokens or 0, completion=reply.completion_tokens or 0)
        return self._take(asked, stored, judged)

    def _read(self, asked: _Open, sample: int, reply: Reply, text: str) -> Stored:
        """Find the verdict in a text."""
        found, expected = asked.case.parse(text), None
        if isinstance(asked.case, Graded) and found.span is not None and reply.tokens:
            value = expected_score(text, reply.tokens, found.span, asked.case.rubric.scale).score
            expected = None if math.isnan(value) else value
        return Stored(
            asked.key, sample, asked.left[sample], found.score, found.reason,
            conflicting=found.conflicting, expected=expected, finish=reply.finish, text=text,
            prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens,
        )  # fmt: skip

    def _read_again(self, asked: _Open, stored: Stored) -> Stored:
        """Find the verdict in a text of the store, which an older parser may have read."""
        if stored.text is None:
            low, high = asked.case.rubric.scale if isinstance(asked.case, Graded) else (1, 2)
            sound = stored.score is None or low <= stored.score <= high
            return stored if sound else replace(stored, score=None, reason=Reason.OUT_OF_SCALE)
        found = asked.case.parse(stored.text)
        if (found.score, found.reason, found.conflicting) == (stored.score, stored.reason, stored.conflicting):
            return stored
        new = replace(
            stored, score=found.score, reason=found.reason, conflicting=found.conflicting, expected=None, again=True
        )
        self._store.put(self._signature, new, self._keep_text)
        return new

    def _take(self, asked: _Open, stored: Stored, judged: list[Judged]) -> int:
        """Take over one text; return 1 if the verdict is settled by it."""
        asked.left[stored.sample] = stored.attempt + 1
        if stored.score is not None or stored.attempt + 1 >= self._settings.tries:
            del asked.left[stored.sample]
        for place in asked.places:
            one = judged[place]
            one.attempts += 1
            one.scores[stored.sample], one.reasons[stored.sample] = stored.score, stored.reason
            if stored.score is not None:
                one.conflicting |= stored.conflicting
                one.expected += [] if stored.expected is None else [stored.expected]
        return int(stored.sample not in asked.left)


def _settled(known: int | Reason | None, samples: int) -> Judged:
    if isinstance(known, Reason):
        return Judged([None] * samples, [known] * samples)
    return Judged([known] * samples, [None] * samples)

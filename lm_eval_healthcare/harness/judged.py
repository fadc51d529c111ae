"""A judge in a run: it grades the answers of all open-ended tasks, after the evaluated model has made room for it."""

from __future__ import annotations

import logging
import weakref
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.harness.evaluated_model import make_room
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.judge.cases import Case, Graded
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.fit import room
from lm_eval_healthcare.judge.near import is_loopback
from lm_eval_healthcare.judge.options import HF, OPENAI, VLLM
from lm_eval_healthcare.judge.outcome import (
    CONFLICTING,
    COVERAGE,
    EXPECTED,
    METRIC,
    TRUNCATED,
    VARIANCE,
    WRONG_LANGUAGE,
    Judge,
    JudgedTask,
    directions,
    verdict_of,
    without_texts,
)
from lm_eval_healthcare.judge.prompt import PACK, wording
from lm_eval_healthcare.judge.rubric import rubric_for
from lm_eval_healthcare.judge.session import Session
from lm_eval_healthcare.judge.store import VerdictStore
from lm_eval_healthcare.judge.usability import together
from lm_eval_healthcare.metrics.encoding import release_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.harness.options import Options
    from lm_eval_healthcare.harness.rescue import Run
    from lm_eval_healthcare.judge.backends.base import Backend
    from lm_eval_healthcare.judge.options import JudgeOptions

logger = logging.getLogger(__name__)

TEXTS = "judge"
"""The key of a logged document under which the judge's texts stand."""
_open: weakref.WeakKeyDictionary[Run, list[tuple[JudgeOptions, Backend | JudgeError]]] = weakref.WeakKeyDictionary()


class TaskJudge:
    """The judge of one task.

    Attributes:
        label: What is told of it in logs.
        error: Why the judge could not do its work, or None.
        section: What results say of the judging, once there is something to say.
    """

    def __init__(self, facts: TaskFacts, options: Options, judge: JudgeOptions) -> None:
        """Look whether the judge may be used for this task, and whether its rubric and its wording are here.

        Raises:
            OptionError: If not.
        """
        self._task, self._options, self._judge = facts.name, options, judge
        self._private = facts.credentialed and options.keep_text == "no"
        self.error: str | None = None
        self.section: dict[str, Any] = {}
        allowed = options.send_credentialed_texts_to_a_remote_judge == "yes"
        if facts.credentialed and judge.kind == OPENAI and not allowed and not is_loopback(str(judge.base_url)):
            raise OptionError(
                f"{facts.name}: the judge's server is not on this machine, and texts of credentialed data may not be "
                "sent there. Use a judge here, or send_credentialed_texts_to_a_remote_judge=yes if your agreement for "
                "the data allows it"
            )
        try:
            self._rubric = rubric_for(facts.name, judge.rubric, facts.languages[0] if facts.languages else "en")
            wording(judge.wording, self._model or "")
        except JudgeError as error:
            raise OptionError(f"{facts.name}: {error}") from error

    @property
    def _model(self) -> str | None:
        return self._judge.models[0] if self._judge.models else None

    @property
    def names(self) -> list[str]:
        """What is logged of every document."""
        variance = [VARIANCE] if self._judge.settings.samples > 1 else []
        return [METRIC, COVERAGE, TRUNCATED, EXPECTED, *variance, CONFLICTING, WRONG_LANGUAGE]

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """The direction of each of them."""
        return directions(self.names)

    def refuse_absent(self, world_size: int) -> None:
        """Look whether the judge is there, before the evaluated model is asked anything.

        Args:
            world_size: Number of ranks. vLLM, when it ends, takes the ranks' connection to each other along.

        Raises:
            OptionError: If it is not, or cannot be used with several ranks.
        """
        if self._judge.kind == VLLM and world_size > 1:
            raise OptionError(
                f"{self._task}: a vLLM judge in the run's own process cannot be used with {world_size} ranks; use "
                "judge_backend=hf, a server (judge=http://...), or `lm-eval-healthcare judge` after the run"
            )
        try:
            backend = self._judge.open(self._model)
            backend.check()
            room(backend, self._judge.settings.sampling.max_tokens)
        except JudgeError as error:
            raise OptionError(f"{self._task}: {error}") from error

    def grade(
        self,
        run: Run | None,
        name: str,
        questions: Sequence[str],
        answers: Sequence[str | None],
        references: Sequence[Any],
    ) -> list[dict[str, Any]]:
        """Grade answers; what goes wrong costs the judge's scores and nothing else.

        Args:
            run: The run, for which the judge is loaded once.
            name: The filter after which the answers are graded.
            questions: What the model was asked.
            answers: What it answered, without reasoning.
            references: What its answers are compared with: a text, or several.

        Returns:
            What is logged of each document, the judge's texts included.
        """
        cases: list[Case] = [
            Graded(question, answer, [several] if isinstance(several, str) else list(several), self._rubric)
            for question, answer, several in zip(questions, answers, references, strict=True)
        ]
        backend: Backend | None = None
        with VerdictStore.open(self._options.verdict_cache) as store:
            try:
                backend = _backend_of(run, self._judge, self._model)
                return self._grade(backend, store, cases, answers, name)
            except Exception as error:
                self.error = self._told(error)
                logger.error(
                    "%s: the judge failed (%s); its scores are NaN, the answers are safe. To judge them later: "
                    "lm-eval-healthcare judge FOLDER_OF_SAMPLES --judge-model ...", self._task, self.error,
                )  # fmt: skip
                return [self._without() for _ in cases]
            finally:
                if run is None and backend is not None:
                    backend.close()

    def _told(self, error: Exception) -> str:
        """Return an error's text; of credentialed data its kind alone, since a server may quote what it was sent."""
        kind = type(error).__name__
        return kind if self._private else str(error) if isinstance(error, JudgeError) else f"{kind}: {error}"

    def _grade(
        self, backend: Backend, store: VerdictStore, cases: Sequence[Case], answers: Sequence[str | None], name: str
    ) -> list[dict[str, Any]]:
        settings = self._judge.settings
        words = wording(self._judge.wording, self._model or "")
        if words.name == PACK:  # a server may know more of the judge than its name
            words = wording(self._judge.wording, backend.identity)
        session = Session(backend, words, settings, store, keep_text=not self._private)
        prepared = session.prepare(cases)
        logger.info(
            "%s: %s grades %d answers: %d verdicts to ask for, %d known, %d answers cut, %d too long",
            self._task, backend.identity, len(cases), prepared.to_ask, prepared.known, prepared.cut, prepared.too_long,
        )  # fmt: skip
        try:
            judged = session.judge(prepared, _progress(self._task, prepared.to_ask))
        except JudgeError as error:
            self.error = self._told(error)
            logger.error("%s: %s; what the judge has said is kept, the rest has no score", self._task, self.error)
            prepared.give_up()
            judged = prepared.judged
        worded, rubric = f"{words.name}@{words.digest}", f"{self._rubric.name}@{self._rubric.digest}"
        facts = {**backend.facts, "wording": worded, "preset": settings.preset}
        signature = settings.signature(backend.identity, worded, rubric)
        judge = Judge(backend.identity, "judge1", facts, signature)
        details = without_texts(session.details) if self._private else session.details
        outcome = JudgedTask([judge], [judged], answers, self._rubric, settings.failure_limit, details, name)
        self.section = together([self.section, outcome.section()])
        if outcome.unusable:
            logger.warning("%s: %s is UNUSABLE: %s", self._task, METRIC, outcome.unusable)
        texts: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
        for key, several in session.texts(judged):
            texts[key] += [verdict_of(judge, stored, not self._private) for stored in several]
        rows: list[dict[str, Any]] = []
        for one, values in zip(judged, outcome.values(), strict=True):
            known = {**self._without(), **{name: values[name] for name in self.names if name in values}}
            rows.append({**known, TEXTS: [] if one.key is None else texts.get(one.key, [])})
        return rows

    def _without(self) -> dict[str, Any]:
        return {**dict.fromkeys(self.names, float("nan")), COVERAGE: 0.0, TEXTS: []}


def close(run: Run | None) -> None:
    """Free the judges of a run; the next one loads its own."""
    for _, found in _open.pop(run, []) if run is not None else []:
        if not isinstance(found, JudgeError):
            found.close()


def _backend_of(run: Run | None, options: JudgeOptions, model: str | None) -> Backend:
    """Return the judge of a run, started once for all tasks; in this process the evaluated model goes first.

    Raises:
        JudgeError: If it cannot be started, now or for an earlier task.
    """
    known = _open.setdefault(run, []) if run is not None else []
    for asked, found in known:
        if asked == options:
            if isinstance(found, JudgeError):
                raise found
            return found
    if options.kind in (VLLM, HF):
        release_all()  # models of metrics, which are loaded again when the next task needs them
        if make_room():
            logger.info("the evaluated model has answered everything and is freed for the judge")
    backend = options.open(model)
    try:
        backend.start()
    except BaseException as error:
        backend.close()
        if isinstance(error, JudgeError):
            known.append((options, error))
        raise
    known.append((options, backend))
    return backend


def _progress(task: str, total: int) -> Callable[[int], None]:
    """Return what shows on stderr how many verdicts are there."""
    from tqdm import tqdm

    bar = tqdm(total=total, desc=f"judging {task}", unit=" verdicts", delay=2, mininterval=0.5, disable=not total)

    def advance(n: int) -> None:
        bar.update(n)
        if bar.n >= total:
            bar.close()

    return advance

"""Open-ended questions: the model writes an answer, and metrics compare it with a reference."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.data.catalogue import SECTION
from lm_eval_healthcare.data.schema import without_lone_surrogates
from lm_eval_healthcare.harness.aggregation import SCORED_MEAN
from lm_eval_healthcare.harness.judged import TaskJudge
from lm_eval_healthcare.harness.ranks import gather
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.harness.task import HealthcareTask
from lm_eval_healthcare.harness.text_metrics import TextMetrics
from lm_eval_healthcare.judge.outcome import METRIC
from lm_eval_healthcare.judge.usability import together
from lm_eval_healthcare.results.questions import question_reader
from lm_eval_healthcare.results.reasoning import CUT_REASONING, opens_reasoning, stopped, without_reasoning
from lm_eval_healthcare.scoring.document_values import EMPTY, VERY_SHORT, document_values

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

CUT = CUT_REASONING
_BLANK_LINE = ["\n\n"]


class CutAnswer(str):
    """The empty answer of a model that was still reasoning when its reply ended."""

    __slots__ = ()


class GeneratedTextTask(HealthcareTask):
    """A task whose answers are texts that the model writes: what the model is told to stop at, and what is scored.

    A chat model is not stopped at a blank line: its replies often begin with one, or with a heading that ends in one.
    Base models keep the task's stop strings, without which they would go on to invent the next question. Reasoning is
    taken out of an answer before its stop strings are looked for; where a model is known to reason, they are not given
    to the model, since it would stop inside its reasoning.
    """

    DECIDED_HERE = frozenset({"process_results", "metric_list"})

    _reasons = False
    _saved_stops: list[str] | None = None

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a value as the harness does; a temperature alone means to sample."""
        super().set_config(key, value, update)
        if key == "generation_kwargs" and value and "do_sample" not in value and _is_positive(value.get("temperature")):
            logger.info("%s: temperature=%s is given, so answers are sampled", self.task_name, value["temperature"])
            self.config.generation_kwargs["do_sample"] = True

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request; under a chat template only the turn's end ends the answer, unless somebody said so."""
        self.chat = bool(kwargs.get("apply_chat_template", False))
        request = super().construct_requests(doc, ctx, **kwargs)
        prompt, _, *rest = request.arguments
        reasoning = self.options.reasoning
        self._reasons = reasoning == "on" or (reasoning == "auto" and self._begins_reasoning(prompt))
        request.arguments = (prompt, self.generation_kwargs_used, *rest)
        return request

    @property
    def generation_kwargs_used(self) -> dict[str, Any]:
        """What the model is really given."""
        return {**(self.config.generation_kwargs or {}), "until": [] if self._reasons else self.stops}

    @property
    def stops(self) -> list[str]:
        """The strings that end an answer, whether the model stops at them or they are looked for afterwards."""
        if self._saved_stops is not None:
            return self._saved_stops
        until = (self.config.generation_kwargs or {}).get("until") or []
        until = [until] if isinstance(until, str) else list(until)
        return [] if self.chat and until == _BLANK_LINE and "until" not in self._user_generation_kwargs else until

    def take_saved_stops(self, stops: list[str], chat: bool) -> None:
        """Take over how the model was asked in the run whose answers are scored again."""
        self._saved_stops, self.chat = stops, chat

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """Return the reference; a text where there is one, a list where several are equally good."""
        target = super().doc_to_target(doc, doc_to_target)
        return target[0] if isinstance(target, list) and len(target) == 1 and isinstance(target[0], str) else target

    def _clean_answers(self) -> None:
        for instance in self._instances or []:
            instance.resps = [without_lone_surrogates(response) for response in instance.resps]

    def _clean_filtered(self) -> None:
        for instance in self._instances or []:
            for name, text in instance.filtered_resps.items():
                if isinstance(text, str):
                    instance.filtered_resps[name] = self.scored_text(text, instance.args[0])

    def scored_text(self, reply: str, prompt: Any) -> str:
        """Return what is scored of a reply: without reasoning and leading blanks, up to a stop string."""
        if self.options.reasoning != "off":
            answer = without_reasoning(reply, self._begins_reasoning(prompt))
            if answer.cut:
                return CutAnswer()
            reply = answer.text
        return stopped(reply.lstrip(), self.stops)

    def _begins_reasoning(self, prompt: Any) -> bool:
        """Say whether the chat template, not a question that happens to end so, begins the model's reasoning.

        A chat server lays its prompts out itself and gets the turns, in the harness's own form, which is no text.
        """
        return self.chat and isinstance(prompt, str) and opens_reasoning(prompt)

    def _warn_of_empty(self, empty: int, cut: int, total: int) -> None:
        if empty * 2 > total and empty > cut:
            hint = "" if self.chat else "; a chat model needs --apply_chat_template"
            logger.warning("%s: %d of %d answers are empty%s", self.task_name, empty, total, hint)
        if cut:
            hint = "give the model more room (--gen_kwargs max_gen_toks=4096)"
            hint += "" if self._reasons or not self.stops else ", and keep stop strings from it (reasoning=on)"
            logger.warning("%s: %d of %d replies end inside their reasoning; %s", self.task_name, cut, total, hint)


class OpenEndedTask(GeneratedTextTask):
    """Scores free text with the metrics that the option `metrics` names."""

    _judge: TaskJudge | None = None

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        self._metrics = TextMetrics(self.facts, self.options)
        judge = self.options.for_judge
        self._judge = None if judge is None else TaskJudge(self.facts, self.options, judge)
        return self._metrics.names

    @property
    def data_warnings(self) -> list[str]:
        """What a user should know about the rows and the metrics."""
        return super().data_warnings + self._metrics.warnings

    @property
    def lacking_metrics(self) -> dict[str, str]:
        """What the metrics lack that are left out since they cannot be computed here."""
        return self._metrics.lacking

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests; by then every metric must have what it needs."""
        for message in self._metrics.warnings:
            logger.warning(message)
        self._metrics.prepare()
        self.refuse_absent_judge(int(kwargs.get("world_size", 1)))
        super().build_all_requests(**kwargs)

    def refuse_absent_judge(self, world_size: int = 1) -> None:
        """Look whether the judge is there, if one is asked for.

        Args:
            world_size: Number of ranks, each of which would have the judge.

        Raises:
            OptionError: If it is not.
        """
        if self._judge is not None:
            self._judge.refuse_absent(world_size)

    def _forget_scores(self) -> None:
        super()._forget_scores()
        if self._judge is not None:
            self._judge.section, self._judge.error = {}, None

    def _metric_list(self) -> list[dict[str, Any]]:
        out = []
        for name in self.metric_names:
            better = metrics.AVAILABLE[name].higher_is_better
            out.append({"metric": name, "aggregation": SCORED_MEAN, "higher_is_better": better})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
            if metrics.AVAILABLE[name].limited:
                out.append({"metric": f"{name}_truncated", "aggregation": "mean", "higher_is_better": False})
        out += [{"metric": name, "aggregation": "mean", "higher_is_better": False} for name in (EMPTY, VERY_SHORT, CUT)]
        for name, up in self._judge.higher_is_better.items() if self._judge is not None else ():
            out.append({"metric": name, "aggregation": SCORED_MEAN, "higher_is_better": up})
        return out

    def _signatures(self) -> dict[str, str]:
        return self._metrics.signatures()

    def _broken_down(self) -> list[str]:
        return self.metric_names

    def _score_filtered(self, filters: Sequence[str]) -> None:
        super()._score_filtered(filters)
        if filters and not self.replaying:
            folder = self._run.folders.get(self.task_name) if self._run is not None else None
            self.to_do = self._metrics.tell_what_is_left(folder, self.metric_errors)

    @property
    def scores_are_complete(self) -> bool:
        """Whether no metric was left for later and none failed, so that the saved answers are not needed any more."""
        return not self._metrics.incomplete(self.metric_errors)

    def _know_corpus(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        if not self._metrics.need_corpus:
            return
        own = [first_text(result) for result in results], [references_of(self.doc_to_target(doc)) for doc in docs]
        ranks = gather(own, self.world_size)
        self._metrics.set_corpus(*([item for part in parts for item in part] for parts in zip(*ranks, strict=True)))

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        texts = [first_text(result) for result in results]
        scored = self._metrics.score(texts, [references_of(self.doc_to_target(doc)) for doc in docs])
        cut = [isinstance(text, CutAnswer) for text in texts]
        if count:
            self.reasons += scored.reasons
            self.reasons.update({CUT: sum(cut)} if any(cut) else {})
            self._warn_of_empty(int(scored.empty.sum()), sum(cut), len(docs))
        self.metric_errors.update(scored.errors)
        for place, (doc, result) in enumerate(zip(docs, results, strict=True)):
            self._scores[answer_key(doc, result)] = document_values(scored, place, cut[place])
        if self._judge is not None:
            self._grade(self._judge, docs, results)

    def _grade(self, judge: TaskJudge, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        """Add the judge's scores and texts."""
        graded = judge.grade(
            self._run,
            self.filter_name,
            [self._question(doc) for doc in docs],
            [first_text(result) for result in results],
            [references_of(self.doc_to_target(doc)) for doc in docs],
        )
        for doc, result, values in zip(docs, results, graded, strict=True):
            self._scores[answer_key(doc, result)] |= values

    def _put_ranks_together(self, pairs: list[tuple[dict[str, Any], list[Any]]]) -> None:
        if self._judge is not None:
            self._judge.section = together(gather(self._judge.section, self.world_size))
        super()._put_ranks_together(pairs)

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with what there is to say of the judge."""
        config = super().dump_config()
        section = config["metadata"][SECTION]
        for key, value in (self._judge.section if self._judge is not None else {}).items():
            section[key] = {**section.get(key, {}), **value}
        if self._judge is not None and self._judge.error is not None:
            section["metric_errors"] = {**section["metric_errors"], METRIC: self._judge.error}
        return config

    def _question(self, doc: dict[str, Any]) -> str:
        """Return what a document asks, as `judge` reads it from the run's results."""
        config = {"doc_to_text": self.config.doc_to_text, "description": self.config.description}
        return question_reader(config)({"doc": doc}) or str(self.doc_to_text(doc))


def _is_positive(value: Any) -> bool:
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return False  # the model's back end says what is wrong with it


def first_text(result: Sequence[Any]) -> str | None:
    """Return the text that is scored of a document's answers, or None if there is none."""
    value = result[0] if result else None
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def references_of(target: Any) -> str | list[str]:
    """Return what answers are compared with: a text, or several that are equally good."""
    if isinstance(target, list | tuple):
        return [str(text) for text in target if text is not None]
    return "" if target is None else str(target)

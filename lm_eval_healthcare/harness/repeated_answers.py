"""Several sampled answers to each question, every one of them scored: what self-consistency is computed from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.data.catalogue import SECTION
from lm_eval_healthcare.data.schema import without_lone_surrogates
from lm_eval_healthcare.harness import repeated_requests, replay, requests
from lm_eval_healthcare.harness.judged import TEXTS
from lm_eval_healthcare.harness.open_ended import CUT, CutAnswer, OpenEndedTask, references_of
from lm_eval_healthcare.harness.options import REPEATED_NAMES, OptionError
from lm_eval_healthcare.harness.ranks import gather
from lm_eval_healthcare.harness.repeated_options import RepeatedOptions, refuse_greedy, sampled
from lm_eval_healthcare.harness.repeated_store import OFF
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.judge.outcome import METRIC
from lm_eval_healthcare.scoring.document_values import PER_ANSWER, document_values, of_several, per_answer

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.judged import TaskJudge

logger = logging.getLogger(__name__)

_GENERATES = "generate_until"
_SAVED = "saved answers"


class RepeatedAnswersTask(OpenEndedTask):
    """Asks each question K times and scores every answer; a metric's value is the mean over a question's answers.

    K is `repeats` in the YAML or `--metadata repeats=N`. Answers are sampled as in the paper, with temperature 1 and
    top_p 0.9, unless the YAML or `--gen_kwargs` says otherwise. The log has all answers in `filtered_resps`, and their
    scores in `<metric>_per_answer`, NaN where an answer has none.
    """

    DECIDED_HERE = frozenset({"process_results", "metric_list", "filter_list"})

    def __init__(self, config: dict[str, Any]) -> None:
        """Set the task up as an open-ended one whose requests are for K answers."""
        requests.install()
        name = str(config.get("task"))
        recorded = {key: value for key, value in replay.saved_options(name).items() if key in REPEATED_NAMES}
        self.repeated = RepeatedOptions.from_metadata(
            {**(config.get("metadata") or {}), **recorded}, config.get("repeats")
        )
        keep = {"name": "none", "filter": [{"function": "take_first_k", "k": self.repeated.repeats}]}
        super().__init__(
            {
                **config,
                "repeats": self.repeated.repeats,
                "generation_kwargs": sampled(config.get("generation_kwargs")),
                "filter_list": [keep],
            }
        )
        # The harness pads ranks by this type; it must be the one that is asked.
        self.OUTPUT_TYPE = repeated_requests.REQUEST_TYPE

    @property
    def options_used(self) -> dict[str, Any]:
        """Every option with the value that it has, wherever that came from."""
        return {**super().options_used, **self.repeated.as_metadata()}

    def _forget_scores(self) -> None:
        super()._forget_scores()
        self._identical = self._asked = 0
        self._distinct: list[int] = []
        self._ways: set[tuple[str, str]] = set()

    # Requests

    def refuse_greedy(self, given: dict[str, Any] | None = None) -> None:
        """Refuse sampling that gives one answer K times.

        Args:
            given: What `--gen_kwargs` will add to the task's own arguments.

        Raises:
            OptionError: If it does.
        """
        refuse_greedy(self.facts.name, {**(self.config.generation_kwargs or {}), **(given or {})})

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests; by then it must be plain that answers will differ."""
        if self._saved is None:
            self.refuse_greedy()
        elif any(len(saved.resps) < self.repeated.repeats for saved in self._saved):
            raise OptionError(
                f"{self.task_name}: repeats={self.repeated.repeats}, but fewer answers to a question are saved; leave "
                "`repeats` out when saved answers are scored, or run the model again"
            )
        super().build_all_requests(**kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request: the prompt, the generation arguments, and how many answers are wanted."""
        self.OUTPUT_TYPE = _GENERATES  # by which the harness chooses what a request holds
        try:
            request = super().construct_requests(doc, ctx, **kwargs)
        finally:
            self.OUTPUT_TYPE = repeated_requests.REQUEST_TYPE
        cache = OFF if self.facts.credentialed else self.repeated.cache
        options = repeated_requests.options_for(self.repeated.repeats, self.repeated.seed, cache)
        request.request_type = repeated_requests.REQUEST_TYPE
        request.arguments = (*request.arguments[:2], options)
        return request

    # Answers

    def _clean_answers(self) -> None:
        for instance in self._instances or []:
            # A request that pads a rank has been answered once more.
            kept = list(instance.resps)[: self.repeated.repeats]
            instance.resps = [without_lone_surrogates(response) for response in kept]
            way = getattr(instance, "answered_by", None)
            self._ways.add((_SAVED, _SAVED) if way is None else (way.name, way.seeds))

    def _clean_filtered(self) -> None:
        for instance in self._instances or []:
            prompt = instance.args[0]
            for name, texts in instance.filtered_resps.items():
                instance.filtered_resps[name] = [
                    self.scored_text(text, prompt) if isinstance(text, str) else text for text in texts
                ]
            self._distinct.append(len(set(map(str, instance.resps))))

    def _put_ranks_together(self, pairs: list[tuple[dict[str, Any], list[Any]]]) -> None:
        super()._put_ranks_together(pairs)
        ranks = gather((self._distinct, self._ways), self.world_size)
        self._distinct = [number for numbers, _ in ranks for number in numbers]
        self._ways = set().union(*(ways for _, ways in ranks))
        self._asked, self._identical = len(self._distinct), self._distinct.count(1)
        if self._identical and not self.rank:
            logger.warning(
                "%s: %d of %d questions have %d identical answers: a cache has answered, or the model does not sample "
                "(or its answers are very short); their variance says nothing about the model",
                self.task_name, self._identical, self._asked, self.repeated.repeats,
            )  # fmt: skip

    # Scores

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> Any:
        """Return the means over a question's answers; their values one by one are for the log alone."""
        return {"bypass": None} if "bypass" in self._metric_fn_list else super().process_results(doc, results)

    def _know_corpus(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        flat_docs, flat_results = _one_by_one(docs, results)
        super()._know_corpus(flat_docs, flat_results)

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        flat_docs, flat_results = _one_by_one(docs, results)
        texts = [answer for (answer,) in flat_results]
        scored = self._metrics.score(texts, [references_of(self.doc_to_target(doc)) for doc in flat_docs])
        cut = [isinstance(text, CutAnswer) for text in texts]
        if count:
            self.reasons += scored.reasons
            self.reasons.update({CUT: sum(cut)} if any(cut) else {})
            self._warn_of_empty(int(scored.empty.sum()), sum(cut), len(texts))
        self.metric_errors.update(scored.errors)
        place = 0
        for doc, result in zip(docs, results, strict=True):
            size = len(_answers(result))
            values = [document_values(scored, one, cut[one]) for one in range(place, place + size)]
            self._scores[answer_key(doc, result)] = _together(values, self.metric_names)
            place += size
        if self._judge is not None:
            self._grade(self._judge, docs, results)

    def _grade(self, judge: TaskJudge, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        flat_docs, flat_results = _one_by_one(docs, results)
        graded = judge.grade(
            self._run,
            self.filter_name,
            [self._question(doc) for doc in flat_docs],
            [answer for (answer,) in flat_results],
            [references_of(self.doc_to_target(doc)) for doc in flat_docs],
        )
        place = 0
        for doc, result in zip(docs, results, strict=True):
            part = graded[place : place + len(_answers(result))]
            texts = [values.pop(TEXTS) for values in part]
            together = {**_together(part, [METRIC]), TEXTS: [], f"{TEXTS}{PER_ANSWER}": texts}
            self._scores[answer_key(doc, result)] |= together
            place += len(part)

    # What the results file says

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with how the answers were drawn and how many are the same."""
        config = super().dump_config()
        ways = sorted(self._ways)
        config["metadata"][SECTION]["repeated"] = {
            "repeats": self.repeated.repeats,
            "seed": self.repeated.seed,
            "seeds": " / ".join(seeds for _, seeds in ways),
            "sampler": " / ".join(name for name, _ in ways),
            "sampler_version": repeated_requests.SAMPLER_VERSION,
            "questions": self._asked,
            "identical_answers": self._identical,
            "distinct_answers_mean": sum(self._distinct) / len(self._distinct) if self._distinct else None,
            "reasons_count": "answers",
        }
        return config


def _answers(result: Sequence[Any]) -> list[Any]:
    """Return a document's answers; a text where there is one alone, as in other tasks' results."""
    value = result[0] if result else None
    return [text if isinstance(text, str) else None for text in (value if isinstance(value, list | tuple) else [value])]


def _one_by_one(docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
    """Return each document once an answer, and each answer as a document's results.

    Answers to one question stay next to each other, so that its references are encoded once.
    """
    pairs = [(doc, [text]) for doc, result in zip(docs, results, strict=True) for text in _answers(result)]
    return [doc for doc, _ in pairs], [result for _, result in pairs]


def _together(values: Sequence[dict[str, Any]], listed: Sequence[str]) -> dict[str, Any]:
    """Return the means over a question's answers that have a value, and the values of some one by one."""
    return {**of_several(values), **per_answer(values, listed)}

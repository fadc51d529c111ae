"""Perplexity of the reference answers: how likely the model finds what an expert wrote, alone or after the question."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance

from lm_eval_healthcare.harness import breakdown, likelihood, requests
from lm_eval_healthcare.harness.aggregation import CORPUS_BITS, CORPUS_NATS, CORPUS_PERPLEXITY
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.ranks import gather
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.harness.task import SECTION, HealthcareTask
from lm_eval_healthcare.metrics import is_blank
from lm_eval_healthcare.scoring.documents import BLANK_REFERENCE, NAN_LOGLIKELIHOOD
from lm_eval_healthcare.scoring.perplexity import EXTREME, byte_count, corpus_perplexity, is_extreme, word_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.scoring.perplexity import Pair

logger = logging.getLogger(__name__)

CONTEXT_CUT, NO_TOKENS, EXTREME_PERPLEXITY = "context_cut", "no_tokens", "extreme_perplexity"

_AGGREGATIONS = {
    "word_perplexity": CORPUS_PERPLEXITY,
    "byte_perplexity": CORPUS_PERPLEXITY,
    "bits_per_byte": CORPUS_BITS,
    "nats_per_byte": CORPUS_NATS,
}
_UNITS = {"word_perplexity": "words split at whitespace"}
# Keys that an included open-ended task's YAML has for its generated answers.
_OF_GENERATION = frozenset({"generation_kwargs", "filter_list", "repeats", "metric_list"})


class PerplexityTask(HealthcareTask):
    """Scores the likelihood of the reference alone, with no question before it: the published definition.

    Of several references the first is taken. Words and bytes are those of the reference, all of which is scored.
    """

    DECIDED_HERE = frozenset({"process_results", "metric_list", "filter_list", "repeats"})
    CONDITION = "reference alone"
    WORDING: str | None = "none"

    def __init__(self, config: dict[str, Any]) -> None:
        """Set the task up as any of the pack's, without what its YAML says about generated answers."""
        requests.install()
        super().__init__({key: value for key, value in self._adapted(config).items() if key not in _OF_GENERATION})
        # The harness pads ranks by this type; it must be the one that is asked.
        self.OUTPUT_TYPE = likelihood.REQUEST_TYPE
        self.wording = self.WORDING or self.wording

    def _adapted(self, config: dict[str, Any]) -> dict[str, Any]:
        """No examples: nothing stands before the reference, whatever a run asks of its other tasks."""
        return {**config, "num_fewshot": 0}

    def _forget_scores(self) -> None:
        super()._forget_scores()
        self._largest_cut = 0
        self._prefix_tokens: set[str] = set()
        self._extreme: dict[str, float] = {}

    # Requests

    def reference(self, doc: dict[str, Any]) -> str:
        """Return the text whose likelihood is asked for."""
        target = self.doc_to_target(doc)
        if isinstance(target, list | tuple):
            target = next((text for text in target if text is not None), None)
        return "" if target is None else str(target)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request; a blank reference is not put to the model."""
        chat = bool(kwargs.pop("apply_chat_template", False))
        kwargs.pop("chat_template", None)
        reference = self.reference(doc)
        context = self._context(ctx)
        answer = "" if is_blank(reference) else self._delimiter(chat) + reference
        return Instance(
            request_type=likelihood.REQUEST_TYPE,
            doc=doc,
            arguments=(context, answer),
            idx=0,
            **kwargs,
        )

    def _context(self, prompt: str) -> str:
        return ""

    def _delimiter(self, chat: bool) -> str:
        return ""

    # Scores

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        return list(_AGGREGATIONS)

    def _metric_list(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for name in self.metric_names:
            out.append({"metric": name, "aggregation": _AGGREGATIONS[name], "higher_is_better": False})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
        return out

    def _add_breakdown_metrics(self) -> None:
        """Leave out scores by category: they are means of numbers, and a perplexity is a ratio of sums."""
        self._every_cell = self._cells = []

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> Any:
        """Return a pair of log-likelihood and length for each metric; what else is known is for the log alone."""
        if "bypass" in self._metric_fn_list:
            return {"bypass": None}
        metrics = [item["metric"] for item in self._metric_list()]
        return breakdown.ScoredDocument(super().process_results(doc, results), metrics=metrics)

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        for doc, result in zip(docs, results, strict=True):
            reference = self.reference(doc)
            loglikelihood, tokens, cut, prefix = result[0]
            reason = _why_unscorable(reference, loglikelihood, tokens)
            if count:
                self.reasons.update([reason] if reason else [])
                self._note(cut, prefix)
            value = math.nan if reason else float(loglikelihood)
            lengths = {name: byte_count(reference) for name in _AGGREGATIONS}
            lengths["word_perplexity"] = word_count(reference)
            scores: dict[str, Any] = {}
            for name in self.metric_names:
                scores[name] = (value, lengths[name])
                scores[f"{name}_coverage"] = float(reason is None)
            scores.update(loglikelihood=value, tokens=tokens, context_tokens_cut=cut)
            self._scores[answer_key(doc, result)] = scores

    def _note(self, cut: int, prefix: str | None) -> None:
        if cut:
            self.reasons[CONTEXT_CUT] += 1
            self._largest_cut = max(self._largest_cut, cut)
        if prefix is not None:
            self._prefix_tokens.add(prefix)

    def _put_ranks_together(self, pairs: list[tuple[dict[str, Any], list[Any]]]) -> None:
        super()._put_ranks_together(pairs)
        scores: list[dict[str, Any]] = [self._scores[answer_key(doc, results)] for doc, results in pairs]
        own = {name: [document[name] for document in scores] for name in ("word_perplexity", "byte_perplexity")}
        ranks = gather((self._largest_cut, self._prefix_tokens, own), self.world_size)
        self._largest_cut = max(cut for cut, _, _ in ranks)
        self._prefix_tokens = set().union(*(tokens for _, tokens, _ in ranks))
        self._flag_extremes({name: [pair for *_, found in ranks for pair in found[name]] for name in own})
        if self._largest_cut and not self.rank:
            logger.warning(
                "%s: %d of %d prompts are too long for the model beside the reference; they lost up to %d tokens on "
                "their left (context_tokens_cut in the sample log)",
                self.task_name, self.reasons[CONTEXT_CUT], sum(len(found["word_perplexity"]) for *_, found in ranks),
                self._largest_cut,
            )  # fmt: skip

    def _flag_extremes(self, values: dict[str, list[Pair]]) -> None:
        corpus = {name: corpus_perplexity(pairs) for name, pairs in values.items()}
        self._extreme = {name: value for name, value in corpus.items() if is_extreme(value)}
        if not self._extreme:
            return
        self.reasons[EXTREME_PERPLEXITY] = sum(is_extreme(corpus_perplexity([p])) for p in values["word_perplexity"])
        if self.rank:
            return
        shown = ", ".join(map(repr, sorted(self._prefix_tokens)))
        before = f"the token before each text (here {shown}; another one with --model_args prefix_token_id=N)"
        logger.warning(
            "%s: %s above %.0e. This often comes from %s, or from texts of a few rare words. Compare models by "
            "nats_per_byte or by ranks: one such value decides any correlation",
            self.task_name, ", ".join(self._extreme), EXTREME,
            before if self._prefix_tokens else "a prompt in another form than the model was trained on",
        )  # fmt: skip

    # What the results file says

    def _signatures(self) -> dict[str, str]:
        prefix = "+".join(sorted(self._prefix_tokens)) or "none"
        parts = f"impl:lm_eval_healthcare|text:{self.CONDITION}|prefix:{prefix}|aggregation:ratio of sums"
        return {name: f"{name}|{parts}|unit:{_UNITS.get(name, 'bytes of UTF-8')}" for name in self.metric_names}

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with the prefix token and what was cut."""
        config = super().dump_config()
        config["metadata"][SECTION]["perplexity"] = {
            "prefix_tokens": sorted(self._prefix_tokens),
            "largest_context_cut": self._largest_cut,
            "extreme": sorted(self._extreme),
        }
        return config


class ConditionalPerplexityTask(PerplexityTask):
    """Scores the likelihood of the reference after the prompt that the open-ended task sends."""

    CONDITION = "reference after the prompt"
    WORDING = None

    def _adapted(self, config: dict[str, Any]) -> dict[str, Any]:
        return config

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests; a template that opens a reasoning block cannot be followed by the reference."""
        model = getattr(kwargs.get("chat_template"), "__self__", None)
        if kwargs.get("apply_chat_template") and getattr(model, "enable_thinking", None):
            raise OptionError(
                f"{self.task_name}: enable_thinking=True is given, and the reference cannot follow a prompt that asks "
                "for reasoning first. Set enable_thinking=False in --model_args, or leave this task out"
            )
        super().build_all_requests(**kwargs)

    def _context(self, prompt: str) -> str:
        return prompt

    def _delimiter(self, chat: bool) -> str:
        """What stands between prompt and answer, as between prompt and choice in the harness's multiple choice."""
        delimiter = str(self.config.target_delimiter)
        prefix = str(self.config.gen_prefix or "")
        if chat and (not prefix or prefix[-1:].isspace()):
            return ""
        return delimiter


def _why_unscorable(reference: str, loglikelihood: float, tokens: int | None) -> str | None:
    if is_blank(reference):
        return BLANK_REFERENCE
    if tokens == 0:
        return NO_TOKENS
    return NAN_LOGLIKELIHOOD if math.isnan(float(loglikelihood)) else None

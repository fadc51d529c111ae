"""Open-ended questions: the model writes an answer, and metrics compare it with a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.data.schema import without_lone_surrogates
from lm_eval_healthcare.harness.aggregation import SCORED_MEAN
from lm_eval_healthcare.harness.task import HealthcareTask, answer_key
from lm_eval_healthcare.scoring.documents import score_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

EMPTY, VERY_SHORT = "empty_prediction", "very_short_prediction"


class OpenEndedTask(HealthcareTask):
    """Scores free text with the metrics that the option `metrics` names.

    A chat model is not stopped at a blank line: its replies often begin with one, or with a heading that ends in one.
    Base models keep the task's stop string, without which they would go on to invent the next question.
    """

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request; under a chat template only the turn's end ends the answer, unless the user said so."""
        self._chat = bool(kwargs.get("apply_chat_template", False)) and "until" not in self._user_generation_kwargs
        request = super().construct_requests(doc, ctx, **kwargs)
        if self._chat:
            prompt, generation_kwargs, *rest = request.arguments
            request.arguments = (prompt, {**generation_kwargs, "until": []}, *rest)
        return request

    def dump_config(self) -> dict[str, Any]:
        """Return the config with the stop strings that were really used."""
        config = super().dump_config()
        if getattr(self, "_chat", False):
            config["generation_kwargs"] = {**config["generation_kwargs"], "until": []}
        return config

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        return self.options.metric_names(self.facts.languages)

    def _metric_list(self) -> list[dict[str, Any]]:
        out = []
        for name in self.metric_names:
            better = metrics.AVAILABLE[name].higher_is_better
            out.append({"metric": name, "aggregation": SCORED_MEAN, "higher_is_better": better})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
        out += [{"metric": name, "aggregation": "mean", "higher_is_better": False} for name in (EMPTY, VERY_SHORT)]
        return out

    def _signatures(self) -> dict[str, str]:
        return {name: metrics.signature(name) for name in self.metric_names}

    def _clean_answers(self) -> None:
        for instance in self._instances or []:
            instance.resps = [without_lone_surrogates(response) for response in instance.resps]

    def _clean_filtered(self) -> None:
        for instance in self._instances or []:
            for name, text in instance.filtered_resps.items():
                if isinstance(text, str):
                    instance.filtered_resps[name] = text.lstrip()

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        scored = score_documents(
            [_first_text(result) for result in results],
            [_references(self.doc_to_target(doc)) for doc in docs],
            self.metric_names,
        )
        self.reasons += scored.reasons
        self.metric_errors.update(scored.errors)
        for place, (doc, result) in enumerate(zip(docs, results, strict=True)):
            scores: dict[str, float] = {}
            for name in self.metric_names:
                value = float(scored.scores[name][place])
                scores[name] = value
                scores[f"{name}_coverage"] = float(value == value)
            scores[EMPTY] = float(scored.empty[place])
            scores[VERY_SHORT] = float(scored.very_short[place])
            self._scores[answer_key(doc, result)] = scores


def _first_text(result: Sequence[Any]) -> str | None:
    value = result[0] if result else None
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def _references(target: Any) -> str | list[str]:
    if isinstance(target, list | tuple):
        return [str(text) for text in target if text is not None]
    return "" if target is None else str(target)

"""Multiple choice: the option whose continuation is most likely is the model's answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.harness import choices, requests
from lm_eval_healthcare.harness.aggregation import SCORED_MEAN
from lm_eval_healthcare.harness.lettered import count_faulty_options
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.harness.task import HealthcareTask
from lm_eval_healthcare.scoring.documents import NAN_LOGLIKELIHOOD

if TYPE_CHECKING:
    from collections.abc import Sequence


class MultipleChoiceTask(HealthcareTask):
    """Scores by log-likelihood as the harness does; adds coverage and, where the YAML asks, accuracy by category.

    A question for which the model gives no usable log-likelihood (NaN, or minus infinity for every choice) has no
    answer: it is counted, and not scored as if the first choice had been taken.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """Make sure that every model knows the request type, and set the task up as any of the pack's."""
        requests.install()
        super().__init__(config)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the harness's requests, one a choice, and let the model answer those of a question together.

        Under several ranks they stay of the harness's type: ranks with fewer documents are padded with requests of
        type `loglikelihood` only, and a model that is split over ranks waits for passes that nobody makes if there
        is no padding. Nothing is lost, since models with several ranks answer both types in the same way (vLLM has
        one rank, whatever its number of GPUs).
        """
        built = super().construct_requests(doc, ctx, **kwargs)
        if self.world_size == 1:
            for request in built if isinstance(built, list) else [built]:
                if request.request_type == "loglikelihood":
                    request.request_type = choices.REQUEST_TYPE
        return built

    def _look_at_questions(self) -> None:
        self.reasons += count_faulty_options(self)

    METRICS: tuple[str, ...] = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        names = [entry["metric"] for entry in config.get("metric_list") or [{"metric": "acc"}]]
        strange = [name for name in names if name not in self.METRICS]
        if strange:
            raise OptionError(
                f"{self.facts.name}: metric_list names {', '.join(strange)}, which this kind of task cannot score one "
                f"document at a time; choose from {', '.join(self.METRICS)}"
            )
        return names

    def _metric_list(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for name in self.metric_names:
            out.append({"metric": name, "aggregation": SCORED_MEAN, "higher_is_better": True})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
        return out

    def _signatures(self) -> dict[str, str]:
        length = {"acc": "none", "acc_norm": "characters", "acc_bytes": "bytes"}
        return {
            name: f"{name}|impl:lm_eval|answer:argmax log-likelihood|length-normalisation:{length.get(name, 'none')}"
            for name in self.metric_names
        }

    def _values(self, doc: dict[str, Any], result: Sequence[Any]) -> dict[str, Any]:
        """Return every metric's value for a document with usable likelihoods."""
        found = self._harness_scores(doc, result)
        return {name: float(found[name]) for name in self.metric_names}

    def _no_values(self, doc: dict[str, Any]) -> dict[str, Any]:
        """Return what stands for every metric's value where there is none."""
        return dict.fromkeys(self.metric_names, math.nan)

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        for doc, result in zip(docs, results, strict=True):
            likelihoods = [float(likelihood) for likelihood, _ in result]
            usable = not any(map(math.isnan, likelihoods)) and max(likelihoods) > -math.inf
            if not usable:
                self.reasons[NAN_LOGLIKELIHOOD] += count
            scores = self._values(doc, result) if usable else self._no_values(doc)
            coverage = {f"{name}_coverage": float(usable) for name in self.metric_names}
            pairs = [pair for name in self.metric_names for pair in (name, f"{name}_coverage")]
            merged = {**scores, **coverage}
            self._scores[answer_key(doc, result)] = {name: merged[name] for name in pairs}

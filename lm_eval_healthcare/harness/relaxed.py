"""Relaxed Perplexity of texts that an answer should hold: the reference, or lists of statements."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance

from lm_eval_healthcare.harness import breakdown, matrix_files, relaxed_requests, replay, requests
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.perplexity import CONTEXT_CUT
from lm_eval_healthcare.harness.ranks import gather
from lm_eval_healthcare.harness.relaxed_options import RelaxedOptions, delimiter_name
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.harness.task import SECTION, HealthcareTask
from lm_eval_healthcare.metrics import is_blank
from lm_eval_healthcare.relaxed_perplexity import Matrix, Settings
from lm_eval_healthcare.relaxed_perplexity.settings import PREFIX
from lm_eval_healthcare.scoring.documents import BLANK_REFERENCE
from lm_eval_healthcare.scoring.perplexity import EXTREME, corpus_perplexity, is_extreme
from lm_eval_healthcare.scoring.relaxed import MEAN, NATS, PERPLEXITY, READINGS, aggregation_of, document_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lm_eval_healthcare.scoring.perplexity import Pair
    from lm_eval_healthcare.scoring.relaxed import DocumentValues

logger = logging.getLogger(__name__)

ANSWER = "answer"
STOPPED_EARLY, EXTREME_RELAXED = "all_samples_stopped_early", "extreme_relaxed_perplexity"
_NO_TARGETS = "no_{group}"
# Keys that an included open-ended task's YAML has for its generated answers.
_OF_GENERATION = frozenset({"generation_kwargs", "filter_list", "repeats", "metric_list"})


class RelaxedPerplexityTask(HealthcareTask):
    """Scores how likely the model finds texts anywhere in its answer, see `docs/relaxed_perplexity.md`.

    The texts are the reference, or those that the key `targets` of the YAML's section `healthcare` names: a column of
    texts or of lists of texts for each list of targets. Of several references the first is taken.
    """

    DECIDED_HERE = frozenset({"process_results", "metric_list", "filter_list", "repeats"})

    def __init__(self, config: dict[str, Any]) -> None:
        """Set the task up as any of the pack's, without what its YAML says about generated answers."""
        requests.install()
        matrix_files.install()
        metadata = {**(config.get("metadata") or {}), **_relaxed_only(replay.saved_options(str(config.get("task"))))}
        self.relaxed = RelaxedOptions.from_metadata(metadata)
        super().__init__({key: value for key, value in config.items() if key not in _OF_GENERATION})
        # The harness pads ranks by this type; it must be the one that is asked.
        self.OUTPUT_TYPE = relaxed_requests.REQUEST_TYPE
        self._refuse_missing_columns()

    @property
    def options_used(self) -> dict[str, Any]:
        """Every option with the value that it has, wherever that came from."""
        return {**super().options_used, **self.relaxed.as_metadata()}

    def take_saved_stops(self, stops: list[str], chat: bool) -> None:
        """Take over how the model was asked in the run whose answers are scored again."""
        self.chat = chat

    def _refuse_missing_columns(self) -> None:
        wanted = {column for column in self.facts.targets.values() if column}
        missing = sorted(wanted - set(self.features or wanted))
        if not missing:
            return
        rows = self._data.splits[self._data.eval_split] if self._data is not None else []
        mixed = [column for column in missing if isinstance(rows, list) and any(column in row for row in rows)]
        if mixed:
            raise OptionError(
                f"{self.task_name}: the column {', '.join(mixed)}, which `targets` in the YAML names, holds texts in "
                "some rows and lists in others, and cannot be kept; write a list in every row, also of one text"
            )
        raise OptionError(f"{self.task_name}: no column {', '.join(missing)}, which `targets` in the YAML names")

    def _refuse_ambiguous_lists(self) -> None:
        """Of a metric's name it must be plain which reading it is and of which list."""
        own = [group for group in self.groups if group != ANSWER]
        names = Counter(self._named(reading, group) for group in {ANSWER, *own} for reading in READINGS)
        names.update([f"{name}_coverage" for name in names])
        twice = {name for name, count in names.items() if count > 1}
        for group in own:
            if group in _ENDINGS or any(self._named(reading, group) in twice for reading in READINGS):
                raise OptionError(
                    f"{self.facts.name}: `targets` in the YAML has a list {group}, and names of readings end so; call "
                    f"it something else than {', '.join(sorted(_ENDINGS))} or what begins with one of these"
                )

    def _forget_scores(self) -> None:
        super()._forget_scores()
        self._largest_cut = 0
        self._prefix_tokens: set[str] = set()
        self._engines: set[str] = set()
        self._units: set[str] = set()
        self._delimiters: set[str] = set()
        self._extreme: list[str] = []
        self._settings = self.relaxed.settings
        self.matrices: list[tuple[int, Matrix]] = []

    # Requests

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the lists of targets."""
        return tuple(self.facts.targets) or (ANSWER,)

    def targets(self, doc: dict[str, Any]) -> list[list[str]]:
        """Return the texts that are scored of a document, each behind the name of its list; blank ones are left out."""
        found = []
        for group in self.groups:
            column = self.facts.targets.get(group)
            value = doc.get(column) if column else self._reference(doc)
            texts = value if isinstance(value, list | tuple) else [value]
            found += [[group, str(text)] for text in texts if text is not None and not is_blank(str(text))]
        return found

    def _reference(self, doc: dict[str, Any]) -> str | None:
        target = self.doc_to_target(doc)
        if isinstance(target, list | tuple):
            target = next((text for text in target if text is not None), None)
        return None if target is None else str(target)

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests, without the run's chat template if the task's option says so."""
        if not self.relaxed.chat_template:
            kwargs.update(apply_chat_template=False, fewshot_as_multiturn=False, chat_template=None)
        matrix_files.forget(self.task_name)
        super().build_all_requests(**kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request: the prompt, the targets, and how it is measured."""
        self.chat = bool(kwargs.pop("apply_chat_template", False))
        kwargs.pop("chat_template", None)
        options = relaxed_requests.options_for(
            self.relaxed.settings,
            engine=self.relaxed.engine,
            delimiter=self.relaxed.delimiter,
            memory=self.relaxed.memory,
            texts=not self.private,
        )
        return Instance(
            request_type=relaxed_requests.REQUEST_TYPE,
            doc=doc,
            arguments=(ctx, self.targets(doc), options),
            idx=0,
            **kwargs,
        )

    # Scores

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        self._refuse_ambiguous_lists()
        return [name for name, _ in self._metrics_of_readings()]

    def _metrics_of_readings(self) -> list[tuple[str, str]]:
        """Each metric with the reading that it is of."""
        return [(self._named(reading, group), reading) for group in self.groups for reading in self.relaxed.readings]

    @staticmethod
    def _named(reading: str, group: str) -> str:
        return reading if group == ANSWER else f"{reading}_{group}"

    def _metric_list(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for name, reading in self._metrics_of_readings():
            out.append({"metric": name, "aggregation": aggregation_of(reading), "higher_is_better": False})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
        return out

    def _broken_down(self) -> list[str]:
        """Scores by category are means of numbers; most of the readings are ratios of sums, or medians."""
        means = [reading for reading in self.relaxed.readings if aggregation_of(reading) == MEAN]
        chosen = [reading for reading in means if reading == "relaxed_cross_entropy_mean"] or means[:1]
        return [self._named(reading, group) for group in self.groups for reading in chosen]

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> Any:
        """Return the readings of one document; what else is known is for the log alone."""
        if "bypass" in self._metric_fn_list:
            return {"bypass": None}
        scores = dict(super().process_results(doc, results))
        metrics = [item["metric"] for item in self._metric_list()]
        return breakdown.ScoredDocument(scores, breakdown.cell_scores(self._cells, doc, scores), metrics)

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        for doc, result in zip(docs, results, strict=True):
            response = json.loads(result[0])
            matrix, self._settings = Matrix.from_response(response), Settings.from_dict(response["settings"])
            groups = [target.group for target in matrix.targets]
            values = document_values(matrix, groups, self._settings, self.relaxed.readings)
            if count:
                self._note(matrix, values)
                self._units.add(str(response.get("unit") or "tokens"))
                self._delimiters.add(str(response.get("delimiter", self.relaxed.delimiter)))
            scores: dict[str, Any] = {}
            for group in self.groups:
                found = values.get(group)
                for reading in self.relaxed.readings:
                    name = self._named(reading, group)
                    scores[name] = found.items[reading] if found else _nothing(reading)
                    scores[f"{name}_coverage"] = float(bool(found and found.scored))
            scores.update(question_tokens=matrix.question_tokens, context_tokens_cut=matrix.context_cut)
            scores.update(n_eff=next((found.n_eff for found in values.values()), math.nan))
            self._scores[answer_key(doc, result)] = scores

    def _note(self, matrix: Matrix, values: dict[str, DocumentValues]) -> None:
        for found in values.values():
            self.reasons.update(found.reasons)
        for group in self.groups:
            if group not in values:
                self.reasons[BLANK_REFERENCE if group == ANSWER else _NO_TARGETS.format(group=group)] += 1
        if any(found.ended_early for found in values.values()):
            self.reasons[STOPPED_EARLY] += 1
        if matrix.context_cut:
            self.reasons[CONTEXT_CUT] += 1
            self._largest_cut = max(self._largest_cut, matrix.context_cut)
        if matrix.prefix_token is not None:
            self._prefix_tokens.add(matrix.prefix_token)
        self._engines.add(matrix.engine)

    def _put_ranks_together(self, pairs: list[tuple[dict[str, Any], list[Any]]]) -> None:
        super()._put_ranks_together(pairs)
        ids = [request.doc_id for request in self._saved or []]
        responses = [
            (ids[instance.doc_id] if ids else self.row_number(instance.doc_id), json.loads(instance.resps[0]))
            for instance in self._instances or []
        ]
        matrices = [(number, Matrix.from_response({**response, "texts": ()})) for number, response in responses]
        sets = (self._prefix_tokens, self._engines, self._units, self._delimiters)
        ratios = [name for name, reading in self._metrics_of_readings() if aggregation_of(reading) == PERPLEXITY]
        pairs_of = [{name: self._scores[answer_key(doc, results)][name] for name in ratios} for doc, results in pairs]
        own = (self._largest_cut, sets, pairs_of, matrices)
        cuts, told, pairs_found, found = zip(*gather(own, self.world_size), strict=True)
        self._largest_cut = max(cuts)
        self._prefix_tokens, self._engines, self._units, self._delimiters = (
            set().union(*one) for one in zip(*told, strict=True)
        )
        self._flag_extremes([document for part in pairs_found for document in part])
        self.matrices = sorted((item for part in found for item in part), key=lambda item: item[0])
        if self._largest_cut and not self.rank:
            logger.warning(
                "%s: %d of %d prompts are too long for the model beside completions of %d tokens and the longest "
                "target; they lost up to %d tokens on their left (context_tokens_cut in the sample log)",
                self.task_name, self.reasons[CONTEXT_CUT], len(self.matrices), self._settings.length,
                self._largest_cut,
            )  # fmt: skip
        if not self.rank:
            kept = matrix_files.Kept(self.matrices, self._settings, self.signature, self.chat)
            matrix_files.keep(self.task_name, kept)

    def _flag_extremes(self, documents: Sequence[dict[str, Pair]]) -> None:
        names = documents[0] if documents else ()
        self._extreme = [name for name in names if is_extreme(corpus_perplexity([pairs[name] for pairs in documents]))]
        if not self._extreme:
            return
        self.reasons[EXTREME_RELAXED] = sum(
            any(is_extreme(corpus_perplexity([pairs[name]])) for name in self._extreme) for pairs in documents
        )
        if self.rank:
            return
        shown = ", ".join(map(repr, sorted(self._prefix_tokens)))
        before = f"the token that stands in for an empty prompt (here {shown}; another with prefix_token_id=N)"
        logger.warning(
            "%s: %s above %.0e. This often comes from long targets, whose whole probability counts at every position, "
            "or from %s. Compare models by log_relaxed_perplexity, relaxed_nats_per_byte or by ranks: one such value "
            "decides any correlation",
            self.task_name, ", ".join(self._extreme), EXTREME,
            before if self._prefix_tokens else "a prompt in another form than the model was trained on",
        )  # fmt: skip

    # What the results file says

    @property
    def signature(self) -> str:
        """What must be equal for two scores to be comparable, the model aside."""
        prefix = _joined(self._prefix_tokens)
        delimiter = _joined(self._delimiter_names)
        chat = "on" if self.chat else "off"
        return (
            f"impl:lm_eval_healthcare|{self._settings.signature}|delimiter:{delimiter}|chat:{chat}|prefix:{prefix}|"
            f"unit:{_joined(self._units)}|sampler:{_joined(self._engines)}|log:nats"
        )

    @property
    def _delimiter_names(self) -> list[str]:
        """What stood before the targets when they were measured, which may have been in another process."""
        return sorted(map(delimiter_name, self._delimiters or {self.relaxed.delimiter}))

    def _signatures(self) -> dict[str, str]:
        return {
            name: f"{name}|{self.signature}|{_AGGREGATED[aggregation_of(reading)]}"
            for name, reading in self._metrics_of_readings()
        }

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with the settings, the engine and what was cut."""
        config = super().dump_config()
        config["metadata"][SECTION]["relaxed_perplexity"] = {
            **self._settings.as_dict(),
            "delimiter": "+".join(self._delimiter_names),
            "readings": list(self.relaxed.readings),
            "engines": sorted(self._engines),
            "prefix_tokens": sorted(self._prefix_tokens),
            "largest_context_cut": self._largest_cut,
            "extreme": self._extreme,
            "targets": dict(Counter(target.group for _, matrix in self.matrices for target in matrix.targets)),
        }
        return config


# Of a column `relaxed_perplexity_averaged` nobody could say whether it is a reading or a list.
_ENDINGS = {"averaged", "weighted", "sampled", "median", "coverage", "corrected", "any", "sum", "mean"}
_AGGREGATED = {
    PERPLEXITY: "aggregation:ratio of sums",
    NATS: "aggregation:ratio of sums",
    MEAN: "aggregation:mean over documents",
    "scored_median": "aggregation:median over documents",
}


def _joined(names: Iterable[str]) -> str:
    return "+".join(sorted(names)) or "none"


def _relaxed_only(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name.startswith(PREFIX)}


def _nothing(reading: str) -> Any:
    return (math.nan, math.nan) if aggregation_of(reading) in (PERPLEXITY, NATS) else math.nan

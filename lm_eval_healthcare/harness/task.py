"""The pack's task classes: rows from the pack's sources, scores in one batch, coverage beside every metric."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from lm_eval.api.instance import Instance

from lm_eval_healthcare.data import source
from lm_eval_healthcare.data.catalogue import CHANGES, SECTION, facts_from_config
from lm_eval_healthcare.harness import aggregation, breakdown, judged, privacy, replay, requests, rescue
from lm_eval_healthcare.harness.examples import TaskWithExamples
from lm_eval_healthcare.harness.logs import join_harness_log
from lm_eval_healthcare.harness.options import OptionError, Options, task_options, unknown_options
from lm_eval_healthcare.harness.prompts import apply_prompt, own_keys
from lm_eval_healthcare.harness.ranks import gather
from lm_eval_healthcare.harness.rows import answer_key, as_dataset, by_document
from lm_eval_healthcare.metrics.encoding import release_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lm_eval_healthcare.scoring.answers import SavedRequest

logger = logging.getLogger(__name__)


class HealthcareTask(TaskWithExamples):
    """A task of the pack. Use `OpenEndedTask` or `MultipleChoiceTask` in a YAML's `class:`.

    Attributes:
        DECIDED_HERE: Keys of a YAML that have no effect, since the class sets them.
    """

    DECIDED_HERE: frozenset[str] = frozenset({"process_results"})

    def __init__(self, config: dict[str, Any]) -> None:
        """Read the options, set the wording, load the rows and resolve the metrics.

        Args:
            config: The task's YAML as the harness loaded it.

        Raises:
            OptionError: If an option has a value that cannot be used.
            lm_eval_healthcare.data.files.DataError: If the rows cannot be used.
        """
        join_harness_log()
        aggregation.install()
        config = dict(config)
        self.facts = facts_from_config(config)
        metadata = dict(config.get("metadata") or {})
        self.options = Options.from_metadata(metadata)
        self.own_options = task_options(self.facts, metadata)
        privacy.refuse_to_leave(self.facts, self.options, metadata)
        if self.facts.credentialed:
            requests.install()
        if self.private:
            privacy.no_write_out(self.facts.name)
        for message in unknown_options(metadata, strict=False):
            logger.warning("%s: %s", self.facts.name, message)
        for key in ("class", SECTION, CHANGES):
            config.pop(key, None)
        own = own_keys(metadata.get("config_source"))
        self.wording = apply_prompt(config, self.facts, self.options.prompt, own)
        self._refuse_what_is_replaced(own)
        if replay.saved_requests(self.facts.name) is not None:
            config.pop("process_docs", None)  # saved rows have been through it
        self.metric_names = self._resolve_metrics(config)
        self._begin()
        config["metric_list"] = self._metric_list()
        # Any text here keeps the harness from looking our metrics' names up on the hub.
        config["process_results"] = "lm_eval_healthcare"
        super().__init__(config=config)
        self._add_breakdown_metrics()
        if self.config.num_fewshot and not self.replaying:
            self.prepare_fewshot(self.config.num_fewshot)

    @property
    def options_used(self) -> dict[str, Any]:
        """Every option with the value that it has, wherever that came from."""
        return {**self.options.as_metadata(), **self.own_options}

    def _begin(self) -> None:
        """Set what the harness's constructor may already ask for."""
        self.chat = False
        self.categories: dict[str, list[str]] = {}
        self.rank, self.world_size = 0, 1
        self._selected: list[int] = []
        self._run: rescue.Run | None = None
        self._saved: list[SavedRequest] | None = None
        self._user_generation_kwargs: set[str] = set()
        self._forget_scores()

    def _refuse_what_is_replaced(self, own: set[str]) -> None:
        """Tell a user whose YAML sets something that the class decides, instead of ignoring it."""
        replaced = sorted(own & self.DECIDED_HERE)
        if replaced:
            raise OptionError(
                f"{self.facts.name}: the YAML sets {', '.join(replaced)}, which this kind of task decides itself. "
                "Choose metrics with --metadata metrics=..., or write a plain task without `class` and `healthcare`"
            )

    def _forget_scores(self) -> None:
        """Start anew: nothing of an earlier run of this object may reach the next."""
        self.reasons: Counter[str] = Counter()
        self.metric_errors: dict[str, str] = {}
        self.breakdown: dict[str, Any] = {}
        self.filter_name = "none"  # of the answers that are scored
        self.to_do: str | None = None  # the command that completes the scores
        self._scores: dict[str, dict[str, Any]] = {}
        self._hidden: dict[int, dict[str, Any]] = {}

    # Rows

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the rows from the source that the option `data` names, and check them."""
        hub_kwargs = dict(dataset_kwargs or {})
        if self.options.data_revision:
            hub_kwargs["revision"] = self.options.data_revision
        self._saved = replay.saved_requests(self.facts.name)
        if self._saved is None:
            where = source.parse_source(self.options.data)
            data = source.load(self.facts, where, hub_kwargs, self.own_options, self.options.holdout)
        else:
            data = replay.saved_rows(self.facts.name, self.facts.eval_split)
        for message in data.warnings:
            logger.warning(message)
        self._data = data
        self.dataset = {name: as_dataset(rows, self.facts) for name, rows in data.splits.items()}
        self.config.test_split = data.eval_split
        for key in ("training_split", "validation_split", "fewshot_split"):
            split = getattr(self.config, key)
            if split not in self.dataset or split == data.eval_split:
                setattr(self.config, key, None)

    @property
    def provenance(self) -> dict[str, Any]:
        """What the rows were read from."""
        return self._data.provenance if self._data is not None else {}

    @property
    def data_warnings(self) -> list[str]:
        """What a user should know about the rows."""
        return self._data.warnings if self._data is not None else []

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a value as the harness does; remember what the user set, and refuse few-shot without examples."""
        super().set_config(key, value, update)
        if key == "generation_kwargs" and value:
            self._user_generation_kwargs |= set(value)
        if key == "num_fewshot" and value:
            self.prepare_fewshot(int(value))

    # Requests

    @property
    def stops(self) -> list[str]:
        """The strings that end an answer; a task that has no texts for answers has none."""
        return []

    def take_saved_stops(self, stops: list[str], chat: bool) -> None:
        """Take over how the model was asked in the run whose answers are scored again."""

    @property
    def answered(self) -> bool:
        """Whether every request of the task has its answers."""
        return bool(self._instances) and all(instance.resps for instance in self._instances)

    @property
    def replaying(self) -> bool:
        """Whether the task's answers come from saved ones."""
        return self._saved is not None

    @property
    def generation_kwargs_used(self) -> dict[str, Any] | None:
        """What the model was really given, for the record."""
        return self.config.generation_kwargs

    def build_all_requests(self, *, rank: int = 0, world_size: int = 1, **kwargs: Any) -> None:
        """Build the requests of this rank, or take the saved ones."""
        self.rank, self.world_size = rank, world_size
        self._selected = sorted(set(kwargs.get("samples") or []))
        self._forget_scores()
        if kwargs.get("cache_requests"):
            # The harness names such a cache by task and shots alone, so other rows or another wording would be missed.
            logger.warning("%s: cached requests are not used, they do not know where rows come from", self.task_name)
            kwargs["cache_requests"] = False
        if self._saved is None:
            super().build_all_requests(rank=rank, world_size=world_size, **kwargs)
        else:
            self._instances = [
                Instance(
                    request_type=saved.request_type,
                    doc=saved.doc,
                    arguments=tuple(saved.arguments),
                    idx=saved.idx,
                    metadata=(self.task_name, place, max(1, len(saved.resps))),
                )
                for place, saved in replay.in_places(self._saved)
            ]
        if self.facts.credentialed and self.options.send_text == "no" and world_size == 1 and self._saved is None:
            for instance in self._instances or []:
                instance.request_type = privacy.guarded(instance.request_type)
        self._run = rescue.join_run(self)
        self._look_at_questions()

    def _look_at_questions(self) -> None:
        """Count what a user should know of the questions that are asked."""

    def row_number(self, doc_id: int) -> int:
        """Return a document's place in the scored split; under `--samples` the harness numbers the selected ones."""
        return self._selected[doc_id] if self._selected else int(doc_id)

    def apply_filters(self) -> None:
        """Save all answers, filter them, and score the whole task in one batch."""
        self._clean_answers()
        rescue.save_answered(self._run)
        super().apply_filters()
        self._clean_filtered()
        filters = list(self._instances[0].filtered_resps) if self._instances else []
        if "bypass" not in self._metric_fn_list:
            self._score_filtered(filters)
        if self._run is not None and self._run.finish(self):
            judged.close(self._run)
            release_all()  # what runs next in this process finds the memory of the metrics' models free
        if self.private:
            self._hidden, self._scores = privacy.hide(self._instances or [], filters, self._scores)
            rescue.discard(self._run, self)

    def _score_filtered(self, filters: Sequence[str]) -> None:
        for place, name in enumerate(filters):
            pairs = by_document(self._instances, name)
            if place == 0:
                metrics = ", ".join(self.metric_names)
                logger.info("scoring the answers to %d questions of %s with %s", len(pairs), self.task_name, metrics)
            self.filter_name = name
            docs, answers = [doc for doc, _ in pairs], [results for _, results in pairs]
            self._know_corpus(docs, answers)
            self._score(docs, answers, count=place == 0)
        if filters:
            self._put_ranks_together(by_document(self._instances, filters[0]))

    @property
    def scores_are_complete(self) -> bool:
        """Whether the saved answers are not needed any more."""
        return True

    @property
    def private(self) -> bool:
        """Whether the task's texts are kept out of logs."""
        return self.facts.credentialed and self.options.keep_text == "no"

    def doc_iterator(self, **kwargs: Any) -> Iterator[tuple[int, Any]]:
        """Yield the documents; once they have been scored, placeholders for those that must not be logged."""
        for doc_id, doc in super().doc_iterator(**kwargs):
            yield doc_id, self._hidden.get(doc_id, doc)

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """Return the target; that of a placeholder is one too."""
        if isinstance(doc, dict) and privacy.HIDDEN_ROW in doc:
            return privacy.HIDDEN
        return super().doc_to_target(doc, doc_to_target)

    def _clean_answers(self) -> None:
        """Make answers writable before they are saved."""

    def _clean_filtered(self) -> None:
        """Bring filtered answers to the form that is scored."""

    # Scores

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> Any:
        """Return the scores of one document: plain floats, NaN for no score, the same keys for every document."""
        if "bypass" in self._metric_fn_list:
            return super().process_results(doc, results)
        key = answer_key(doc, results)
        if key not in self._scores:
            self._score([doc], [results], count=True)
        scores = self._scores[key]
        return breakdown.ScoredDocument(scores, breakdown.cell_scores(self._cells, doc, scores))

    def _harness_scores(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        return super().process_results(doc, results)

    def _know_corpus(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        """Take note of all documents that are about to be scored, those of other ranks included."""

    @abstractmethod
    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        """Put the scores of these documents into `_scores`, in one batch; `count` their reasons."""

    @abstractmethod
    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        """Return the names of the task's metrics."""

    @abstractmethod
    def _metric_list(self) -> list[dict[str, Any]]:
        """Return the harness's `metric_list`: each metric and its coverage."""

    def _signatures(self) -> dict[str, str]:
        return {}

    # Scores by category, and what ranks tell each other

    def _broken_down(self) -> list[str]:
        """The metrics that are also reported by category."""
        return self.metric_names[:1]

    def _add_breakdown_metrics(self) -> None:
        # Values of a category become names of metrics: no text of credentialed data may be one.
        columns = [column for column in self.facts.breakdown if column in self.features and not self.facts.credentialed]
        # Scored again, a task has the categories of the whole set that it had in its run, not of the saved rows alone.
        self.categories = replay.saved_categories(self.facts.name) or {
            column: breakdown.values(self.task_docs[column]) for column in columns
        }
        self._every_cell = breakdown.cells(self._broken_down(), columns, self.categories)
        self._cells = breakdown.as_metrics(self._every_cell)
        for cell in self._cells:
            self._metric_fn_list[cell.key] = None
            self._aggregation_list[cell.key] = self._aggregation_list[cell.metric]
            self._higher_is_better[cell.key] = self._higher_is_better[cell.metric]

    def _put_ranks_together(self, pairs: list[tuple[dict[str, Any], list[Any]]]) -> None:
        """Make counts and the table by category those of all ranks; every rank comes here once per task."""
        documents = [(doc, self._scores[answer_key(doc, results)]) for doc, results in pairs]
        own = (self.reasons, self.metric_errors, breakdown.cell_values(self._every_cell, documents))
        ranks = gather(own, self.world_size)
        self.reasons = sum((reasons for reasons, _, _ in ranks), Counter())
        self.metric_errors = {name: error for _, errors, _ in ranks for name, error in errors.items()}
        values = {cell.key: [v for *_, found in ranks for v in found[cell.key]] for cell in self._every_cell}
        held = [cell for cell in self._every_cell if values[cell.key]]
        self._cells = [cell for cell in held if cell.key in self._aggregation_list]
        self.breakdown = breakdown.table(held, values)
        self.reasons.update(self._data.left_out if self._data is not None else {})

    # What the results file says about the run

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with sources, wording, signatures and counts of reasons."""
        config = super().dump_config()
        config["metadata"] = {
            **(config.get("metadata") or {}),
            SECTION: {
                "benchmark": self.facts.benchmark,
                "prompt": self.wording,
                "data": self.provenance,
                "signatures": self._signatures(),
                **({"metric_options": given} if (given := self.options.metric_options_that_matter) else {}),
                "reasons": dict(self.reasons),
                **({"credentialed": True} if self.facts.credentialed else {}),
                "metric_errors": dict(self.metric_errors),
                **({"breakdown": self.breakdown} if self.breakdown else {}),
            },
        }
        if config.get("generation_kwargs"):
            config["generation_kwargs"] = self.generation_kwargs_used
        return config

"""The pack's task classes: rows from the pack's sources, scores in one batch, coverage beside every metric."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from lm_eval_healthcare.data import source
from lm_eval_healthcare.data.catalogue import SECTION, facts_from_config
from lm_eval_healthcare.harness import aggregation, replay, rescue
from lm_eval_healthcare.harness.logs import join_harness_log
from lm_eval_healthcare.harness.options import OptionError, Options, unknown_options
from lm_eval_healthcare.harness.prompts import apply_prompt
from lm_eval_healthcare.scoring.aggregate import scored, scored_mean, scored_mean_stderr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lm_eval_healthcare.scoring.answers import SavedRequest

logger = logging.getLogger(__name__)


class ScoredDocument(dict):
    """The scores of one document as the harness takes them.

    The dict holds what is logged for the document. `items()`, from which the harness aggregates, adds the scores by
    category: NaN for every category but the document's own. So every document gives the same keys, and the log is not
    filled with NaN.
    """

    def __init__(self, scores: dict[str, float], breakdown: dict[str, float] | None = None) -> None:
        """Keep `scores` for the log and add `breakdown` for the aggregation."""
        super().__init__(scores)
        self._breakdown = breakdown or {}

    def items(self) -> Any:
        """Return the pairs that are aggregated."""
        return {**self, **self._breakdown}.items()


class HealthcareTask(ConfigurableTask):
    """A task of the pack. Use `OpenEndedTask` or `MultipleChoiceTask` in a YAML's `class:`."""

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
        for message in unknown_options(metadata, strict=False):
            logger.warning("%s: %s", self.facts.name, message)
        for key in ("class", SECTION):
            config.pop(key, None)
        self.wording = apply_prompt(config, self.facts, self.options.prompt)
        self.metric_names = self._resolve_metrics(config)
        self.reasons: Counter[str] = Counter()
        self.metric_errors: dict[str, str] = {}
        self.rank, self.world_size = 0, 1
        self.answers_saved = False
        self._saved: list[SavedRequest] | None = None
        self._data: source.TaskData | None = None
        self._fewshot_ready = False
        self._scores: dict[str, dict[str, float]] = {}
        self._user_generation_kwargs: set[str] = set()
        config["metric_list"] = self._metric_list()
        config["process_results"] = (
            "lm_eval_healthcare"  # any text: keeps the harness from looking metrics up on the hub
        )
        super().__init__(config=config)
        self._add_breakdown_metrics()
        if self.config.num_fewshot:
            self.prepare_fewshot(self.config.num_fewshot)
        rescue.watch(self)

    # Rows

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the rows from the source that the option `data` names, and check them."""
        hub_kwargs = dict(dataset_kwargs or {})
        if self.options.data_revision:
            hub_kwargs["revision"] = self.options.data_revision
        self._saved = replay.saved_requests(self.facts.name)
        if self._saved is None:
            data = source.load(self.facts, source.parse_source(self.options.data), hub_kwargs)
        else:
            data = replay.saved_rows(self.facts.eval_split, self._saved)
        for message in data.warnings:
            logger.warning(message)
        self._data = data
        self.dataset = {name: _as_dataset(rows, self.facts.columns) for name, rows in data.splits.items()}
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

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """Return no examples: they are loaded when a run asks for some, see `prepare_fewshot`."""
        return []

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a value as the harness does; remember what the user set, and refuse few-shot without examples."""
        super().set_config(key, value, update)
        if key == "generation_kwargs" and value:
            self._user_generation_kwargs |= set(value)
            if "do_sample" not in value and float(value.get("temperature") or 0) > 0:
                self.config.generation_kwargs["do_sample"] = True  # who asks for a temperature means to sample
        if key == "num_fewshot" and value:
            self.prepare_fewshot(int(value))

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, *args: Any, **kwargs: Any) -> Any:
        """Build the prompt as the harness does, with examples that are never scored."""
        if num_fewshot:
            self.prepare_fewshot(num_fewshot)
        return super().fewshot_context(doc, num_fewshot, *args, **kwargs)

    def prepare_fewshot(self, needed: int) -> None:
        """Load the examples.

        Raises:
            OptionError: If there is no split to take them from, or it holds fewer than needed.
        """
        if self._fewshot_ready:
            return
        assert self._data is not None
        split, scored_split = self._data.fewshot_split, self._data.eval_split
        if split is None:
            raise OptionError(
                f"{self.task_name}: num_fewshot={needed}, but there is no split beside the scored one "
                f"('{scored_split}') to take examples from, and examples must never be rows that are scored. Use "
                f"num_fewshot=0, or a data folder with {self.task_name}/train.jsonl."
            )
        scored = {document_key(doc) for doc in self.eval_docs}
        examples = [doc for doc in self.dataset[split] if document_key(doc) not in scored]
        if len(examples) < len(self.dataset[split]):
            dropped = len(self.dataset[split]) - len(examples)
            logger.warning("%s: %d examples are also scored rows; they are not used", self.task_name, dropped)
        if len(examples) < needed:
            raise OptionError(
                f"{self.task_name}: num_fewshot={needed}, but split '{split}' holds only {len(examples)} examples"
            )
        self.sampler.replace_df(examples)
        self._fewshot_ready = True

    # Requests

    @property
    def answered(self) -> bool:
        """Whether every request of the task has its answers."""
        return bool(self._instances) and all(instance.resps for instance in self._instances)

    @property
    def replaying(self) -> bool:
        """Whether the task's answers come from saved ones."""
        return self._saved is not None

    def build_all_requests(self, *, rank: int = 0, world_size: int = 1, **kwargs: Any) -> None:
        """Build the requests of this rank, or take the saved ones."""
        self.rank, self.world_size = rank, world_size
        self.answers_saved = False
        if kwargs.get("cache_requests"):
            # The harness names such a cache by task and shots alone, so other rows or another wording would be missed.
            logger.warning("%s: cached requests are not used, they do not know where rows come from", self.task_name)
            kwargs["cache_requests"] = False
        if self._saved is None:
            super().build_all_requests(rank=rank, world_size=world_size, **kwargs)
            return
        order = {doc_id: place for place, doc_id in enumerate(dict.fromkeys(r.doc_id for r in self._saved))}
        self._instances = [
            Instance(
                request_type=saved.request_type,
                doc=saved.doc,
                arguments=tuple(saved.arguments),
                idx=saved.idx,
                metadata=(self.task_name, order[saved.doc_id], max(1, len(saved.resps))),
            )
            for saved in self._saved
        ]

    def apply_filters(self) -> None:
        """Save all answers, filter them, and score the whole task in one batch."""
        self._clean_answers()
        rescue.save_pending()
        super().apply_filters()
        self._clean_filtered()
        if "bypass" in self._metric_fn_list:
            return
        self.reasons = Counter()
        pairs = self._by_document()
        self._keep_breakdown_of(doc for doc, _ in pairs)
        logger.info("scoring %d answers of %s with %s", len(pairs), self.task_name, ", ".join(self.metric_names))
        self._score([doc for doc, _ in pairs], [results for _, results in pairs])

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
            self._score([doc], [results])
        return ScoredDocument(self._scores[key], self._breakdown(doc, self._scores[key]))

    def _harness_scores(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        return super().process_results(doc, results)

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]]) -> None:
        """Put the scores of these documents into `_scores`, in one batch."""
        raise NotImplementedError

    def _by_document(self) -> list[tuple[dict[str, Any], list[Any]]]:
        """Every document with its filtered answers, once for each filter, in document order."""
        grouped: dict[int, list[Any]] = {}
        for instance in self._instances or []:
            grouped.setdefault(instance.doc_id, []).append(instance)
        out = []
        for name in self._instances[0].filtered_resps if self._instances else []:
            for instances in grouped.values():
                ordered = sorted(instances, key=lambda instance: instance.idx)
                out.append((ordered[0].doc, [instance.filtered_resps[name] for instance in ordered]))
        return out

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        """Return the names of the task's metrics."""
        raise NotImplementedError

    def _metric_list(self) -> list[dict[str, Any]]:
        """Return the harness's `metric_list`: each metric and its coverage."""
        raise NotImplementedError

    # Scores by category

    def _add_breakdown_metrics(self) -> None:
        self._breakdown_keys: dict[str, tuple[str, str, str]] = {}
        for column in self.facts.breakdown:
            if column not in self.features:
                continue
            values = sorted({str(value) for value in self.task_docs[column]})
            for metric in self.metric_names[:1]:
                for value in values:
                    self._breakdown_keys[f"{metric}_{column}_{_slug(value)}"] = (metric, column, value)
        self._every_breakdown_key = self._breakdown_keys
        for key, (metric, _, _) in self._breakdown_keys.items():
            self._metric_fn_list[key] = None
            self._aggregation_list[key] = self._aggregation_list[metric]
            self._higher_is_better[key] = self._higher_is_better[metric]

    def _keep_breakdown_of(self, docs: Iterable[dict[str, Any]]) -> None:
        """Leave out categories that this run has no document of; ranks see different ones, so several keep all."""
        if self.world_size > 1:
            return
        seen = {(column, str(doc.get(column))) for doc in docs for column in self.facts.breakdown}
        self._breakdown_keys = {key: cell for key, cell in self._every_breakdown_key.items() if cell[1:] in seen}

    def _breakdown(self, doc: dict[str, Any], scores: dict[str, float]) -> dict[str, float]:
        return {
            key: scores[metric] if str(doc.get(column)) == value else math.nan
            for key, (metric, column, value) in self._breakdown_keys.items()
        }

    # What the results file says about the run

    def dump_config(self) -> dict[str, Any]:
        """Return the config for the results file, with sources, wording, signatures and counts of reasons."""
        config = super().dump_config()
        assert self._data is not None
        config["metadata"] = {
            **(config.get("metadata") or {}),
            SECTION: {
                "benchmark": self.facts.benchmark,
                "prompt": self.wording,
                "data": self._data.provenance,
                "signatures": self._signatures(),
                "reasons": dict(self.reasons),
                "metric_errors": dict(self.metric_errors),
                **({"counts_of": f"rank 0 of {self.world_size}"} if self.world_size > 1 else {}),
                **({"breakdown": self._breakdown_table()} if self._breakdown_keys else {}),
            },
        }
        return config

    def _signatures(self) -> dict[str, str]:
        return {}

    def _breakdown_table(self) -> dict[str, Any]:
        rows = [(doc, self._scores.get(answer_key(doc, results))) for doc, results in self._by_document()]
        table: dict[str, Any] = {}
        for metric, column, value in self._breakdown_keys.values():
            values = [scores[metric] for doc, scores in rows if scores is not None and str(doc.get(column)) == value]
            cell = {
                metric: scored_mean(values),
                f"{metric}_stderr": scored_mean_stderr(values),
                "n": len(scored(values)),
            }
            table.setdefault(column, {}).setdefault(value, {}).update(cell)
        return table


def _as_dataset(rows: Any, columns: Any) -> datasets.Dataset:
    if isinstance(rows, datasets.Dataset):
        return rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return datasets.Dataset.from_list([{name: row.get(name) for name in names} for row in rows])
    except (TypeError, ValueError, OverflowError):  # pyarrow's ArrowInvalid is a ValueError
        declared = list(dict.fromkeys(name.split(".")[0] for name in columns))
        logger.warning(
            "columns %s hold mixed types; only the declared ones are kept", sorted(set(names) - set(declared))
        )
        return datasets.Dataset.from_list([{name: row.get(name) for name in declared} for row in rows])


def document_key(doc: dict[str, Any]) -> str:
    """Return a key of a row's content."""
    text = json.dumps(doc, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_key(doc: dict[str, Any], results: Sequence[Any]) -> str:
    """Return a key of a row and the model's answers to it: equal keys have equal scores."""
    text = document_key(doc) + json.dumps(list(results), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _slug(value: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in value.strip().lower()) or "unknown"

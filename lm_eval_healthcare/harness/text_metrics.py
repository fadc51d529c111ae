"""The metrics of one open-ended task in a run: which ones, whether they can be had, and where their scores are kept."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics
from lm_eval_healthcare.harness.options import LATER, OptionError
from lm_eval_healthcare.harness.rescue import OFF
from lm_eval_healthcare.scoring.documents import METRIC_MISSING, SCORED_LATER, TRUNCATED, score_documents
from lm_eval_healthcare.scoring.score_cache import ScoreCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lm_eval_healthcare.data.catalogue import TaskFacts
    from lm_eval_healthcare.harness.options import Options
    from lm_eval_healthcare.scoring.documents import DocumentScores

logger = logging.getLogger(__name__)


def cannot_be_computed(problems: Iterable[str]) -> str:
    """Return what a user is told of metrics that lack something, each with what it lacks and the remedy."""
    lines = "".join(f"\n  - {text}" for text in dict.fromkeys(problems))
    return (
        f"metrics that cannot be computed here:{lines}\n  Or choose others (metrics=ngram needs no model), or leave "
        "these out with metrics_missing=skip"
    )


class TextMetrics:
    """The metrics of one task.

    Attributes:
        names: All metrics that the task reports.
        left_out: Those that this run does not compute, each with the reason.
        lacking: What those lack that are left out with `metrics_missing=skip`.
        warnings: What a user should know before the run.
    """

    def __init__(self, facts: TaskFacts, options: Options) -> None:
        """Resolve the option `metrics` and look whether every metric can be computed here.

        Raises:
            OptionError: If one cannot, unless `metrics_missing=skip`.
        """
        self._task = facts.name
        self._options = {**options.for_metrics, "languages": facts.languages}
        self._cache_folder = options.score_cache
        self._later = options.metrics_device == LATER
        self._asked = options.metrics
        self.names = options.metric_names(facts.languages)
        self.left_out: dict[str, str] = {}
        self.lacking: dict[str, str] = {}
        self.warnings: list[str] = []
        self._corpus: Any = None
        if self._later and options.answers == OFF and any(metrics.AVAILABLE[name].heavy for name in self.names):
            raise OptionError(
                f"{facts.name}: metrics_device=later scores saved answers after the run, but answers=off saves none; "
                "leave one of the two out"
            )
        problems = [text for name in self.names if (text := self._lacks(name, skip=options.metrics_missing == "skip"))]
        if problems:
            raise OptionError(f"{facts.name}: {cannot_be_computed(problems)}")
        foreign = [name for name in self.names if metrics.AVAILABLE[name].domain not in (None, facts.domain)]
        for name in foreign:
            domain = metrics.AVAILABLE[name].domain
            self.warnings.append(f"{facts.name}: {name} is made for {domain} texts, which these are not")
        for name in self.names:
            if name not in self.left_out:
                self.warnings += [f"{facts.name}: {text}" for text in metrics.remarks(name, **self._options)]

    def _lacks(self, name: str, skip: bool) -> str | None:
        """Return what keeps a metric from being computed; a metric that is left out lacks nothing."""
        try:
            metrics.signature(name, **self._options)
            text = metrics.missing(name, **self._options) if self._must_be_here(name) else None
            if self._later and metrics.AVAILABLE[name].heavy:
                self.left_out[name] = SCORED_LATER
                self.warnings += [f"{self._task}: for scoring later, {text}"] if text else []
                return None
        except ValueError as error:
            raise OptionError(f"{self._task}: {error}") from error
        if text is not None and skip:
            self.left_out[name], self.lacking[name] = METRIC_MISSING, text
            self.warnings.append(f"{self._task}: {name} is left out, its scores are NaN: {text}")
            return None
        return text

    def _must_be_here(self, name: str) -> bool:
        """Whether it matters now what a metric lacks: always; where it is left for later, if its model was named."""
        given = any(option in self._options for option in metrics.AVAILABLE[name].options if option.endswith("_model"))
        return not self._later or not metrics.AVAILABLE[name].heavy or given

    def prepare(self) -> None:
        """Fetch what the metrics need from a hub, before the evaluated model is asked anything.

        Raises:
            OptionError: If something cannot be had.
        """
        for name in self.names:
            try:
                if name not in self.left_out:
                    metrics.prepare(name, **self._options)
            except ValueError as error:
                raise OptionError(f"{self._task}: {error}") from error

    def signatures(self) -> dict[str, str]:
        """Return what the scores of each metric depend on, the evaluated set included once there is one."""
        corpus = {} if self._corpus is None else {"corpus": self._corpus}
        return {name: metrics.signature(name, **self._options, **corpus) for name in self.names}

    @property
    def need_corpus(self) -> bool:
        """Whether a metric that is computed depends on the whole evaluated set."""
        return any(metrics.AVAILABLE[name].needs_corpus for name in self.names if name not in self.left_out)

    def set_corpus(self, predictions: Sequence[str | None], references: Sequence[Any]) -> None:
        """Say what the whole evaluated set is, of which `score` gets a part."""
        self._corpus = metrics.Pairs.of(predictions, references)

    def score(self, predictions: Sequence[str | None], references: Sequence[Any]) -> DocumentScores:
        """Score documents; scores of neural metrics are looked up and kept in the score cache."""
        if self._corpus is None:
            self.set_corpus(predictions, references)
        neural = any(metrics.AVAILABLE[name].heavy for name in self.names if name not in self.left_out)
        with ScoreCache.open(self._cache_folder if neural else OFF) as cache:
            scored = score_documents(
                predictions,
                references,
                self.names,
                cache=cache,
                left_out=self.left_out,
                corpus=self._corpus,
                **self._options,
            )
        if scored.computed + scored.cached:
            counts = scored.computed, scored.cached, scored.seconds
            logger.info("%s: neural metrics: %d pairs computed, %d from the cache, %.1f s", self._task, *counts)
        for name, flags in scored.truncated.items():
            if flags.any():
                logger.warning(
                    "%s: %s did not see the ends of %d of %d documents, which are longer than its model takes "
                    "(counted as %s:%s; metrics_long=windows reads all)",
                    self._task, name, int(flags.sum()), flags.size, TRUNCATED, name,
                )  # fmt: skip
        return scored

    def incomplete(self, errors: Mapping[str, str]) -> list[str]:
        """Return the metrics whose scores `lm-eval-healthcare score` can still give: left for later, or failed."""
        return [name for name in self.names if self.left_out.get(name) == SCORED_LATER or name in errors]

    def tell_what_is_left(self, folder: Path | None, errors: Mapping[str, str]) -> str | None:
        """Say how the metrics are computed that this run left for later, or that failed, and return the command."""
        left = self.incomplete(errors)
        if not left:
            return None
        where = "FOLDER_OF_SAMPLES" if folder is None else str(folder)
        command = shlex.join(["lm-eval-healthcare", "score", where, "--metrics", self._asked])
        how = "failed" if errors else "left for later"
        logger.warning("%s: %s %s; to compute them: %s", self._task, ", ".join(left), how, command)
        return command

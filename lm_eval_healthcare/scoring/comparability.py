"""Whether scores of several runs can be compared: some metrics weigh words by each run's own answers."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from lm_eval_healthcare import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lm_eval_healthcare.scoring.scored_results import TaskResult

_OWN_IDF = re.compile(r"(?<=\|idf:)corpus-[^|]*")


def weighed_differently(results: Iterable[TaskResult]) -> dict[str, list[str]]:
    """Return the tasks that several runs answered and whose signatures differ in the weights of words alone.

    Args:
        results: Tasks of several runs.

    Returns:
        Tasks by metric, without the metrics that have none.
    """
    found: dict[str, dict[tuple[str, ...], set[str]]] = defaultdict(lambda: defaultdict(set))
    for result in results:
        for name, signatures in result.signatures.items():
            for metric, signature in signatures.items():
                if metrics.AVAILABLE[metric].needs_corpus and metric not in result.unscored:
                    rest = _OWN_IDF.sub("corpus", signature)
                    found[metric][result.task.task, name, rest].add(signature)
    tasks = {
        metric: list(dict.fromkeys(key[0] for key, signatures in sets.items() if len(signatures) > 1))
        for metric, sets in found.items()
    }
    return {metric: names for metric, names in tasks.items() if names}


def comparability_warning(results: Iterable[TaskResult]) -> str | None:
    """Return what a user should know before comparing runs, or None if there is nothing."""
    parts = []
    for metric, tasks in weighed_differently(results).items():
        option = f"{metric}_idf"
        remedy = f"--{option.replace('_', '-')} uniform removes this"
        parts.append(
            f"{metric} weighs words by how rare they are in each run's own answers, so scores of different models are "
            f"not strictly comparable on {', '.join(tasks)}"
            + (f"; {remedy}" if option in metrics.AVAILABLE[metric].options else "")
        )
    return ". ".join(parts) or None

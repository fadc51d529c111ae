"""Looking at the options of lettered questions as they are asked."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from lm_eval_healthcare.scoring.chosen_option import options_of_prompt
from lm_eval_healthcare.scoring.faulty_options import faults_of_options

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.task import HealthcareTask

logger = logging.getLogger(__name__)


def count_faulty_options(task: HealthcareTask) -> Counter[str]:
    """Count the questions with identical or missing options, and tell; they are scored like the others.

    Returns:
        Questions by what is wrong with their options.
    """
    counts: Counter[str] = Counter()
    documents = {instance.doc_id: instance for instance in task.instances or []}
    for instance in documents.values():
        labels = [str(choice) for choice in task.doc_to_choice(instance.doc)]
        counts.update(faults_of_options(options_of_prompt(str(task.doc_to_text(instance.doc)), labels)))
    for fault, number in counts.items():
        logger.warning(
            "%s: %d of %d questions have %s; they are scored as they are, see `lm-eval-healthcare data describe`",
            task.task_name, number, len(documents), fault.replace("_", " ") + ("" if fault.endswith("s") else "s"),
        )  # fmt: skip
    return counts

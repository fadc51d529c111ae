"""Which of the harness's own tasks a task of the pack replaces."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lm_eval_healthcare.data.catalogue import read_yaml
from lm_eval_healthcare.harness.prompts import HARNESS_TASKS

if TYPE_CHECKING:
    from lm_eval_healthcare.data.catalogue import TaskFacts


def replaced_yaml(facts: TaskFacts) -> str | None:
    """Return the harness's YAML that defines a task of the same name.

    It is the one that `harness:` names, from which the instruction is read, or one beside it that is called after the
    task: `medtext_perplexity` takes its wording from `medtext/medtext.yaml`, and replaces
    `medtext/medtext_perplexity.yaml`.

    Returns:
        Its path relative to the harness's tasks folder, or None if the installed harness has none there.
    """
    if facts.harness is None:
        return None
    beside = PurePosixPath(facts.harness).with_name(f"{facts.name}.yaml")
    for name in (facts.harness, str(beside)):
        path = HARNESS_TASKS / name
        if path.is_file() and read_yaml(path).get("task") == facts.name:
            return name
    return None

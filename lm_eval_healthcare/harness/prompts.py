"""Which words a task puts before its question.

`prompt=harness` reads the instruction sentence from the harness's own YAML as it is installed, so that prompts are
byte-equal to the harness's and none of its sentences is copied here. `prompt=pack` takes the wording of our YAML.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval.tasks

from lm_eval_healthcare.data.catalogue import read_yaml
from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from lm_eval_healthcare.data.catalogue import TaskFacts

HARNESS_TASKS = Path(lm_eval.tasks.__file__).parent


def apply_prompt(config: dict[str, Any], facts: TaskFacts, prompt: str) -> str:
    """Set the wording of a task's config in place.

    Args:
        config: The task's config.
        facts: What its YAML says, in particular `harness` and `pack`.
        prompt: `harness` or `pack`.

    Returns:
        Which wording was set, for the results file. A benchmark that the harness lacks has only ours.

    Raises:
        OptionError: If the installed harness no longer has the YAML that holds the instruction.
    """
    if prompt == "pack" or facts.harness is None:
        config.update(facts.pack)
        return "pack"
    path = HARNESS_TASKS / facts.harness
    if not path.is_file():
        raise OptionError(
            f"{facts.name}: the installed lm-eval has no {facts.harness}, from which the instruction is read. Use "
            "prompt=pack, or a version of lm-eval that has it (>=0.4.12,<0.5)."
        )
    description = read_yaml(path).get("description")
    if description:
        config["description"] = description
    return "harness"

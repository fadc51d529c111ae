"""Which words a task puts before its question.

`prompt=harness` reads the instruction sentence from the harness's own YAML as it is installed, so that prompts are
byte-equal to the harness's and none of its sentences is copied here. `prompt=pack` takes the wording of our YAML.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval.tasks

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import read_yaml
from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection

    from lm_eval_healthcare.data.catalogue import TaskFacts

HARNESS_TASKS = Path(lm_eval.tasks.__file__).parent


WORDING = ("description", "doc_to_text", "doc_to_choice", "target_delimiter", "fewshot_delimiter", "gen_prefix")


def own_keys(config_source: str | None) -> set[str]:
    """Return the keys that a user's own YAML sets on top of a YAML of the pack that it includes.

    Args:
        config_source: The file from which the task was loaded; the pack's own files set nothing on top.
    """
    path = Path(config_source or "")
    if not path.is_file() or path.is_relative_to(tasks_path()) or path.is_relative_to(HARNESS_TASKS):
        return set()
    return set(read_yaml(path, merge=False))


def apply_prompt(config: dict[str, Any], facts: TaskFacts, prompt: str, own: Collection[str] = ()) -> str:
    """Set the wording of a task's config in place.

    Args:
        config: The task's config.
        facts: What its YAML says, in particular `harness` and `pack`.
        prompt: `harness` or `pack`.
        own: Keys that a user's YAML sets; they are left as they are.

    Returns:
        Which wording was set, for the results file: `harness`, `pack`, or `user` if a user's YAML has changed it. A
        benchmark that the harness lacks has only ours.

    Raises:
        OptionError: If the installed harness no longer has the YAML that holds the instruction.
    """
    theirs = "user" if set(own) & set(WORDING) else None
    if prompt == "pack" or facts.harness is None:
        config.update({key: value for key, value in facts.pack.items() if key not in own})
        return theirs or "pack"
    path = HARNESS_TASKS / facts.harness
    if not path.is_file():
        raise OptionError(
            f"{facts.name}: the installed lm-eval has no {facts.harness}, from which the instruction is read. Use "
            "prompt=pack, or a version of lm-eval that has it (>=0.4.12,<0.5)."
        )
    description = read_yaml(path).get("description")
    if description and "description" not in own:
        config["description"] = description
    return theirs or "harness"

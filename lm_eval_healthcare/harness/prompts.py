"""Which words a task puts before its question.

`prompt=harness` reads the instruction sentence from the harness's own YAML as it is installed, so that prompts are
byte-equal to the harness's and none of its sentences is copied here. `prompt=pack` takes the wording of our YAML.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval.tasks

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import read_yaml
from lm_eval_healthcare.harness.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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
    description = read_yaml(_installed(facts, facts.harness)).get("description")
    if description and "description" not in own:
        config["description"] = description
    if facts.harness_template and "doc_to_text" not in own:
        config["doc_to_text"] = _template_from_code(facts, facts.harness_template)
    return theirs or "harness"


def _installed(facts: TaskFacts, name: str) -> Path:
    path = HARNESS_TASKS / name
    if not path.is_file():
        raise OptionError(
            f"{facts.name}: the installed lm-eval has no {name}, from which the instruction is read. Use "
            "prompt=pack, or a version of lm-eval that has it (>=0.4.12,<0.5)."
        )
    return path


def _template_from_code(facts: TaskFacts, place: Mapping[str, Any]) -> str:
    """Read the text that a function of the harness formats, and put our fields where its arguments go.

    The function's file is parsed, not imported: importing it would load metrics from the hub.
    """
    tree = ast.parse(_installed(facts, place["file"]).read_text(encoding="utf-8"))
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == place["function"]
    )
    texts = [
        call.func.value.value
        for function in functions
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "format"
        if isinstance(call.func.value, ast.Constant) and isinstance(call.func.value.value, str)
    ]
    parts = texts[0].split("{}") if len(texts) == 1 else []
    if len(parts) != len(place["fields"]) + 1:
        raise OptionError(
            f"{facts.name}: {place['function']} in the installed lm-eval's {place['file']} is not as expected; the "
            "instruction cannot be read from it. Use prompt=pack, or a version of lm-eval that has it (>=0.4.12,<0.5)."
        )
    fields = [f"{{{{{field}}}}}" for field in place["fields"]]
    literal = [f"{{% raw %}}{part}{{% endraw %}}" if re.search(r"{[{%#]", part) else part for part in parts]
    return "".join(text for pair in zip(literal, [*fields, ""], strict=True) for text in pair)

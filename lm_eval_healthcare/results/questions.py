"""What a model was asked, as a reader would put it: the task's own question, without examples and chat markup.

The templates of results files are others' texts, so they are filled in a sandbox.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.results.samples_file import arguments

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

_LONGEST_TEMPLATE = 20_000
_LARGE = 1000


def question_reader(config: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that says of a row what its document asks.

    It is the task's `description` and `doc_to_text` filled with the document; where a function made the question, the
    whole prompt, examples and chat markup included.

    Args:
        config: The task's configuration, from a results file.
    """
    template, description = config.get("doc_to_text"), config.get("description")

    def question(row: Mapping[str, Any]) -> str:
        doc = row.get("doc")
        filled = _filled(template, doc) if isinstance(doc, dict) else None
        if filled is None:
            return prompt_of(row)
        before = _filled(description, doc) if isinstance(description, str) and isinstance(doc, dict) else None
        return f"{before or ''}{filled}".strip()

    return question


def prompt_of(row: Mapping[str, Any]) -> str:
    """Return the text that the model was given."""
    requests = arguments(row)
    prompt = requests[0][0] if requests and requests[0] else ""
    return prompt.strip() if isinstance(prompt, str) else ""


def _filled(template: Any, doc: Mapping[str, Any]) -> str | None:
    """Fill a template with a document; None if that cannot be done."""
    from jinja2 import TemplateError

    if not isinstance(template, str) or not template.strip() or len(template) > _LONGEST_TEMPLATE:
        return None
    if template in doc:
        value = doc[template]
        return value if isinstance(value, str) and value.strip() else None
    if template.lstrip().startswith(("def ", "<function", "!function", "functools.partial", "lambda")):
        return None
    try:
        text = _compiled(template).render(**{str(key): value for key, value in doc.items()})
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    return text if text.strip() else None


@functools.lru_cache(maxsize=64)
def _compiled(template: str) -> Template:
    return _environment().from_string(template)


@functools.cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment, SecurityError

    class Bounded(SandboxedEnvironment):
        """No results of any size: texts that are multiplied, powers, long loops in loops."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            size = len(left) if isinstance(left, str) else abs(left) if isinstance(left, int | float) else _LARGE
            if not isinstance(right, int | float) or max(size, abs(right)) >= _LARGE:
                raise SecurityError("too large for a question")
            return super().call_binop(context, operator, left, right)

    environment = Bounded(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.globals["range"] = lambda *numbers: range(*numbers)[:_LARGE]
    return environment

"""A plan as tables for people."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.plan import Plan, TaskPlan
    from lm_eval_healthcare.harness.plan_judge import JudgeTokens

_TOTAL = "total"
_WRITING = {
    "task": "task", "documents": "documents", "requests": "requests", "prompt_tokens": "prompt tokens",
    "prompt_tokens_computed": "computed", "output_tokens": "output tokens", "output_tokens_most": "at most",
    "longest_prompt": "longest prompt", "prompts_cut": "cut", "minutes": "time", "minutes_most": "at most",
}  # fmt: skip
_RELAXED = {
    "task": "task", "documents": "documents", "requests": "measured", "targets": "targets", "branches": "branches",
    "output_tokens_most": "sampled tokens", "prompt_tokens_computed": "read tokens", "prompt_tokens": "at most",
    "longest_prompt": "longest prompt", "prompts_cut": "cut", "minutes": "time", "minutes_most": "at most",
}  # fmt: skip
_JUDGE = {
    "task": "task", "rubric": "rubric", "answers": "answers", "blank": "no reference", "requests": "requests",
    "requests_most": "at most", "prompt_tokens": "prompt tokens", "prompt_tokens_most": "at most",
    "output_tokens": "output tokens", "output_tokens_most": "at most", "longest_prompt": "longest prompt",
    "prompts_cut": "cut", "minutes": "time", "minutes_most": "at most",
}  # fmt: skip
_LARGEST = ("longest_prompt",)
_LEFT = ("task", "rubric")


def print_plan(plan: Plan) -> None:
    """Print tables of the model, of Relaxed Perplexity and of the judge, and what is estimated in them."""
    print(f"Evaluated model: {plan.model} {plan.model_source}".rstrip() + f", {_context(plan.context)}")
    relaxed = [row for row in plan.tasks if row.kind == "relaxed"]
    others = [row for row in plan.tasks if row.kind != "relaxed"]
    if others:
        print("\n" + totalled([vars(row) for row in others], _WRITING))
    if relaxed:
        print("\nRelaxed Perplexity, of the same model\n\n" + totalled([vars(row) for row in relaxed], _RELAXED))
    if plan.judge_facts is not None:
        facts = plan.judge_facts
        print(
            f"\nJudge: {facts['model']}, {_context(facts['context'])}, wording {facts['wording']}, preset "
            f"{facts['preset']} (attempts: up to {facts['attempts']}, verdicts: {facts['samples']} for each answer)\n"
        )
        print(totalled([vars(row) for row in plan.judge], _JUDGE) if plan.judge else "No task has answers to judge.")
    if plan.probed is not None:
        print("\n" + _probe(plan))
    if (together := _together(plan)) is not None:
        print("\n" + together)
    width = shutil.get_terminal_size((120, 24)).columns
    print(
        "\n" + "\n".join(textwrap.fill(note, width, initial_indent="* ", subsequent_indent="  ") for note in plan.notes)
    )


def totalled(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Lay rows out with a row of totals below, numbers on the right.

    Args:
        rows: A mapping for each row.
        columns: The keys that are shown, with their headings.
    """
    columns = {key: name for key, name in columns.items() if _tells(key, rows)}
    body = [{key: row[key] for key in columns} for row in rows]
    if len(rows) > 1:
        body.append({key: _total(key, [row[key] for row in rows]) for key in columns})
    cells = [[_cell(key, row[key]) for key in columns] for row in body]
    names = list(columns.values())
    widths = [max(len(row[place]) for row in [names, *cells]) for place in range(len(names))]
    left = [key in _LEFT for key in columns]
    rule = ["-" * width for width in widths]
    lines = [names, rule, *(cells[: len(rows)])] + ([rule, cells[-1]] if len(rows) > 1 else [])
    return "\n".join(
        "  ".join(
            text.ljust(width) if first else text.rjust(width)
            for text, width, first in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in lines
    )


def _tells(key: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a column has anything to say: a time that is known, a number that differs from another's."""
    if key.startswith("minutes"):
        return any(row[key] is not None for row in rows)
    if key == "prompt_tokens_computed":
        return any(row[key] != row["prompt_tokens"] for row in rows)
    return key != "blank" or any(row[key] for row in rows)


def _total(key: str, values: Sequence[Any]) -> Any:
    if key in _LEFT:
        return _TOTAL if key == "task" else ""
    if key in _LARGEST:
        return max(values)
    return None if any(value is None for value in values) else sum(values)


def _cell(key: str, value: Any) -> str:
    if key.startswith("minutes"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def duration(minutes: float | None) -> str:
    """Return a time in the unit that fits it."""
    if minutes is None:
        return "-"
    if minutes < 1:
        return f"{max(1, round(minutes * 60)) if minutes else 0} s"
    if minutes < 99.5:
        return f"{minutes:.1f} min" if minutes < 9.95 else f"{minutes:.0f} min"
    return f"{minutes / 60:.1f} h" if minutes < 72 * 60 else f"{minutes / 60 / 24:.1f} days"


def _together(plan: Plan) -> str | None:
    """Return the time of everything, where there is more than one table and all times are known."""
    rows: list[TaskPlan | JudgeTokens] = [*plan.tasks, *plan.judge]
    if len({row.kind == "relaxed" for row in plan.tasks}) + len(plan.judge[:1]) < 2:
        return None
    if any(row.minutes is None or row.minutes_most is None for row in rows):
        return None
    usual, most = sum(row.minutes or 0 for row in rows), sum(row.minutes_most or 0 for row in rows)
    return f"All together: {duration(usual)}, at most {duration(most)}"


def _context(tokens: int | None) -> str:
    return "context unknown" if tokens is None else f"context {tokens:,} tokens"


def _probe(plan: Plan) -> str:
    found = plan.probed
    assert found is not None
    rates = {
        "prompts": found.prompt_rate, "answers": found.output_rate, "likelihoods": found.likelihood_rate,
    }  # fmt: skip
    told = ", ".join(f"{name} {rate:,.0f} tokens/s" for name, rate in rates.items() if rate)
    return (
        f"Probe: loading the model took {found.load_seconds:.1f} s, which is in no time above; {found.requests:,} "
        f"requests in {found.seconds:.1f} s: {told or 'nothing was measured'}"
    )

"""What a reader of a plan must know: what in it is exact, what is estimated, and what would be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval_healthcare.harness.plan_requests import GENERATION, LIKELIHOOD, RELAXED

if TYPE_CHECKING:
    from lm_eval_healthcare.harness.plan import Plan, TaskPlan
    from lm_eval_healthcare.harness.plan_judge import JudgeTokens

MEASURED, GIVEN, REFERENCE = "measured", "given", "reference"
_LENGTHS_FROM = {
    MEASURED: "answers are as long as those that the probe saw, or else as the reference",
    GIVEN: "answers are as long as --answer-tokens says",
    REFERENCE: "answers are as long as the reference; many models write more, so give --answer-tokens if you know",
}


def notes_of(found: Plan) -> list[str]:
    """Return what is exact, what is estimated, and what a reader must do something about."""
    kinds = {row.kind for row in found.tasks}
    notes = [
        "Prompt tokens are exact: the tasks' own prompts in the model's own tokens."
        if found.tokens_exact
        else "Prompt tokens are ESTIMATES: the model's tokenizer is not on this machine (then characters / 4), or "
        "its server fills in the chat template. Name a folder with the tokenizer by tokenizer=DIR in --model_args."
    ]
    if GENERATION in kinds:
        notes.append(
            f"Output tokens are ESTIMATES: {_LENGTHS_FROM[found.answer_length]}. At most: max_gen_toks for each answer."
        )
    if any(row.prompt_tokens_computed < row.prompt_tokens for row in found.tasks if row.kind == LIKELIHOOD):
        notes.append("Computed: choices that differ in their last token alone are computed together.")
    if RELAXED in kinds:
        notes.append(
            "Relaxed Perplexity: read tokens are the fewest that any way needs, at most one forward pass for each "
            "branch; both as if all completions were whole and different. Equal ones, and those that end early, need "
            "less."
        )
    if found.judge_facts is not None:
        notes += _judge_notes(found)
    cut = sum(row.prompts_cut for row in found.tasks)
    if cut:
        notes.append(
            f"{cut:,} prompts do not fit into the model's context beside the answer: they lose their beginning."
        )
    full = [row.task for row in found.tasks if row.kind == GENERATION and _leaves_no_room(row, found.context)]
    if full:
        notes.append(
            f"{', '.join(full)}: max_gen_toks leaves no room for a prompt in the model's context; give fewer with "
            "--gen_kwargs max_gen_toks=N."
        )
    timed: list[TaskPlan | JudgeTokens] = [*found.tasks, *found.judge]
    if any(row.minutes is not None for row in timed):
        notes.append("Times are ESTIMATES: tokens through the rates, without loading models and scoring.")
    if any(row.minutes is None for row in found.tasks):
        notes.append(
            "No time without rates: give --prompt-tokens-per-second and --output-tokens-per-second, or --probe."
        )
    if any(row.minutes is None for row in found.judge):
        notes.append(
            "No time for the judge without --judge-prompt-tokens-per-second and --judge-output-tokens-per-second."
        )
    return notes


def _leaves_no_room(row: TaskPlan, context: int | None) -> bool:
    return context is not None and row.requests * context <= row.output_tokens_most


def _judge_notes(found: Plan) -> list[str]:
    facts = found.judge_facts or {}
    exact = "in its own tokens" if facts["tokens_exact"] else "in characters / 4, since its tokenizer is not here"
    notes = [
        f"Judge: real prompts, {exact}; ESTIMATES are the answers in them ({_LENGTHS_FROM[found.answer_length]}) and "
        f"the verdicts ({facts['verdict_tokens_assumed']} tokens each). At most: answers of max_gen_toks, whole "
        f"verdicts of {facts['max_tokens']:,} tokens, and no verdict before attempt {facts['attempts']}."
    ]
    cut = sum(row.prompts_cut for row in found.judge)
    if cut:
        notes.append(
            f"{cut:,} of the judge's prompts do not fit into its context beside a verdict if the answer is as long as "
            "it may be: the answer's end is cut."
        )
    return notes

"""`lm-eval-healthcare run`: the harness's `run` with the pack's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval_healthcare.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_eval_healthcare.harness.run import TaskSummary

_NOTE = """\
usage: lm-eval-healthcare run [options of `lm_eval run`]

Runs the harness with the pack's tasks. Takes exactly what `lm_eval run` takes; --include_path may be repeated.
Options of the pack go into --metadata:
  data=hub|sample|FOLDER       where rows come from (default: hub)
  data_revision=REVISION       revision of the hub's data set
  metrics=default|ngram|all|bleu+rouge1   metrics of open-ended tasks, joined by +; default is ngram and the neural
                               bert_score, mover_score and bleurt, whose models come from the hub or from:
  bert_score_model=DIR bert_score_layer=N mover_score_model=DIR bleurt_model=DIR   a folder or a name of the hub
  metrics_missing=fail|skip    a metric whose model cannot be had: end before the run, or leave its scores NaN
  metrics_device=auto|cpu|cuda|later   where neural metrics run; later: by `lm-eval-healthcare score` afterwards
  metrics_batch_tokens=N metrics_dtype=float32|bfloat16 metrics_long=truncate|windows   how they read texts
  mover_score_idf= mover_score_variant= bert_score_rescale= radgraph_reward= ...        see docs/metrics.md
  score_cache=FOLDER|off       where scores of neural metrics are kept for other runs (default: the user's cache)
  prompt=harness|pack          whose instruction (default: harness, comparable with published scores)
  answers=FOLDER|off           where answers are saved before scoring (default: below --output_path)
  reasoning=auto|on|off        <think> blocks are taken out before scoring; on: stop strings are kept from the model too
  fewshot_holdout=N            take N scored rows as few-shot examples, where a benchmark has no other split
  keep_text=no|yes             keep texts of credentialed data (MIMIC-III) in sample logs and saved answers
  send_text=no|yes             let texts of credentialed data go to a model outside this network
  references= dialogue= subset= section= note= source= scored=   of single tasks: see their cards

example:
  lm-eval-healthcare run --model hf --model_args pretrained=MODEL --tasks careqa_open,medtext \\
      --metadata data=sample metrics=ngram --output_path results --log_samples

The harness's own options:
"""


def execute(argv: Sequence[str]) -> int:
    """Run the harness; its own exit code passes through."""
    if not argv or "-h" in argv or "--help" in argv:
        from lm_eval_healthcare.harness.command_line import print_run_help

        print(_NOTE, flush=True)
        print_run_help()
        return 0
    from lm_eval_healthcare.harness.run import run

    summaries = run(argv)
    for summary in summaries:
        _print(summary)
    for command in dict.fromkeys(summary.to_do for summary in summaries if summary.to_do):
        print(f"\nNot all metrics have been computed. What is left:\n  {command}")
    return 0


def _print(summary: TaskSummary) -> None:
    if summary.reasons:
        counts = ", ".join(f"{reason}: {count}" for reason, count in sorted(summary.reasons.items()))
        print(f"{summary.name}: documents that are not scored as usual: {counts}")
    for column, cells in summary.breakdown.items():
        print(f"\n{summary.name} by {column}:")
        rows = [{column: value, **{key: _number(cell[key]) for key in cell}} for value, cell in cells.items()]
        print(table(rows, list(rows[0])))


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"

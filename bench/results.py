"""Time reading thousands of result files and a million sample rows: seconds and memory, first and second time.

The files are made up and written to a temporary folder one by one: results of many models as version 0.4.13 of the
harness writes them, with its configuration of every task, and sample files of short questions. Each reading is a
process of its own that starts with an empty or a filled cache; its memory is the largest resident set of that process
and of those that it started, its seconds those of the call. Of the second reading there is also the time with every
value that was set aside looked at, which is made only then. Prints the ratios to the first reading, and to reading the
bytes alone. Exits with 1 if the second reading of unchanged files is not 10 times as fast, if it gives other values, or
if the memory of reading samples grows with their number.

Example:
    python bench/results.py --files 2000 --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

AIM = 10.0
_MOST_GROWTH = 1.3
_TASKS = [f"task_{number:02}" for number in range(40)]
_METRICS = ("bleu", "rouge1", "rouge2", "rougeL", "bert_score", "prometheus")
_SOURCE = "def process_docs(dataset):\n    def _one(doc):\n        return doc\n    return dataset.map(_one)\n" * 8
_READ = """
import hashlib, json, resource, sys, time
from pathlib import Path
from lm_eval_healthcare.results.cell import read_table
start = time.perf_counter()
table = read_table([Path(sys.argv[1])], cache=Path(sys.argv[2]))
seconds = time.perf_counter() - start
values = [(*cell.key, cell.value, str(cell.file)) for cell in table.cells]
values += [(*one.cell.key, one.reason) for one in table.set_aside]
everything = time.perf_counter() - start
kib = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"seconds": seconds, "mib": kib / 1024, "cells": len(table.cells),
                  "set_aside": len(table.set_aside), "everything": everything,
                  "digest": hashlib.sha256(repr(values).encode()).hexdigest()}))
"""
_STREAM = """
import json, resource, sys, time
from pathlib import Path
from lm_eval_healthcare.results.samples_file import SampleFile
start, rows, total = time.perf_counter(), 0, 0.0
for path in sorted(Path(sys.argv[1]).rglob("samples_*.jsonl")):
    for row in SampleFile(path):
        rows, total = rows + 1, total + row["rougeL"]
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "rows": rows}))
"""
_BYTES = """
import json, sys, time
from pathlib import Path
start = time.perf_counter()
size = sum(len(path.read_bytes()) for path in Path(sys.argv[1]).rglob("*.json"))
print(json.dumps({"seconds": time.perf_counter() - start, "bytes": size}))
"""


def results(model: str, number: int, tasks: list[str]) -> dict[str, Any]:
    """Return a results file: each model runs each task some times, on later dates with other values."""
    rows, configs = {}, {}
    for place, task in enumerate(tasks):
        rows[task] = {"name": task, "alias": task, "sample_len": 1000}
        for at, metric in enumerate(_METRICS):
            rows[task] |= {
                f"{metric},none": ((number * 7 + place * 3 + at) % 100) / 100, f"{metric}_stderr,none": 0.01,
                f"{metric}_coverage,none": 1.0, f"{metric}_coverage_stderr,none": 0.0,
            }  # fmt: skip
        configs[task] = {
            "task": task, "dataset_path": "made/up", "test_split": "test", "output_type": "generate_until",
            "process_docs": _SOURCE, "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}", "num_fewshot": 0,
            "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in _METRICS],
            "metadata": {
                "version": 1.0,
                "healthcare": {"signatures": {m: f"{m}|impl:made-up|{m * 8}" for m in _METRICS}},
            },
        }  # fmt: skip
    every = {task: None for task in tasks}
    return {
        "results": rows, "group_subtasks": {}, "configs": configs, "versions": dict.fromkeys(every, 1.0),
        "n-shot": dict.fromkeys(every, 0),
        "higher_is_better": {task: dict.fromkeys(_METRICS, True) for task in tasks},
        "n-samples": {task: {"original": 1000, "effective": 1000} for task in tasks},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "limit": None, "gen_kwargs": {}},
        "date": 1.75e9 + number * 3600.0, "lm_eval_version": "0.4.13", "pretty_env_info": "CPU: made up\n" * 300,
        "task_hashes": {}, "model_name": model, "chat_template": None, "chat_template_sha": None,
    }  # fmt: skip


def write_results(folder: Path, files: int, models: int) -> None:
    for number in range(files):
        model = f"made/up-{number % models}"
        first = (number // models * 5) % len(_TASKS)
        path = folder / model.replace("/", "__") / f"results_2026-01-01T00-00-00.{number:06}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results(model, number, _TASKS[first : first + 5]), indent=2), encoding="utf-8")


def write_samples(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    text = "a patient with a fever and a cough asks what to do " * 4
    for start in range(0, rows, 50_000):
        path = folder / f"samples_task_{start // 50_000:02}_2026-01-01T00-00-00.000000.jsonl"
        with path.open("w", encoding="utf-8") as stream:
            for number in range(start, min(rows, start + 50_000)):
                row = {
                    "doc_id": number, "doc": {"question": text, "answer": text}, "target": text, "resps": [[text]],
                    "filtered_resps": [text], "filter": "none", "metrics": ["rougeL"], "doc_hash": f"{number:064x}",
                    "rougeL": (number % 100) / 100,
                }  # fmt: skip
                stream.write(json.dumps(row) + "\n")


def run(code: str, *arguments: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True, env=environment
    )
    return dict(json.loads(done.stdout.strip().split("\n")[-1]))


def bench_results(folder: Path, files: int, models: int, repeats: int) -> bool:
    write_results(folder / "results", files, models)
    plain = run(_BYTES, folder / "results")
    first, *again = [run(_READ, folder / "results", folder / "cache.sqlite3") for _ in range(1 + repeats)]
    second = min(again, key=lambda one: one["seconds"])
    ratio = first["seconds"] / second["seconds"]
    print(
        f"{files} result files, {plain['bytes'] / 2**20:.0f} MiB, {first['cells']} values, {first['set_aside']} aside"
    )
    for name, one in (("bytes alone", plain), ("first read", first), ("second read", second)):
        memory = f"  {one['mib']:6.0f} MiB" if "mib" in one else ""
        print(f"  {name:12} {one['seconds']:7.2f} s  {one['seconds'] / first['seconds']:6.3f} of the first{memory}")
    print(f"  second read with every value set aside looked at: {second['everything']:.2f} s")
    print(f"  the second read is {ratio:.1f} times as fast (aim: {AIM:.0f})")
    same = first["digest"] == second["digest"]
    print(f"  values are {'the same' if same else 'NOT the same'}")
    return same and ratio >= AIM


def bench_samples(folder: Path, rows: int) -> bool:
    write_samples(folder / "few", rows // 20)
    write_samples(folder / "many", rows)
    few, many = run(_STREAM, folder / "few"), run(_STREAM, folder / "many")
    growth = many["mib"] / few["mib"]
    for one in (few, many):
        print(f"{one['rows']:8} sample rows  {one['seconds']:7.2f} s  {one['mib']:6.0f} MiB")
    print(
        f"  20 times the rows: {many['seconds'] / few['seconds']:.1f} times the seconds, {growth:.2f} times the memory"
    )
    return growth <= _MOST_GROWTH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="readings after the first; the fastest counts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fine = bench_results(Path(folder), args.files, args.models, args.repeats)
        fine = bench_samples(Path(folder), args.rows) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())

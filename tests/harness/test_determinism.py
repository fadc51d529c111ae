"""Two processes, any order of tasks and calls, any hash seed: the same options, prompts and targets."""

from __future__ import annotations

import subprocess
import sys

from support import ROOT, child_environment

PROGRAM = """
import hashlib, json, random, sys
from lm_eval_healthcare import task_manager, tasks_path
from lm_eval_healthcare.data.catalogue import catalogue

seed = int(sys.argv[1])
order = random.Random(seed)
random.seed(seed)
manager = task_manager(metadata={"data": "sample"}, include_defaults=False)
names = [entry.name for entry in catalogue(tasks_path()) if entry.kind == "task"]
order.shuffle(names)
found = {}
for name in names:
    task = manager.load([name])["tasks"][name]
    docs = list(enumerate(task.eval_docs))
    order.shuffle(docs)
    texts = {}
    for place, doc in docs:
        for _ in range(order.randint(1, 3)):  # a task that draws anew at every call would differ
            choices = task.doc_to_choice(doc) if task.config.doc_to_choice else None
            texts[place] = [task.fewshot_context(doc, 0), task.doc_to_target(doc), choices]
    text = json.dumps([texts[place] for place in sorted(texts)], default=str)
    found[name] = hashlib.sha256(text.encode()).hexdigest()
print(json.dumps(found, sort_keys=True))
"""


def test_two_processes_agree() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, seed],
            env=child_environment(PYTHONHASHSEED=seed, HF_HUB_OFFLINE="1"),
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()[-1]
        for seed in ("1", "4711")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert outputs[0].count(":") > 60

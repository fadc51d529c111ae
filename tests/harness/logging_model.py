"""A model that writes each question it is asked into a file, in a process of its own that a test can kill."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM

from lm_eval_healthcare import task_manager


class LoggingModel(HFLM):
    """Notes a question before it is asked and once it is answered, and takes its time."""

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        prompts = sorted({str(request.args[0]) for request in requests})
        self._note("asked", prompts)
        texts = super().generate_until(requests, disable_tqdm=disable_tqdm)
        time.sleep(0.05)
        self._note("answered", prompts)
        return texts

    @staticmethod
    def _note(what: str, prompts: list[str]) -> None:
        with open(os.environ["CALLS"], "a", encoding="utf-8") as file:
            file.write(json.dumps([what, prompts]) + "\n")


def run(model: str, data: str, cache: str) -> list[Any]:
    """Run the task and return its answers."""
    options = {"data": data, "repeats_cache": cache, "repeats": 3, "metrics": "ngram", "answers": "off"}
    out = simple_evaluate(
        model=LoggingModel(pretrained=model, dtype="float32", device="cpu"),
        tasks=["careqa_open_consistency"],
        task_manager=task_manager(metadata=options, include_defaults=False),
        gen_kwargs={"max_gen_toks": 6},
        bootstrap_iters=0,
    )
    return [sample["resps"] for sample in out["samples"]["careqa_open_consistency"]]


def main(model: str, data: str, cache: str, to: str) -> None:
    """For each line on stdin start a run in a child, which needs no imports; print its number, then how it ended."""
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            Path(to).write_text(json.dumps(run(model, data, cache)), encoding="utf-8")
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

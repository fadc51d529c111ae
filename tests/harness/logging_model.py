"""A model that writes each question it is asked into a file, in a process of its own that a test can kill."""

from __future__ import annotations

import json
import os
import sys
import time
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


def main(model: str, data: str, cache: str) -> None:
    """Run the task and print its answers."""
    options = {"data": data, "repeats_cache": cache, "repeats": 3, "metrics": "ngram", "answers": "off"}
    out = simple_evaluate(
        model=LoggingModel(pretrained=model, dtype="float32", device="cpu"),
        tasks=["careqa_open_consistency"],
        task_manager=task_manager(metadata=options, include_defaults=False),
        gen_kwargs={"max_gen_toks": 6},
        bootstrap_iters=0,
    )
    print(json.dumps([sample["resps"] for sample in out["samples"]["careqa_open_consistency"]]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A model that gives the answers a test wrote down, through the harness's real evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.model import LM

from lm_eval_healthcare import task_manager
from support import write_jsonl


class ScriptedModel(LM):
    """Answers generation requests with texts in order, and log-likelihood requests by a function of the choice."""

    def __init__(self, texts: Sequence[Any] = (), likelihood: Callable[[str, str], float] | None = None) -> None:
        super().__init__()
        self.texts, self.likelihood, self.seen = list(texts), likelihood, []

    def generate_until(self, requests: list[Any]) -> list[Any]:
        self.seen += [request.args for request in requests]
        return [self.texts[i % len(self.texts)] for i in range(len(requests))]

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        assert self.likelihood is not None
        return [(self.likelihood(*request.args), False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        raise AssertionError("no task asks for this yet")

    @property
    def tokenizer_name(self) -> str:
        return "scripted"

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"[{m['role']}] {m['content']}\n" for m in messages)


def evaluate(
    task: str, model: LM, data: Path | str = "sample", *, metadata: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """Run one task through the harness."""
    manager = task_manager(metadata={"data": str(data), "answers": "off", **(metadata or {})}, include_defaults=False)
    return simple_evaluate(model=model, tasks=[task], task_manager=manager, **kwargs)


def open_rows(folder: Path, references: Sequence[str | None]) -> Path:
    """A data folder with one careqa_open row per reference."""
    write_jsonl(
        folder / "careqa_open.jsonl", [{"question": f"Question {i}?", "answer": r} for i, r in enumerate(references)]
    )
    return folder

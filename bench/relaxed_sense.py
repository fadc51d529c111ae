"""Hold Relaxed Perplexity against common sense: what a real model finds likely, and where.

Two questions, each with and without the model's chat template:

1. Does a correct target score better than a wrong one of the same length? The wrong one is the target of another
   question, at most a tenth longer or shorter, or else a longer one that is cut to the same number of tokens. The unit
   is a question: where it has several targets, the sum over them decides.
2. Does a target that the model says only after some words score better than under plain perplexity? The target is a
   stretch of the model's own answer, greedy or drawn with another seed, and is scored after completions that do not
   know it. Gains are in nats a token. Two of the readings can never be worse than plain perplexity, since they contain
   it; so each is also held against the same stretch of the answer to another question, which gains without reason.

Shares stand with their 95% interval (Wilson), for so few questions are soon misread.

Example:
    python bench/relaxed_sense.py
    python bench/relaxed_sense.py --model /models/my-model --data /data/rows --tasks olaph --limit 40
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")  # read by tqdm when a bar is made

from _relaxed_jobs import model_folder

from lm_eval_healthcare.relaxed_perplexity import Matrix, Sample, Settings, measure
from lm_eval_healthcare.relaxed_perplexity.curves import cross_entropies
from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.estimator import read
from lm_eval_healthcare.relaxed_perplexity.prefixes import Tokens

PLAIN, BEST = "plain perplexity", "best position"
PAIRED = ("log_relaxed_perplexity", "relaxed_cross_entropy_any", "relaxed_nats_per_byte", PLAIN)
"""Readings of the first question; the logarithm ranks as relaxed_perplexity does, and does not overflow."""
GAINS = ("log_relaxed_perplexity", "relaxed_cross_entropy_mean", "relaxed_cross_entropy_any", BEST)
PER_TOKEN = ("relaxed_cross_entropy_mean", "relaxed_cross_entropy_any")
CLOSE = 0.1
STRETCHES = ((8, 20), (16, 28))
TEMPLATES = {"both": (False, True), "on": (True,), "off": (False,)}
HELD_OUT = 777
"""The seed of answers from which targets are cut, told apart from that of the completions."""


@dataclass(frozen=True)
class Text:
    """A target: its tokens, and its bytes."""

    tokens: Tokens
    bytes: int


@dataclass(frozen=True)
class Document:
    """A question as the model gets it, and its correct targets by list."""

    question: Question
    targets: dict[str, list[Text]]


class Remembering(Engine):
    """Another engine that samples each question once: its targets may be asked about one after another."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine; it is one whose samples do not depend on the targets."""
        self.name, self._engine = engine.name, engine
        self._known: dict[tuple[Tokens, int, Settings], list[Sample]] = {}

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        """Return completions, those of before where there are some."""
        keys = [(question.tokens, question.seed, settings) for question in questions]
        for key, question in zip(keys, questions, strict=True):
            if key not in self._known:
                (self._known[key],) = self._engine.sample([question], settings)
        return [self._known[key] for key in keys]

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        """Return what the engine returns."""
        return self._engine.score(jobs)


@dataclass(frozen=True)
class Study:
    """The model and how it is asked."""

    lm: Any
    codec: Any
    engine: Engine
    settings: Settings

    def documents(self, task: str, data: str, limit: int, chat: bool) -> list[Document]:
        """Return the questions of a task, as a run of it would ask them, with their targets."""
        from lm_eval_healthcare import task_manager
        from lm_eval_healthcare.harness.relaxed_requests import plan_document

        name = f"{task}_relaxed_perplexity"
        manager = task_manager(metadata={"data": data, "answers": "off"}, include_defaults=False)
        asked = manager.load([name])["tasks"][name]
        template = {"chat_template": self.lm.apply_chat_template, "tokenizer_name": self.lm.tokenizer_name}
        asked.build_all_requests(limit=limit, apply_chat_template=chat, **(template if chat else {}))
        found = []
        for request in asked.instances:
            prompt, targets, options = request.args
            plan = plan_document(self.lm, self.codec, prompt, targets, self.settings, options["delimiter"])
            if plan.question is None:
                continue
            by_list: dict[str, list[Text]] = {}
            for place, tokens in zip(plan.asked, plan.question.targets, strict=True):
                by_list.setdefault(plan.groups[place], []).append(Text(tokens, plan.sizes[place]))
            found.append(Document(plan.question, by_list))
        return found

    def matrix(self, question: Question, targets: Sequence[Text]) -> Matrix:
        """Score targets after completions of a question, the same whatever the targets."""
        asked = replace(question, targets=tuple(target.tokens for target in targets))
        (matrix,) = measure(self.engine, [asked], self.settings, target_bytes=[[target.bytes for target in targets]])
        return matrix

    def cut(self, text: Text, length: int) -> Text:
        """Return the first tokens of a text."""
        tokens = text.tokens[:length]
        return Text(tokens, len(self.codec.decode(tokens).encode()))

    def answer(self, question: Question, *, greedy: bool) -> Tokens:
        """Return the tokens of one answer that the completions are drawn without."""
        settings = replace(self.settings, samples=1, **({"temperature": 1e-6} if greedy else {}))
        ((sample,),) = self.engine.sample([replace(question, seed=question.seed + HELD_OUT)], settings)
        return sample.tokens

    def value(self, matrix: Matrix, place: int, reading: str) -> float:
        """Return a reading of one target in nats; `PLAIN` and `BEST` are of a token."""
        length = matrix.targets[place].length
        if reading == PLAIN:
            return -float(matrix.targets[place].log_p[0]) / length
        if reading == BEST:
            return float(cross_entropies(matrix, place, "_averaged").min()) / length
        return read(matrix, place, n=self.settings.length, stride=self.settings.stride)[reading]


def interval(successes: int, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, at 95%."""
    z = 1.959964
    share, spread = successes / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return middle - half, middle + half


def share_of(wins: Sequence[bool]) -> str:
    low, high = interval(sum(wins), len(wins))
    low, high = 100 * max(low, 0.0), 100 * high
    return f"{sum(wins):3d}/{len(wins)} {100 * sum(wins) / len(wins):3.0f}% ({low:2.0f}-{high:3.0f})"


# 1. Correct and wrong targets


def wrong_target(study: Study, documents: Sequence[Document], number: int, group: str, right: Text) -> Text | None:
    """Return the target of another question that is closest in length; of equally close ones that of the next question.

    If all differ by more than a tenth it is the shortest longer one, cut to the same length; None if there is none.
    """
    order = [(number + step) % len(documents) for step in range(1, len(documents))]
    right_tokens = {text.tokens for text in documents[number].targets[group]}
    others = [
        text for other in order for text in documents[other].targets.get(group, []) if text.tokens not in right_tokens
    ]
    length = len(right.tokens)
    near = [text for text in others if abs(len(text.tokens) - length) <= CLOSE * length]
    if near:
        return min(near, key=lambda text: abs(len(text.tokens) - length))
    longer = [text for text in others if len(text.tokens) > length]
    return study.cut(min(longer, key=lambda text: len(text.tokens)), length) if longer else None


def paired(study: Study, documents: Sequence[Document]) -> list[tuple[str, str]]:
    """Return lines of the first table: the name of a list of targets, and the shares of its questions."""
    wins: dict[str, dict[str, list[bool]]] = {}
    counts: dict[str, int] = {}
    lengths: list[tuple[int, ...]] = []
    for number, document in enumerate(documents):
        pairs = [
            (group, right, wrong)
            for group, texts in document.targets.items()
            for right in texts
            if (wrong := wrong_target(study, documents, number, group, right)) is not None
        ]
        if not pairs:
            continue
        matrix = study.matrix(document.question, [text for _, *both in pairs for text in both])
        lengths.append(matrix.lengths)
        for group in dict.fromkeys(group for group, _, _ in pairs):
            places = [place for place, pair in enumerate(pairs) if pair[0] == group]
            counts[group] = counts.get(group, 0) + len(places)
            for reading in PAIRED:
                margin = sum(
                    study.value(matrix, 2 * place + 1, reading) - study.value(matrix, 2 * place, reading)
                    for place in places
                )
                wins.setdefault(group, {}).setdefault(reading, []).append(margin > 0)
    lines = []
    for group, found in wins.items():
        shares = "  ".join(f"{share_of(found[reading]):>21}" for reading in PAIRED)
        lines.append((group, f"{counts[group]:7}  {shares}"))
    early = sum(max(each) < study.settings.length for each in lengths)
    told = f"completions of {np.mean(lengths):.0f} tokens on average; all ended early in {early} of {len(lengths)}"
    return [*lines, ("", told)]


# 2. What the model says only after some words


def later_words(study: Study, documents: Sequence[Document]) -> Iterator[tuple[str, list[str]]]:
    """Give the second table by stretches: where the targets are from, and its lines."""
    for greedy in (True, False):
        answers = [study.answer(document.question, greedy=greedy) for document in documents]
        for start, end in STRETCHES:
            kept = [number for number, answer in enumerate(answers) if len(answer) >= end]
            name = f"{'greedy' if greedy else 'drawn'} answer, tokens {start + 1} to {end}"
            if len(kept) < 2:
                yield name, [f"{len(kept)} questions with an answer of this length: too few"]
                continue
            texts = [study.cut(Text(answers[number][start:], 0), end - start) for number in kept]
            rows = []
            for place, number in enumerate(kept):
                other = texts[(place + 1) % len(texts)]
                matrix = study.matrix(documents[number].question, [texts[place], other])
                rows.append([_gains(study, matrix, 0), _gains(study, matrix, 1)])
            yield name, list(_later_lines(np.asarray(rows)))


def _gains(study: Study, matrix: Matrix, place: int) -> list[float]:
    """Return plain perplexity's logarithm, and how much lower each reading is."""
    plain = study.value(matrix, place, PLAIN)
    values = [study.value(matrix, place, reading) for reading in GAINS]
    length = matrix.targets[place].length
    per_token = [
        value / length if reading in PER_TOKEN else value for reading, value in zip(GAINS, values, strict=True)
    ]
    return [plain, *(plain - value for value in per_token)]


def _later_lines(rows: np.ndarray) -> Iterator[str]:
    """Give what stands in the second table of one stretch: its plain perplexity, and a line a reading."""
    own, other = rows[:, 0], rows[:, 1]
    yield f"{len(rows)} questions, plain {own[:, 0].mean():.2f} nats a token (other words {other[:, 0].mean():.2f})"
    for column, reading in enumerate(GAINS, 1):
        lower = share_of([bool(gain > 0) for gain in own[:, column]])
        more = share_of([bool(a > b) for a, b in zip(own[:, column], other[:, column], strict=True)])
        gains = f"{own[:, column].mean():+10.2f} {other[:, column].mean():+18.2f}"
        yield f"  {_short(reading):28} {gains}     {lower:>20}     {more:>20}"


# Output


def show(study: Study, tasks: Sequence[str], data: str, limit: int, chats: Sequence[bool]) -> None:
    start = time.process_time()
    asked = {(task, chat): study.documents(task, data, limit, chat) for task in tasks for chat in chats}
    print("\n1. Questions whose correct target scores better than a wrong one of the same length, 95% interval")
    print(f"{'':44} {'targets':>7}  " + "  ".join(f"{name:>21}" for name in map(_short, PAIRED)), flush=True)
    for (task, chat), documents in asked.items():
        for group, line in paired(study, documents):
            name = f"{task}{'' if group == 'answer' else ' ' + group}, {_template(chat)}" if group else ""
            print(f"{name:44} {line}", flush=True)
    print("\n2. The model's own later words: how much lower a reading is than plain perplexity, 95% interval")
    print(
        f"{'':30} {'gain, nats a token':>20} {'of other':>7}     {'questions gained':>20}     {'more than other':>20}"
    )
    for (task, chat), documents in asked.items():
        for name, lines in later_words(study, documents):
            print(f"{task}, {_template(chat)}, {name}: " + "\n".join(lines), flush=True)
    print(f"\n{time.process_time() - start:.0f} s of CPU time")


def _short(reading: str) -> str:
    return reading.removeprefix("log_")


def _template(chat: bool) -> str:
    return "with template" if chat else "no template"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a model (default: the small demo model)")
    parser.add_argument("--data", default="sample", help="folder with rows (default: the packaged sample)")
    parser.add_argument("--tasks", nargs="+", default=["careqa_open", "olaph"], help="(default: careqa_open olaph)")
    parser.add_argument("--limit", type=int, default=12, help="questions of each task (default: 12)")
    parser.add_argument("--template", choices=tuple(TEMPLATES), default="both", help="chat template (default: both)")
    parser.add_argument("--length", type=int, default=48, help="tokens of a completion, n (default: 48)")
    parser.add_argument("--end", choices=("stop", "ignore"), default="stop", help="as relaxed_end (default: stop)")
    parser.add_argument("--samples", type=int, default=10, help="completions, s (default: 10)")
    parser.add_argument("--device", default="cpu", help="(default: cpu)")
    parser.add_argument("--dtype", default="float32", help="(default: float32)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    import torch
    import transformers
    from lm_eval.models.huggingface import HFLM

    from lm_eval_healthcare.harness.relaxed_codec import Codec
    from lm_eval_healthcare.harness.relaxed_engines import TRANSFORMERS, engine_for

    if arguments.device == "cpu":
        torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = model_folder(arguments.model)
    lm = HFLM(pretrained=str(folder), dtype=arguments.dtype, device=arguments.device, batch_size=1)
    codec = Codec(lm)
    settings = Settings(samples=arguments.samples, keep=5, length=arguments.length, stride=8, end=arguments.end)
    print(f"{folder.name}, {arguments.dtype}; {settings.signature}; rows: {arguments.data}")
    study = Study(lm, codec, Remembering(engine_for(lm, codec, TRANSFORMERS, None)), settings)
    show(study, arguments.tasks, arguments.data, arguments.limit, TEMPLATES[arguments.template])
    return 0


if __name__ == "__main__":
    sys.exit(main())

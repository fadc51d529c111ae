"""Time BLEU and ROUGE in one batch against one `evaluate` call a document, as the harness's medical tasks do it.

Prints the ratios of one run and whether the numbers are equal; exits with 1 if they are not.

Example:
    python bench/ngram.py --pairs 200 --repeats 5
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare import metrics

if TYPE_CHECKING:
    import evaluate

Pairs = list[tuple[str, str]]
ROUGE_TYPES = ["rouge1", "rouge2", "rougeL"]
TARGETS = {"BLEU": 15, "ROUGE-1+2+L": 1000}

_WORDS = """
the the the the of of of and and and to to in in with for is is was be by on or as at from this that may should
patient patients treatment dose daily mg weeks therapy acute chronic renal hepatic failure fever pain blood
pressure infection antibiotics oral intravenous history diagnosis symptoms severe mild moderate risk bleeding
warfarin heparin insulin glucose diabetes hypertension asthma pneumonia sepsis cardiac arrest stroke ischemic
hemorrhagic anemia iron deficiency thyroid levothyroxine metformin aspirin statin cholesterol biopsy tumor
metastasis chemotherapy radiation surgery postoperative wound drainage culture sensitivity resistance creatinine
potassium sodium calcium vitamin D pregnancy neonatal pediatric elderly fracture osteoporosis non-steroidal
anti-inflammatory beta-blocker ACE inhibitor first-line second-line follow-up monitor avoid consider recommend
start stop increase reduce 5 10 20 2.5 38.5 1,000
"""


def make_pairs(n: int, seed: int) -> Pairs:
    """Return pairs of a prediction and a reference of about 90 words, the prediction an edited copy."""
    rng = random.Random(seed)
    vocabulary = _WORDS.split()

    def text(words: Sequence[str]) -> str:
        return " ".join(word + rng.choices(["", ",", ".", " (see above)"], [88, 6, 5, 1])[0] for word in words) + "."

    pairs = []
    for _ in range(n):
        reference = [rng.choice(vocabulary) for _ in range(rng.randint(60, 118))]
        prediction = [word if rng.random() < 0.85 else rng.choice(vocabulary) for word in reference]
        prediction += [rng.choice(vocabulary) for _ in range(rng.randint(0, 10))]
        pairs.append((text(prediction), text(reference)))
    return pairs


def plain_bleu(prediction: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return unsmoothed BLEU-4 of one tokenized document, in the obvious way."""
    precisions = []
    for order in range(1, 5):
        wanted: Counter[tuple[str, ...]] = Counter()
        for tokens in references:
            wanted |= Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))
        given = Counter(tuple(prediction[i : i + order]) for i in range(len(prediction) - order + 1))
        precisions.append((given & wanted).total() / given.total() if given else 0.0)
    if min(precisions) == 0:
        return 0.0
    ratio = len(prediction) / min(len(tokens) for tokens in references)
    penalty = 1.0 if ratio > 1.0 else math.exp(1 - 1.0 / ratio)
    return math.exp(sum(0.25 * math.log(precision) for precision in precisions)) * penalty


def local_metrics() -> dict[str, evaluate.Metric]:
    """Return metrics that do what the hub's `bleu` and `rouge` do, for machines that cannot load those."""
    import datasets
    import evaluate
    from rouge_score import rouge_scorer, scoring
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    text = datasets.Value("string", id="sequence")
    features = [
        datasets.Features({"predictions": text, "references": datasets.Sequence(text, id="references")}),
        datasets.Features({"predictions": text, "references": text}),
    ]
    tokenize = Tokenizer13a()

    class Bleu(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            return evaluate.MetricInfo(description="BLEU", citation="", features=features)

        def _compute(self, predictions: Any, references: Any) -> dict[str, float]:
            [prediction], [reference] = predictions, references
            return {"bleu": plain_bleu(tokenize(prediction).split(), [tokenize(reference).split()])}

    class Rouge(evaluate.Metric):
        def _info(self) -> evaluate.MetricInfo:
            return evaluate.MetricInfo(description="ROUGE", citation="", features=features)

        def _compute(self, predictions: Any, references: Any, rouge_types: Any) -> dict[str, float]:
            scorer = rouge_scorer.RougeScorer(rouge_types=rouge_types)
            aggregator = scoring.BootstrapAggregator()
            for prediction, reference in zip(predictions, references, strict=True):
                aggregator.add_scores(scorer.score(reference, prediction))
            return {name: interval.mid.fmeasure for name, interval in aggregator.aggregate().items()}

    return {"bleu": Bleu(), "rouge": Rouge()}


def load(name: str) -> tuple[evaluate.Metric, str]:
    """Return the hub's metric where it loads, a local equivalent where not, and which of them it is."""
    import evaluate

    try:
        return evaluate.load(name), f'evaluate.load("{name}")'
    except Exception as error:
        return local_metrics()[
            name
        ], f'local evaluate.Metric, since evaluate.load("{name}") failed: {type(error).__name__}'


def per_document_bleu(metric: evaluate.Metric, pairs: Pairs) -> list[list[float]]:
    """Return BLEU by one call a document; shape (1, n)."""
    return [
        [metric.compute(predictions=[prediction], references=[reference])["bleu"] for prediction, reference in pairs]
    ]


def per_document_rouge(metric: evaluate.Metric, pairs: Pairs) -> list[list[float]]:
    """Return the three ROUGE types by one call a document; shape (3, n)."""
    rows = [
        metric.compute(predictions=[prediction], references=[reference], rouge_types=ROUGE_TYPES)
        for prediction, reference in pairs
    ]
    return [[row[name] for row in rows] for name in ROUGE_TYPES]


def batched(names: list[str], pairs: Pairs) -> list[list[float]]:
    """Return the scores of `metrics.score` in one batch; shape (metrics, n)."""
    predictions, references = zip(*pairs, strict=True)
    return [scores.tolist() for scores in metrics.score(predictions, references, metrics=names).values()]


def timed(function: Callable[[Pairs], list[list[float]]], pairs: Pairs) -> tuple[list[list[float]], float]:
    start = time.perf_counter()
    scores = function(pairs)
    return scores, time.perf_counter() - start


def compare(title: str, baseline: Callable[[Pairs], Any], ours: Callable[[Pairs], Any], sets: list[Pairs]) -> bool:
    """Time both sides by turns, print the ratio of the medians, and return whether all numbers are equal.

    Every repeat has texts of its own, so that no cache of either side helps.
    """
    warm_up, *sets = sets
    equal = baseline(warm_up[:5]) == ours(warm_up[:5])
    ours(warm_up)
    slow, fast = [], []
    for pairs in sets:
        expected, seconds = timed(baseline, pairs)
        slow.append(seconds)
        scores, seconds = timed(ours, pairs)
        fast.append(seconds)
        equal = equal and scores == expected
    before, after = statistics.median(slow), statistics.median(fast)
    print(
        f"{title:12} per document {before * 1e3:9.1f} ms   one batch {after * 1e3:7.2f} ms   "
        f"ratio {before / after:7.1f}x (target {TARGETS[title]}x)   equal numbers: {'yes' if equal else 'NO'}",
        flush=True,
    )
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200, help="documents a repeat (default: 200)")
    parser.add_argument("--repeats", type=int, default=5, help="repeats, each with new texts (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the texts (default: 0)")
    arguments = parser.parse_args()

    bleu, bleu_source = load("bleu")
    rouge, rouge_source = load("rouge")
    sets = [make_pairs(arguments.pairs, arguments.seed + repeat) for repeat in range(arguments.repeats + 1)]
    lengths = [statistics.mean(len(pair[side].split()) for pairs in sets for pair in pairs) for side in (0, 1)]
    print(f"{arguments.pairs} pairs, prediction {lengths[0]:.0f} and reference {lengths[1]:.0f} words on average")
    print(f"medians of {arguments.repeats} repeats, {os.cpu_count()} CPU cores, Python {sys.version.split()[0]}")
    print(f"bleu, per document: {bleu_source}")
    print(f"rouge, per document: {rouge_source}", flush=True)
    equal = [
        compare("BLEU", lambda p: per_document_bleu(bleu, p), lambda p: batched(["bleu"], p), sets),
        compare("ROUGE-1+2+L", lambda p: per_document_rouge(rouge, p), lambda p: batched(ROUGE_TYPES, p), sets),
    ]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())

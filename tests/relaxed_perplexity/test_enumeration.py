"""The readings against sums over every answer that a toy model can give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toy_llama
from lm_eval_healthcare.relaxed_perplexity import Matrix, Sample, Settings, measure, reduce
from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.estimator import read

# Two tokens. After the question, which ends in "a", the model goes on with a 0.7, b 0.3; after "b" with a 0.4, b 0.6.
# The target "ba" then has 0.3 * 0.4 = 0.12 after "a" and 0.6 * 0.4 = 0.24 after "b". The last token of a prefix is
# "a" with 1, 0.7, 0.7 * 0.7 + 0.3 * 0.4 = 0.61 for 0, 1 and 2 tokens.
AFTER = {"a": 0.3 * 0.4, "b": 0.6 * 0.4}
TOTAL = (0.12, 0.7 * 0.12 + 0.3 * 0.24, 0.61 * 0.12 + 0.39 * 0.24)  # 0.12, 0.156, 0.1668
ADDED = (0.12, 0.12 + 0.24, 2 * 0.12 + 2 * 0.24)  # of the 4 prefixes of two tokens two end in "a"


def test_two_tokens_by_hand() -> None:
    chances = toy_llama.TWO_TOKENS
    rows: list[list[tuple[float, float]]] = []
    for length in range(3):
        row = []
        for prefix in itertools.product("ab", repeat=length):
            steps = itertools.pairwise(("a", *prefix))
            row.append((log(math.prod(chances[one][two] for one, two in steps)), log(AFTER[("a", *prefix)[-1]])))
        rows.append(row)
    found = reduce(
        [[value for _, value in row] for row in rows], positions=[0, 1, 2], target_length=2, n=2,
        log_p_prefix=[[value for value, _ in row] for row in rows],
        counts=[[100], [70, 30], [49, 21, 12, 18]],  # a hundred answers, each prefix as often as it is likely
    )  # fmt: skip
    assert found["relaxed_cross_entropy_sum_weighted"] == pytest.approx(-log(0.12 * 0.156 * 0.1668), rel=1e-13)
    assert found["relaxed_cross_entropy_any_weighted"] == pytest.approx(-log(0.12 + 0.156 + 0.1668), rel=1e-13)
    assert found["relaxed_perplexity_weighted"] == pytest.approx((0.12 * 0.156 * 0.1668) ** -0.25, rel=1e-13)
    assert found["relaxed_perplexity_sampled"] == pytest.approx((0.12 * 0.156 * 0.1668) ** -0.25, rel=1e-13)
    assert found["relaxed_perplexity"] == pytest.approx((0.12 * 0.36 * 0.72) ** -0.25, rel=1e-13)
    assert found["relaxed_perplexity_averaged"] == pytest.approx((0.12 * 0.18 * 0.18) ** -0.25, rel=1e-13)


class EveryAnswer(Engine):
    """Its samples are all answers of the full length, and each score is one forward pass of a model."""

    name = "every answer"

    def __init__(self, folder: Path, tokens: Sequence[int], end: int | None = None) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder).to(torch.float64)
        self.tokens, self.end = tokens, end

    def log_p(self, before: Sequence[int], after: Sequence[int]) -> np.ndarray:
        """log P of each token of `after`, given those before it."""
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([[*before, *after]])).logits[0].double()
        of_each = torch.log_softmax(logits, dim=-1)[len(before) - 1 : -1].numpy()
        return of_each[np.arange(len(after)), list(after)]

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        found = []
        for question in questions:
            answers = []
            for answer in itertools.product(self.tokens, repeat=settings.length):
                kept = answer[: answer.index(self.end)] if self.end in answer else answer
                log_p = np.concatenate([[0.0], np.cumsum(self.log_p(question.tokens, kept))])
                answers.append(Sample(tuple(kept), log_p))
            found.append(answers)
        return found

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        return [
            np.array(
                [
                    [
                        self.log_p((*job.question.tokens, *job.prefix_tokens(prefix)), target).sum()
                        for prefix in job.prefixes
                    ]
                    for target in job.question.targets
                ]
            )
            for job in jobs
        ]


def test_toy_model_agrees_with_the_hand_calculation(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    engine = EveryAnswer(toy_llama.write_bigram_llama(tmp_path, toy_llama.TWO_TOKENS), tokens=(0, 1))
    settings = Settings(keep=None, length=2, stride=1)
    (matrix,) = measure(engine, [Question((1, 0), ((1, 0),))], settings, target_bytes=[[2]])
    found = read(matrix, 0, n=2, stride=1)
    assert found["relaxed_perplexity_weighted"] == pytest.approx(math.prod(TOTAL) ** -0.25, rel=1e-5)
    assert found["relaxed_perplexity"] == pytest.approx(math.prod(ADDED) ** -0.25, rel=1e-5)
    assert found["relaxed_nats_per_byte_weighted"] == pytest.approx(-log(math.prod(TOTAL)) / 3 / 2, rel=1e-5)


def test_answers_that_end_leave_the_condition_that_they_did_not(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    # after a: a .5, b .3, the end .2; after b: a .6, b .3, the end .1. The target "a" after a .5, after b .6.
    engine = EveryAnswer(toy_llama.write_bigram_llama(tmp_path), tokens=(0, 1, 3), end=3)
    (matrix,) = measure(engine, [Question((0,), ((0,),))], Settings(keep=None, length=2, stride=1), target_bytes=[[1]])
    # one token: (.5 * .5 + .3 * .6) / .8 = .5375; two: a a .25, a b .15, b a .18, b b .09, of .67 in all:
    # ((.25 + .18) * .5 + (.15 + .09) * .6) / .67
    one, two = 0.43 / 0.8, (0.43 * 0.5 + 0.24 * 0.6) / 0.67
    assert [prefix.position for prefix in matrix.prefixes] == [0, 1, 1, 2, 2, 2, 2]
    found = read(matrix, 0, n=2, stride=1)
    assert found["relaxed_cross_entropy_sum_weighted"] == pytest.approx(-log(0.5 * one * two), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "length"), [({"kv_heads": 1}, 4), ({"sliding_window": 3}, 3)], ids=["llama", "mistral"]
)
def test_all_prefixes_give_the_law_of_total_probability(tmp_path: Path, kind: dict[str, int], length: int) -> None:
    pytest.importorskip("transformers")
    folder = toy_llama.write_random_llama(tmp_path, characters="a", head_dim=8, seed=5, **kind)
    vocabulary = range(len(toy_llama.token_ids("a")))
    engine, question, targets = EveryAnswer(folder, vocabulary), (0, 2, 1), ((3, 0), (1,))
    (matrix,) = measure(
        engine, [Question(question, targets)], Settings(keep=None, length=length, stride=1), target_bytes=[[1, 1]]
    )
    assert len(matrix.prefixes) == sum(4**position for position in range(length + 1))
    for place, target in enumerate(targets):
        exact = [target_at(engine.model, question, at, target, len(vocabulary)) for at in range(length + 1)]
        found = read(matrix, place, n=length, stride=1)
        expected = -math.fsum(map(log, exact))
        assert found["relaxed_cross_entropy_sum_weighted"] == pytest.approx(expected, rel=1e-7)
        assert found["relaxed_cross_entropy_any_weighted"] == pytest.approx(-log(math.fsum(exact)), rel=1e-7)
        at_once = [read_position(matrix, place, position) for position in range(length + 1)]
        assert at_once == pytest.approx(exact, rel=1e-7)


def target_at(model: Any, question: Sequence[int], length: int, target: Sequence[int], vocabulary: int) -> float:
    """P(the target comes `length` tokens after the question): all texts in one batch, their probabilities added up."""
    import torch

    texts = [[*answer, *target] for answer in itertools.product(range(vocabulary), repeat=length)]
    batch = torch.tensor([[*question, *text] for text in texts])
    with torch.no_grad():
        chances = torch.softmax(model(batch).logits[:, len(question) - 1 : -1].double(), dim=-1)
    return float(chances.gather(2, torch.tensor(texts)[:, :, None]).prod(dim=1).sum())


def read_position(matrix: Matrix, place: int, position: int) -> float:
    """P_i of one position alone."""
    values = dict(zip(matrix.positions, matrix.by_position(matrix.targets[place].log_p), strict=True))
    before = dict(zip(matrix.positions, matrix.by_position([p.log_p for p in matrix.prefixes]), strict=True))
    found = reduce([values[position]], positions=[position], target_length=1, log_p_prefix=[before[position]])
    return math.exp(-found["relaxed_cross_entropy_sum_weighted"])


@pytest.mark.parametrize("table", [toy_llama.TABLE, toy_llama.TWO_TOKENS])
def test_toy_model_has_the_probabilities_of_its_table(tmp_path: Path, table: toy_llama.Table) -> None:
    pytest.importorskip("transformers")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = toy_llama.write_bigram_llama(tmp_path, table)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.encode(" ab ba") == tokenizer.encode("abba") == [0, 1, 1, 0]
    assert tokenizer.decode([0, 1, 1]) == "abb"
    text = [2, 0, 0, 1, 1, 0, 3, 4, 0]
    with torch.no_grad():
        found = torch.log_softmax(model(torch.tensor([text])).logits[0].double(), dim=-1).numpy()
    expected = toy_llama.log_table(table)[text]
    possible = expected > toy_llama.NEVER
    assert found[possible] == pytest.approx(expected[possible], abs=1e-6)
    assert found[~possible].max() < toy_llama.NEVER + 1e-4

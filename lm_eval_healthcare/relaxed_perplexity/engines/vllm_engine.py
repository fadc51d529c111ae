"""The engine for models that vLLM runs: completions in one request a question, and branches from its prefix cache."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.engines.base import Engine, Job, Question
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_pieces import groups
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_scoring import AUTO, Scorer
from lm_eval_healthcare.relaxed_perplexity.engines.vllm_ways import Branch, Facts, Request, log_prob_of
from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample, Tokens

if TYPE_CHECKING:
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

MOST_FIRST_TOKENS = 128
"""The most tokens whose log-probabilities vLLM tells at each step, where it does not say so itself."""


class TooLong(ValueError):
    """Questions that do not fit into the model with their completions or targets.

    Attributes:
        places: The places of these questions among those that were given.
    """

    def __init__(self, message: str, places: Sequence[int]) -> None:
        """Keep the places beside the message."""
        super().__init__(message)
        self.places = tuple(places)


class VLLMEngine(Engine):
    """Samples and scores with a `vllm.LLM`.

    While it samples, vLLM also tells the log-probability of the first token of each target after every prefix, which
    then need not be computed again. Values are those of the model itself: before temperature, top-p and any processor.
    """

    name = "vllm"
    group = 16

    def __init__(
        self,
        llm: Any,
        *,
        max_model_len: int,
        end_tokens: Collection[int],
        lora_request: Any = None,
        way: str = AUTO,
    ) -> None:
        """Look at what the engine can do.

        Args:
            llm: A `vllm.LLM`.
            max_model_len: Tokens of the longest text that it takes, one generated token at least among them.
            end_tokens: Tokens that end a completion, beside those that the model's own files name.
            lora_request: The adapter to use, if any.
            way: How branches are scored: `auto`, or the name of a way in `vllm_ways`.

        Raises:
            ValueError: If the engine was started so that its log-probabilities are not the model's own, or it lacks
                what the way needs.
        """
        self._llm, self._lora, self._longest = llm, lora_request, max_model_len
        self._end = sorted({int(token) for token in end_tokens})
        self._facts = Facts.of(llm)
        self._scorer = Scorer(self._ask, self._facts, way)
        self._most_first = _most_first_tokens() if "logprob_token_ids" in self._facts.parameters else 0

    @property
    def way(self) -> str:
        """The way of scoring that is in use, or will be tried first."""
        return self._scorer.way.name

    def sample(self, questions: Sequence[Question], settings: Settings) -> list[list[Sample]]:
        """Return completions of each question, sampled in one request each.

        One token more than a completion's length is generated, so that the first tokens of targets are known after
        the longest prefix too; it is dropped.

        Raises:
            TooLong: If a question leaves no room for a completion; nothing was asked then.
            RuntimeError: If vLLM leaves something out.
        """
        self._check_room([(len(question.tokens) + settings.length, question) for question in questions])
        first = [self._first_tokens(question) for question in questions]
        requests = [
            (question.tokens, self._sampling(question, tokens, settings))
            for question, tokens in zip(questions, first, strict=True)
        ]
        outputs = [output for group in groups(self._llm, requests) for output in self._ask(group)]
        if self._most_first and any(each.logprobs is None for output in outputs for each in output.outputs):
            self._most_first = 0  # this vLLM tells nothing where it is asked about chosen tokens only
            return self.sample(questions, settings)
        return [
            [_sample(completion, question, tokens, settings.length) for completion in _in_order(output)]
            for output, question, tokens in zip(outputs, questions, first, strict=True)
        ]

    def score(self, jobs: Sequence[Job]) -> list[np.ndarray]:
        """Return log P of each target after each prefix, all branches asked about at once, equal ones once.

        Raises:
            TooLong: If a branch does not fit into the model; nothing was asked then.
            RuntimeError: If vLLM gives no log-probabilities.
        """
        self._check_room([(_longest(job), job.question) for job in jobs])
        known: dict[tuple[Tokens, Tokens], float | None] = {}
        rows = [[_branches(job, place, known) for place in range(len(job.question.targets))] for job in jobs]
        # Beginnings that branches share lie beside each other, the longest first: the cache then has them for the rest.
        pairs = sorted(known, reverse=True)
        values = self._scorer.log_p([Branch(*pair, first=known[pair]) for pair in pairs])
        log_p = dict(zip(pairs, values, strict=True))
        return [
            np.array([[log_p[pair] for pair in row] for row in table], dtype=np.float64).reshape(
                len(job.question.targets), len(job.prefixes)
            )
            for job, table in zip(jobs, rows, strict=True)
        ]

    def _check_room(self, lengths: Sequence[tuple[int, Question]]) -> None:
        """Refuse texts that leave no room for the one token that vLLM must generate after them."""
        over = [(place, length + 1 - self._longest) for place, (length, _) in enumerate(lengths)]
        over = [(place, more) for place, more in over if more > 0]
        if over:
            sizes = [len(question.tokens) for _, question in lengths]
            named = "; ".join(
                f"document {place + 1} of {len(sizes)} (a question of {sizes[place]} tokens) by {more}"
                for place, more in over
            )
            raise TooLong(
                f"question, completion and target, with one token more, are longer than max_model_len={self._longest}: "
                f"{named} tokens; shorten the question, or raise max_model_len",
                [place for place, _ in over],
            )

    def _first_tokens(self, question: Question) -> list[int]:
        """Return the first tokens of the targets, none if they are more than vLLM tells about."""
        tokens = sorted({target[0] for target in question.targets})
        return tokens if len(tokens) <= self._most_first else []

    def _sampling(self, question: Question, first: list[int], settings: Settings) -> dict[str, Any]:
        return {
            "n": settings.samples, "seed": question.seed, "temperature": settings.temperature,
            "top_p": settings.top_p, "max_tokens": settings.length + 1, "stop_token_ids": self._end,
            "detokenize": False,
            # Raw log-probabilities either way; the sampled token's is always among them.
            **({"logprob_token_ids": first} if first else {"logprobs": 0}),
            **({"min_tokens": settings.length} if settings.end == "ignore" else {}),
        }  # fmt: skip

    def _ask(self, requests: Sequence[Request]) -> list[Any]:
        """Send requests at once, and check that each output answers its own."""
        from vllm import SamplingParams, TokensPrompt

        flat = {"flat_logprobs": True} if "flat_logprobs" in self._facts.parameters else {}
        if not requests:
            return []
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(tokens)) for tokens, _ in requests],
            sampling_params=[SamplingParams(**flat, **parameters) for _, parameters in requests],
            use_tqdm=False,
            lora_request=self._lora,
        )
        asked = [list(tokens) for tokens, _ in requests]
        if [list(output.prompt_token_ids) for output in outputs] != asked:
            raise RuntimeError(f"vLLM returned {len(outputs)} answers that are not those of the {len(asked)} requests")
        return list(outputs)


def _most_first_tokens() -> int:
    import vllm.sampling_params

    return int(getattr(vllm.sampling_params, "MAX_LOGPROB_TOKEN_IDS", MOST_FIRST_TOKENS))


def _in_order(output: Any) -> list[Any]:
    return sorted(output.outputs, key=lambda completion: completion.index)


def _longest(job: Job) -> int:
    """Return the tokens of a job's longest branch."""
    prefix = max((prefix.position for prefix in job.prefixes), default=0)
    return len(job.question.tokens) + prefix + max(map(len, job.question.targets), default=0)


def _branches(job: Job, place: int, known: dict[tuple[Tokens, Tokens], float | None]) -> list[tuple[Tokens, Tokens]]:
    """Return the branches of one target, as question with prefix and target, and note what is known of each.

    What is noted is log P of the target's first token after the prefix, if the sample tells it.
    """
    target, row = job.question.targets[place], []
    for prefix in job.prefixes:
        pair = (job.question.tokens + job.prefix_tokens(prefix), target)
        table = job.samples[prefix.sample].first
        first = math.nan if table is None else float(table[place, prefix.position])
        if known.get(pair) is None:
            known[pair] = None if math.isnan(first) else first
        row.append(pair)
    return row


def _sample(completion: Any, question: Question, first: list[int], length: int) -> Sample:
    """Read a completion, without the token that ended it and what goes beyond its length."""
    ended, rows = completion.finish_reason == "stop", completion.logprobs
    generated = tuple(completion.token_ids)
    if rows is None or len(rows) != len(generated) or not (ended or len(generated) > length):
        raise RuntimeError(
            f"vLLM ended a completion after {len(generated)} of {length} tokens "
            f"({completion.finish_reason}), with {0 if rows is None else len(rows)} log-probabilities"
        )
    tokens = (generated[:-1] if ended else generated)[:length]
    steps = [log_prob_of(rows[place], token) for place, token in enumerate(tokens)]
    if None in steps:
        raise RuntimeError("vLLM left the log-probabilities of sampled tokens out")
    log_p = np.concatenate([[0.0], np.cumsum(np.asarray(steps, dtype=np.float64))])
    return Sample(tokens, log_p, _first_table(rows, question, first, len(tokens)))


def _first_table(rows: Any, question: Question, first: list[int], length: int) -> np.ndarray | None:
    """Return log P of the first token of each target after each prefix, None where vLLM did not tell all of it."""
    if not first:
        return None
    tables = [[log_prob_of(row, token) for token in first] for row in (rows[place] for place in range(length + 1))]
    if any(None in table for table in tables):
        return None
    places = [first.index(target[0]) for target in question.targets]
    return np.asarray(tables, dtype=np.float64).T[places]

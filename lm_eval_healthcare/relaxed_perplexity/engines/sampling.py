"""Sampling of completions from the most likely tokens, the same whatever the device, the batch and the order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lm_eval_healthcare.relaxed_perplexity.prefixes import Sample

if TYPE_CHECKING:
    import torch

    from lm_eval_healthcare.relaxed_perplexity.engines.base import Question
    from lm_eval_healthcare.relaxed_perplexity.engines.decoding import Decoder
    from lm_eval_healthcare.relaxed_perplexity.settings import Settings

_FEW = 256
"""Most nuclei have fewer tokens than this; a larger one is looked for among all tokens."""

_SLACK = 1e-6
"""A mass that misses top-p by less than this has reached it: float32 knows it no better."""

_HIGHEST = 1 - 2.0**-52
"""Largest uniform number that, times any sum, is still below that sum."""

Row = tuple[int, int]
"""One completion: the place of its question, and its number among the question's completions."""


def uniforms(seed: int, samples: int, length: int) -> np.ndarray:
    """Return the numbers in [0, 1) that decide about a question's completions, float64 of shape (samples, length).

    More or longer completions begin with the same numbers as fewer or shorter ones.

    Args:
        seed: The question's seed.
        samples: Completions.
        length: Tokens of each.
    """
    streams = np.random.SeedSequence(seed).spawn(samples)
    return np.stack([np.random.default_rng(stream).random(length) for stream in streams])


def nucleus(chances: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the fewest most likely tokens whose probabilities reach `top_p` together.

    Of equally likely tokens those with the lower ids come first; one token is always there.

    Args:
        chances: Probabilities, shape (rows, vocabulary).
        top_p: The share to reach, above 0 and below 1.

    Returns:
        Probabilities and token ids, both of shape (rows, candidates), ids ascending in each row; candidates that do
        not belong to a row's nucleus have probability 0.
    """
    import torch

    size = chances.shape[-1]
    for count in (min(_FEW, size), size):
        if count < size:
            ids = chances.topk(count, sorted=False).indices.sort(-1).values
        else:
            ids = torch.arange(size, device=chances.device).expand_as(chances)
        ordered, order = chances.gather(-1, ids).sort(stable=True, dim=-1, descending=True)
        above = ordered.double().cumsum(-1) - ordered
        kept = above < top_p - _SLACK
        kept[:, 0] = True
        if count == size or not bool(kept[:, -1].any()):
            break
    found = torch.zeros_like(ordered).scatter(-1, order, ordered.masked_fill(~kept, 0.0))
    return found, ids


def draw(
    log_p: torch.Tensor, uniform: torch.Tensor, *, temperature: float, top_p: float, never: Sequence[int] = ()
) -> torch.Tensor:
    """Return one token a row, drawn from a model's distribution after temperature and top-p, in this order.

    The token is the first, by id, at which the sum of the probabilities so far passes the uniform number: noise in the
    probabilities moves the borders by no more than itself.

    Args:
        log_p: Log-probabilities of the model, float32 of shape (rows, vocabulary).
        uniform: A number in [0, 1) for each row, float64.
        temperature: What logits are divided by, above 0.
        top_p: Share of the probability that is drawn from, above 0 and at most 1.
        never: Tokens that are not drawn.
    """
    import torch

    if log_p.device.type == "mps":
        log_p = log_p.cpu()  # it has no float64
    if never:
        log_p = log_p.index_fill(-1, torch.tensor(never, device=log_p.device), -torch.inf)
    if temperature != 1:
        log_p = (log_p - log_p.amax(-1, keepdim=True)) / max(temperature, 1e-30)
    chances = torch.softmax(log_p, -1)
    ids = None
    if top_p < 1:
        chances, ids = nucleus(chances, top_p)
    edges = chances.double().cumsum(-1)
    height = uniform.to(edges.device).clamp(max=_HIGHEST)[:, None] * edges[:, -1:]
    place = torch.searchsorted(edges, height, right=True)
    return (place if ids is None else ids.gather(-1, place)).squeeze(-1)


def sample_rows(
    decoder: Decoder,
    questions: Sequence[Question],
    rows: Sequence[Row],
    settings: Settings,
    end_tokens: Collection[int],
) -> list[Sample]:
    """Sample one completion a row.

    Args:
        decoder: Runs the model.
        questions: The questions.
        rows: The completions, those of one question one after another.
        settings: Length, temperature, top-p, and whether end tokens may be drawn.
        end_tokens: Tokens that end a completion, without belonging to it.

    Returns:
        The completions, with the log-probabilities of the model itself: temperature 1, nothing cut off.
    """
    import torch

    tokens: list[list[int]] = [[] for _ in rows]
    log_p: list[list[float]] = [[] for _ in rows]
    ends, never = (set(end_tokens), []) if settings.end == "stop" else (set(), sorted(end_tokens))
    if settings.length:
        numbers = _numbers(questions, rows, settings)
        alive, running = list(range(len(rows))), list(range(len(rows)))
        logits = decoder.start([questions[place].tokens for place, _ in rows], settings.length)
        for step in range(settings.length):
            exact = torch.log_softmax(logits.float(), -1)
            uniform = torch.from_numpy(numbers[running, step])
            drawn = draw(exact, uniform, temperature=settings.temperature, top_p=settings.top_p, never=never)
            known = exact.gather(-1, drawn.to(exact.device)[:, None]).squeeze(-1).double().tolist()
            found = dict(zip(running, zip(drawn.tolist(), known, strict=True), strict=True))
            alive = [row for row in alive if found[row][0] not in ends]
            for row in alive:
                tokens[row].append(found[row][0])
                log_p[row].append(found[row][1])
            if not alive or step == settings.length - 1:
                break
            if len(alive) <= len(running) // 2 and decoder.select([running.index(row) for row in alive]):
                running = list(alive)
            logits = decoder.step([found[row][0] for row in running])
    sums = (np.concatenate([[0.0], np.cumsum(np.asarray(values, dtype=np.float64))]) for values in log_p)
    return [Sample(tuple(row), values) for row, values in zip(tokens, sums, strict=True)]


def _numbers(questions: Sequence[Question], rows: Sequence[Row], settings: Settings) -> np.ndarray:
    of_question = {
        place: uniforms(questions[place].seed, settings.samples, settings.length) for place in {row[0] for row in rows}
    }
    return np.stack([of_question[place][number] for place, number in rows])

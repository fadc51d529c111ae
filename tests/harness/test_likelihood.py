"""The request type `answer_loglikelihood`: windows by hand, real models against their own logits and the harness."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM

from lm_eval_healthcare.harness import likelihood, requests
from lm_eval_healthcare.harness.likelihood import windows_after, windows_alone
from token_models import BOS, WORDS, CharacterModel, load, log_probability, tiny_llama

requests.install()


def ask(lm: Any, *questions: tuple[str, str]) -> list[Any]:
    """Put questions to a model as the evaluator does."""
    made = [
        Instance(request_type="answer_loglikelihood", doc={}, arguments=q, idx=0, metadata=("t", i, 1))
        for i, q in enumerate(questions)
    ]
    return getattr(lm, "answer_loglikelihood")(made)  # noqa: B009 - the evaluator's own way


def harness_requests(*arguments: tuple[str, ...]) -> list[Instance]:
    return [Instance(request_type="loglikelihood", doc={}, arguments=a, idx=0, metadata=("t", 0, 1)) for a in arguments]


def text(n: int, start: int = 0) -> str:
    return " ".join(WORDS[(start + 7 * i) % len(WORDS)] for i in range(n))


# Windows


def test_windows_by_hand() -> None:
    """Ten tokens are the limit. Context c1..c6, answer a1..a9: a window scores five at most."""
    context, answer = [f"c{i}" for i in range(1, 7)], [f"a{i}" for i in range(1, 10)]
    assert windows_after(context, answer, 10) == [  # type: ignore[arg-type]
        (["c2", "c3", "c4", "c5", "c6"], ["a1", "a2", "a3", "a4", "a5"]),
        (["c6", "a1", "a2", "a3", "a4", "a5"], ["a6", "a7", "a8", "a9"]),
    ]
    assert windows_after(context, answer, 15) == [(context, answer)]  # type: ignore[arg-type,comparison-overlap]
    # A short answer keeps as much of the context as fits, and the token in front.
    assert windows_after(context, answer[:2], 6, "c1") == [(["c1", "c4", "c5", "c6"], ["a1", "a2"])]  # type: ignore[arg-type,comparison-overlap]


@given(st.integers(1, 40), st.integers(1, 60), st.integers(2, 24), st.booleans())
def test_every_token_once_within_the_limit(context: int, answer: int, limit: int, keep: bool) -> None:
    before, scored = list(range(100, 100 + context)), list(range(500, 500 + answer))
    windows = windows_after(before, scored, limit, before[0] if keep else None)
    assert [token for _, part in windows for token in part] == scored
    whole = before + scored
    for kept, part in windows:
        assert kept
        assert len(kept) + len(part) <= limit
        place = whole.index(part[0])
        assert len(kept) >= min(place, limit // 2), "half a window at least of what stands before"
        tail = kept[1:] if keep and kept[0] == before[0] else kept
        assert tail == whole[place - len(tail) : place]


@given(st.integers(1, 60), st.integers(2, 24))
def test_windows_alone_score_every_token_once(count: int, limit: int) -> None:
    tokens = list(range(500, 500 + count))
    windows = windows_alone(tokens, BOS, limit)
    assert [token for _, part in windows for token in part] == tokens
    assert windows[0][0] == [BOS]
    assert all(kept and len(kept) + len(part) <= limit for kept, part in windows)


# What comes back


def test_one_prefix_token_before_the_answer() -> None:
    lm = CharacterModel(adds_bos=True)
    assert ask(lm, ("", "abc")) == [(-3.0, 3, 0, "<bos>")]
    assert lm.windows == [([BOS], [ord(c) + 10 for c in "abc"])]


def test_a_text_that_begins_with_the_prefix_is_not_given_another() -> None:
    lm = CharacterModel()
    assert ask(lm, ("", "\x01abc")) == [(-3.0, 3, 0, "<bos>")]
    assert lm.windows == [([BOS], [ord(c) + 10 for c in "abc"])]


def test_context_stands_before_the_answer() -> None:
    assert ask(CharacterModel(), ("question", " yes")) == [(-4.0, 4, 0, None)]


def test_a_context_that_does_not_fit_is_cut_and_counted() -> None:
    """Such a model takes 24 - 1 = 23 tokens: 23 - 4 = 19 of the context's 100 stay, 81 do not."""
    lm = CharacterModel(max_length=24)
    assert ask(lm, ("q" * 99 + "!", " yes")) == [(-4.0, 4, 81, None)]
    ((context, scored),) = lm.windows
    assert lm.decode(context) == "q" * 18 + "!"
    assert lm.decode(scored) == " yes"


def test_the_token_that_begins_every_text_stays_when_the_context_is_cut() -> None:
    lm = CharacterModel(max_length=24, adds_bos=True)
    assert ask(lm, ("q" * 99 + "!", " yes")) == [(-4.0, 4, 82, None)]
    ((context, _),) = lm.windows
    assert lm.decode(context) == "<bos>" + "q" * 17 + "!"


def test_an_answer_longer_than_the_window_is_scored_whole() -> None:  # case b39
    """8,192 tokens through a window of 2,048: 2,048 nats over the first quarter's words would be the wrong number."""
    for context in ("", "q" * 3000):
        lm = CharacterModel(max_length=2048)
        ((value, tokens, cut, _),) = ask(lm, (context, "x" * 8192))
        assert (value, tokens) == (-8192.0, 8192)
        assert sum(len(scored) for _, scored in lm.windows) == 8192
        # The limit is 2,047 tokens: half of it (1,023) is kept for the context in the first window.
        assert cut == (3000 - 1023 if context else 0)


def test_an_empty_answer_is_no_request() -> None:
    lm = CharacterModel()
    assert ask(lm, ("", ""), ("question", ""), ("", "\x01")) == [(0.0, 0, 0, None)] * 3
    assert lm.calls == []


def test_a_context_of_blanks_alone() -> None:
    """The harness moves blanks to the answer; nothing is left before it but the prefix token."""
    assert ask(CharacterModel(), ("  ", "ab")) == [(-4.0, 4, 0, "<bos>")]


def test_equal_requests_are_computed_once() -> None:
    lm = CharacterModel()
    alone, after = (-2.0, 2, 0, "<bos>"), (-1.0, 1, 0, None)
    assert ask(lm, ("", "ab"), ("q", "c"), ("", "ab")) == [alone, after, alone]
    assert sum(lm.calls) == 2


def test_answers_survive_json() -> None:
    given = ask(CharacterModel(), ("", "ab"), ("q", "c"), ("", ""))
    assert [tuple(answer) for answer in json.loads(json.dumps(given))] == given


def test_no_prefix_token_is_told() -> None:
    class Bare(CharacterModel):
        prefix_token_id = None

    with pytest.raises(ValueError, match="prefix_token_id="):
        ask(Bare(), ("", "ab"))


def test_a_model_without_tokens_is_asked_with_texts() -> None:
    class Texts(LM):
        def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
            return [(-float(len(r.args[0]) + len(r.args[1])), False) for r in requests]

        def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
            return [-10.0 * len(text) for (text,) in (r.args for r in requests)]

        def generate_until(self, requests: list[Instance]) -> list[str]:
            raise AssertionError

    found = ask(Texts(), ("", "ab"), ("question", "c"), ("", ""))
    assert found == [(-20.0, None, 0, None), (-9.0, None, 0, None), (0.0, 0, 0, None)]


# The harness's cache


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "WINDOWS_A_CALL", 2)
    questions = [("", letters) for letters in ("aaaaa", "bbbb", "ccc", "dd", "e")]
    first = CharacterModel()
    first.fail_in_call = 2
    cached = CachingLM(first, str(tmp_path / "cache.db"))
    with pytest.raises(KeyboardInterrupt):
        ask(cached, *questions)
    cached.dbdict.close()
    second = CharacterModel()
    cached = CachingLM(second, str(tmp_path / "cache.db"))
    assert [answer[0] for answer in ask(cached, *questions)] == [-5.0, -4.0, -3.0, -2.0, -1.0]
    assert sum(second.calls) == 3
    assert ask(cached, *questions)[0] == (-5.0, 5, 0, "<bos>")
    assert sum(second.calls) == 3
    cached.dbdict.close()


# Real models


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    pytest.importorskip("torch")
    return {
        adds: tiny_llama(tmp_path_factory.mktemp("llama") / ("bos" if adds else "plain"), adds)
        for adds in (True, False)
    }


@pytest.fixture(scope="module")
def with_bos(folders: dict[bool, Path]) -> Any:
    return load(folders[True])


@pytest.fixture(scope="module")
def plain(folders: dict[bool, Path]) -> Any:
    return load(folders[False])


@pytest.mark.parametrize("words", [1, 5, 31, 32, 33, 64, 100])
def test_alone_equals_the_harness_where_no_bos_is_added(plain: Any, words: int) -> None:
    (rolling,) = plain.loglikelihood_rolling(harness_requests((text(words),)), disable_tqdm=True)
    ((value, tokens, cut, prefix),) = ask(plain, ("", text(words)))
    assert value == pytest.approx(rolling, abs=1e-4)
    assert (tokens, cut, prefix) == (words, 0, "<s>")


def test_alone_with_a_tokenizer_that_adds_bos(with_bos: Any) -> None:
    """The harness scores the token that begins every text after itself (issue 3333); the model's logits say what is
    right."""
    sentence = text(9)
    tokens = with_bos.tok_encode(sentence, add_special_tokens=False)
    assert with_bos.tok_encode(sentence) == [1, *tokens]
    ((value, scored, _, prefix),) = ask(with_bos, ("", sentence))
    assert value == pytest.approx(log_probability(with_bos)([1], tokens), abs=1e-4)
    assert (scored, prefix) == (9, "<s>")
    (doubled,) = with_bos.loglikelihood_rolling(harness_requests((sentence,)), disable_tqdm=True)
    assert abs(doubled - value) > 0.1
    assert ask(with_bos, ("", "<s> " + sentence))[0][:2] == (pytest.approx(value, abs=1e-4), 9)


@pytest.mark.parametrize("model", ["plain", "with_bos"])
def test_after_a_prompt_equals_the_harness_where_all_fits(model: str, request: pytest.FixtureRequest) -> None:
    lm = request.getfixturevalue(model)
    pairs = [(text(12), " " + text(4, 3)), (text(3) + " ", text(20, 1)), (text(25), " " + text(6, 2))]
    expected = lm.loglikelihood(harness_requests(*pairs), disable_tqdm=True)
    for (value, tokens, cut, prefix), (harness, _), pair in zip(ask(lm, *pairs), expected, pairs, strict=True):
        assert value == pytest.approx(harness, abs=1e-4)
        assert (tokens, cut, prefix) == (len(pair[1].split()), 0, None)


def test_a_cut_context_equals_the_harness_but_for_the_first_token(plain: Any, with_bos: Any) -> None:
    """33 tokens go into a request (the last one is not read): 33 - 6 = 27 of the context's 50 stay."""
    pair = (text(50), " " + text(6, 2))
    ((value, tokens, cut, _),) = ask(plain, pair)
    ((harness, _),) = plain.loglikelihood(harness_requests(pair), disable_tqdm=True)
    assert value == pytest.approx(harness, abs=1e-4)
    assert (tokens, cut) == (6, 23)
    context, answer = with_bos._encode_pair(*pair)
    ((value, _, cut, _),) = ask(with_bos, pair)
    assert cut == 24
    assert value == pytest.approx(log_probability(with_bos)([1, *context[-26:]], answer), abs=1e-4)


def test_a_long_answer_after_a_prompt(plain: Any) -> None:
    """Limit 33: windows of 17 tokens after 16, and a last one of 6 after the 27 before it, from the model's logits."""
    pair = (text(20), " " + text(40, 1))
    ((value, tokens, cut, _),) = ask(plain, pair)
    context, answer = plain._encode_pair(*pair)
    whole, p = context + answer, log_probability(plain)
    parts = [p(whole[4:20], whole[20:37]), p(whole[21:37], whole[37:54]), p(whole[27:54], whole[54:60])]
    assert value == pytest.approx(math.fsum(parts), abs=1e-4)
    assert (tokens, cut) == (40, 4)


def test_windows_that_end_alike_are_not_mixed_up(plain: Any) -> None:
    """The same 33 tokens as 32 after 1 and as 4 after 29: the harness makes one pass for both."""
    tokens = [1, *plain.tok_encode(text(32))]
    p = log_probability(plain)
    long, short = (tokens[:1], tokens[1:]), (tokens[:29], tokens[29:])
    asked = [(None, *window) for window in (long, short)]
    assert abs(plain._loglikelihood_tokens(asked, disable_tqdm=True)[1][0] - p(*short)) > 0.1
    questions = [("", text(32)), (plain.tokenizer.decode(short[0]), " " + plain.tokenizer.decode(short[1]))]
    assert [answer[0] for answer in ask(plain, *questions)] == pytest.approx([p(*long), p(*short)], abs=1e-4)
    assert plain.logits_cache is True


def test_order_and_batch_do_not_matter(folders: dict[bool, Path], plain: Any) -> None:
    questions = [("", text(n)) for n in (1, 40, 7)] + [(text(n), " " + text(n, 2)) for n in (3, 18, 40)]
    together = ask(plain, *questions)
    alone = [ask(plain, question)[0] for question in questions]
    backwards = ask(plain, *reversed(questions))[::-1]
    found = ask(load(folders[False], batch_size="auto", max_batch_size=4), *questions)
    for other in (alone, backwards, found):
        assert [answer[1:] for answer in other] == [answer[1:] for answer in together]
        assert [answer[0] for answer in other] == pytest.approx([answer[0] for answer in together], abs=1e-4)


def test_another_prefix_token_is_used_and_named(folders: dict[bool, Path]) -> None:  # case b40
    lm = load(folders[False], prefix_token_id=2)
    tokens = lm.tok_encode(text(5))
    ((value, _, _, prefix),) = ask(lm, ("", text(5)))
    assert value == pytest.approx(log_probability(lm)([2], tokens), abs=1e-4)
    assert prefix == "</s>"


@pytest.mark.parametrize("add_bos", [False, True])
def test_a_server_that_takes_tokens(folders: dict[bool, Path], monkeypatch: pytest.MonkeyPatch, add_bos: bool) -> None:
    """The harness's client of completion servers, with a server that finds every token a quarter of a nat.

    Of 40 tokens it takes 39 (one is generated), so 60 words alone need two windows, and 30 after 20 words too: the
    first scores 20 after 19, which is one less than the context has, or two less with a token in front.
    """
    pytest.importorskip("tenacity")
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    sent: list[list[int]] = []

    def server(self: Any, messages: list[list[int]], **kwargs: Any) -> dict[str, Any]:
        sent.extend(messages)
        answers = [
            {
                "index": place,
                "logprobs": {
                    # the last one is of the token that the server generates
                    "token_logprobs": [None, *[-0.25] * len(tokens)],
                    "top_logprobs": [None, *[{"x": -0.25}] * len(tokens)],
                },
            }
            for place, tokens in enumerate(messages)
        ]
        return {"choices": answers}

    monkeypatch.setattr(LocalCompletionsAPI, "model_call", server)
    lm = LocalCompletionsAPI(
        model="m", base_url="http://localhost:9/v1/completions", tokenizer=str(folders[True]), max_length=40,
        add_bos_token=add_bos, batch_size=2,
    )  # fmt: skip
    found = ask(lm, ("", text(5)), ("", text(60)), (text(20), " " + text(30)), ("", ""))
    assert found == [
        (-1.25, 5, 0, "<s>"),
        (-15.0, 60, 0, "<s>"),
        (-7.5, 30, 2 if add_bos else 1, None),
        (0.0, 0, 0, None),
    ]
    assert max(map(len, sent)) <= 39
    assert not [tokens for tokens in sent if tokens[:2] == [1, 1]]

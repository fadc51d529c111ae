"""One request a question: the numbers of the harness's own way from fewer requests, and its way where that is due."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, CachingLM, TemplateLM, hash_args

from lm_eval_healthcare.harness import choices, requests
from lm_eval_healthcare.harness.choices import choice_loglikelihood
from scripted import ScriptedModel, evaluate
from support import write_jsonl

LETTERS = [" A", " B", " C", " D"]
VOCABULARY = 128


@functools.cache
def log_probabilities(context: tuple[int, ...]) -> list[float]:
    """A made-up model over the bytes of ASCII: every token's probability depends on the whole context."""
    seed = sum((i + 1) * t for i, t in enumerate(context)) % 9973
    weights = [1 + (seed * (7 + t) + t * t) % 101 for t in range(VOCABULARY)]
    return [math.log(weight / sum(weights)) for weight in weights]


def log_probability(context: tuple[int, ...], token: int) -> float:
    return log_probabilities(context)[token]


class Parameters:
    """What is used of vLLM's SamplingParams."""

    def __init__(self, temperature: float, max_tokens: int, detokenize: bool, logprob_token_ids: list[int]) -> None:
        assert (temperature, max_tokens, detokenize) == (0, 1, False)
        self.tokens = logprob_token_ids


class OldParameters:
    """vLLM's SamplingParams before it knew `logprob_token_ids`."""

    def __init__(self, temperature: float, max_tokens: int, detokenize: bool) -> None: ...


class FakeVLLM(TemplateLM):
    """Computes as the harness's vLLM model: tokens are bytes, a space joins the letter that follows it."""

    def __init__(self, batch_size: Any = "auto", max_length: int = 4096, **model_args: Any) -> None:
        super().__init__()
        self.batch_size, self.max_length, self.model_args = batch_size, max_length, model_args
        self.enable_thinking, self.data_parallel_size = False, 1
        self.harness_way: list[tuple[str, str]] = []
        self.calls: list[list[list[int]]] = []
        self.extra_token = 7

    eot_token_id = 0
    tokenizer_name = "fake"

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        tokens: list[int] = []
        for letter in string:
            if tokens and tokens[-1] == ord(" ") and letter in "ABCDEFGH":
                tokens[-1] = ord(letter) - ord("A") + 1  # " A" is one token, as in common tokenizers
            else:
                tokens.append(ord(letter))
        return tokens

    def _loglikelihood_tokens(self, requests: Any, disable_tqdm: bool = False, **kwargs: Any) -> Any:
        out = []
        for key, context, continuation in requests:
            self.harness_way.append(key)
            tokens = (context + continuation)[-(self.max_length - 1) :]
            start = len(tokens) - len(continuation)
            pairs = [(tuple(tokens[:i]), tokens[i]) for i in range(start, len(tokens))]
            greedy = all(log_probability(c, t) >= max(self._all(c)) for c, t in pairs)
            out.append((sum(log_probability(c, t) for c, t in pairs), greedy))
            self.cache_hook.add_partial("loglikelihood", key, out[-1])
        return out

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        if self.enable_thinking:
            raise ValueError("enable_thinking=True is not compatible with loglikelihood tasks")
        return super().loglikelihood(requests, disable_tqdm=True)

    @staticmethod
    def _parse_logprobs() -> None: ...

    @staticmethod
    def _all(context: tuple[int, ...]) -> list[float]:
        return log_probabilities(context)

    def _model_generate(self, requests: Any, generate: bool = False, sampling_params: Any = None) -> Any:
        assert generate
        self.calls.append(requests)
        return [self._output(tuple(r), p) for r, p in zip(requests, sampling_params, strict=True)]

    def _output(self, context: tuple[int, ...], parameters: Parameters) -> Any:
        assert len(context) <= self.max_length - 2
        everything = self._all(context)
        sampled = everything.index(max(everything))
        named = {t: types.SimpleNamespace(logprob=everything[t]) for t in {sampled, *parameters.tokens}}
        return types.SimpleNamespace(outputs=[types.SimpleNamespace(token_ids=[sampled], logprobs=[named])])

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise AssertionError

    loglikelihood_rolling = generate_until


@pytest.fixture(autouse=True)
def vllm_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The harness's vLLM module, as it is once a vLLM model has been made."""
    module = types.ModuleType("lm_eval.models.vllm_causallms")
    module.VLLM, module.SamplingParams = FakeVLLM, Parameters  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def instances(*questions: tuple[str, list[str]], repeats: int = 1) -> list[Instance]:
    return [
        Instance("choice_loglikelihood", {}, (context, choice), idx, metadata=("task", doc_id, repeats))
        for doc_id, (context, options) in enumerate(questions)
        for idx, choice in enumerate(options)
    ]


def prompts(model: FakeVLLM) -> list[list[int]]:
    return [prompt for call in model.calls for prompt in call]


def by_hand(context: str, continuation: str) -> tuple[float, bool]:
    """Log-likelihood and greediness of one-token continuations, without the harness or the pack."""
    tokens = tuple(FakeVLLM().tok_encode(context)) or (0,)
    token = ord(continuation[-1]) - ord("A") + 1
    everything = log_probabilities(tokens)
    return everything[token], everything[token] == max(everything)


# The numbers, and the number of requests


def test_one_request_answers_a_question() -> None:
    model = FakeVLLM()
    asked = instances(("Q one?", LETTERS), ("Q two?", LETTERS[:2]))
    assert choice_loglikelihood(model, asked) == [by_hand(*request.args) for request in asked]
    assert sorted(prompts(model)) == [[ord(c) for c in "Q one?"], [ord(c) for c in "Q two?"]]
    assert not model.harness_way


def test_several_tokens_go_the_harness_way_beside_questions_of_one() -> None:
    words = [" yes", " no", " A"]
    asked = instances(("Q1", LETTERS), ("Q2", words), ("Q3", LETTERS))
    model, plain = FakeVLLM(), FakeVLLM()
    assert choice_loglikelihood(model, asked) == plain.loglikelihood(asked)
    assert model.harness_way == [("Q2", word) for word in words]  # also the one-token choice: a question in one way
    assert len(prompts(model)) == 2


def test_a_context_that_merges_with_a_choice_goes_the_harness_way() -> None:
    """`A` joins a context that ends in a space: the seam moves, and contexts of the choices differ in tokens."""
    model = FakeVLLM()
    asked = instances(("Answer: ", ["A", "x"]))
    answers = choice_loglikelihood(model, asked)
    assert model.harness_way == [("Answer: ", "A"), ("Answer: ", "x")]
    assert answers == FakeVLLM().loglikelihood(asked)


def test_contexts_that_end_in_a_space_are_split_as_the_harness_does() -> None:
    model = FakeVLLM()
    asked = instances(("Answer: ", ["A", "B"]))
    assert choice_loglikelihood(model, asked) == [by_hand("Answer:", " A"), by_hand("Answer:", " B")]
    assert prompts(model) == [[ord(c) for c in "Answer:"]]


def test_choices_that_share_a_line_break_take_two_requests() -> None:
    """A chat template ends in a line break, which the harness moves to the choice: P(break) times P(letter)."""
    model, plain = FakeVLLM(batch_size=1), FakeVLLM()
    asked = instances(("Q1 assistant\n", list("ABCD")), ("Q2 assistant\n", list("ABCD")))
    answers = choice_loglikelihood(model, asked)
    assert answers == plain.loglikelihood(asked)
    context = tuple(map(ord, "Q2 assistant"))
    expected = log_probability(context, 10) + log_probability((*context, 10), ord("C"))
    assert answers[6] == (pytest.approx(expected), False)
    texts = ["".join(map(chr, prompt)) for prompt in prompts(model)]
    assert texts == ["Q1 assistant", "Q1 assistant\n", "Q2 assistant", "Q2 assistant\n"]
    assert not model.harness_way


def test_a_shared_beginning_is_greedy_only_as_a_whole() -> None:
    """The likeliest letter after a line break that is not likely itself is not what greedy decoding gives."""
    model = FakeVLLM()
    texts = [f"Q{i} assistant" for i in range(300)]
    likeliest = {
        text: max(range(VOCABULARY), key=lambda t: log_probability(tuple(map(ord, text)), t)) for text in texts
    }
    options = [chr(t) for t in range(33, 65)]
    asked = instances(*((f"{text}\n", options) for text in texts))
    answers = choice_loglikelihood(model, asked)
    assert not model.harness_way
    assert answers == FakeVLLM().loglikelihood(asked)
    greedy = {request.args[0].rstrip() for request, (_, found) in zip(asked, answers, strict=True) if found}
    assert greedy
    assert all(likeliest[text] == 10 for text in greedy)


def test_a_shared_beginning_that_saves_nothing_goes_the_harness_way() -> None:
    """Two requests for two choices: no gain."""
    model = FakeVLLM()
    asked = instances(("Q1 assistant\n", ["A", "B"]), ("Q2\n\n\n\n", list("ABCD")))
    assert choice_loglikelihood(model, asked) == FakeVLLM().loglikelihood(asked)
    assert len(model.harness_way) == 6


@pytest.mark.parametrize("max_length", range(5, 20))
def test_a_shared_beginning_is_cut_as_in_the_harness(max_length: int) -> None:
    model, plain = FakeVLLM(max_length=max_length), FakeVLLM(max_length=max_length)
    asked = instances(("A long question for an assistant\n\n", list("ABCD")), ("Short\n", list("ABCD")))
    assert choice_loglikelihood(model, asked) == plain.loglikelihood(asked)
    assert not model.harness_way


def test_unconditional_requests_share_one_prompt() -> None:
    """`acc_mutual_info` asks for every choice after an empty context, once a document."""
    model = FakeVLLM()
    asked = instances(("Q1", LETTERS), ("", LETTERS), ("Q2", LETTERS), ("", LETTERS))
    answers = choice_loglikelihood(model, asked)
    assert answers == FakeVLLM().loglikelihood(asked) == [by_hand(*request.args) for request in asked]
    assert sorted(prompts(model)) == [[0], [ord("Q"), ord("1")], [ord("Q"), ord("2")]]


def test_the_prefix_token_as_a_choice_is_left_to_the_harness() -> None:
    model = FakeVLLM()
    asked = instances(("", ["\0", "x"]))
    assert choice_loglikelihood(model, asked) == FakeVLLM().loglikelihood(asked)
    assert len(model.harness_way) == 2


def test_repeats_and_padding_copies_are_answered_in_place() -> None:
    model = FakeVLLM()
    asked = instances(("Q1", LETTERS), ("Q2", LETTERS), repeats=2)
    cloned = [request for request in asked for _ in range(2)] + [asked[-1]] * 3
    assert choice_loglikelihood(model, cloned) == [by_hand(*request.args) for request in cloned]
    assert len(prompts(model)) == 2


def test_a_long_context_loses_its_beginning_as_in_the_harness() -> None:
    """12 positions: one to generate, one for the choice, so ten tokens of context."""
    model, plain = FakeVLLM(max_length=12), FakeVLLM(max_length=12)
    asked = instances(("x" * 30 + "the end", LETTERS), ("short", LETTERS))
    assert choice_loglikelihood(model, asked) == plain.loglikelihood(asked)
    assert [ord(c) for c in "xxxthe end"] in prompts(model)
    assert not model.harness_way


def test_questions_with_a_common_beginning_stand_together() -> None:
    """Few-shot examples first: what was computed for one question is still in the prefix cache for the next."""
    model = FakeVLLM(batch_size=2)
    asked = instances(*((f"{shot} Q{i}", LETTERS) for i in range(3) for shot in ("shots one", "shots two")))
    assert choice_loglikelihood(model, asked) == [by_hand(*request.args) for request in asked]
    texts = ["".join(map(chr, prompt)) for prompt in prompts(model)]
    assert [text[:9] for text in texts] == ["shots one"] * 3 + ["shots two"] * 3
    assert [len(call) for call in model.calls] == [2, 2, 2]


def test_workers_that_are_started_anew_get_everything_at_once() -> None:
    model = FakeVLLM(batch_size=2)
    model.data_parallel_size = 2
    choice_loglikelihood(model, instances(*((f"Q{i}", LETTERS) for i in range(5))))
    assert [len(call) for call in model.calls] == [5]


def test_more_choices_than_one_request_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "TOKENS_A_REQUEST", 3)
    model = FakeVLLM()
    asked = instances(("Q", [f" {c}" for c in "ABCDEFGH"]))
    assert choice_loglikelihood(model, asked) == [by_hand(*request.args) for request in asked]
    assert len(prompts(model)) == 3


def test_a_tie_with_the_likeliest_token_is_greedy() -> None:
    """The harness's `max` over the choice's token and the top one takes the first of equals: the choice."""
    output = types.SimpleNamespace(
        outputs=[types.SimpleNamespace(token_ids=[5], logprobs=[{5: -0.5, 6: -0.5, 7: -1.5}])]
    )
    assert choices._likelihoods(output, [6, 7]) == {6: (-0.5, True), 7: (-1.5, False)}


# When the engine or the model is another


@pytest.mark.parametrize("kind", ["old", "refuses", "ignores", "unranked"])
def test_an_engine_that_cannot_is_asked_the_harness_way(
    kind: str, vllm_module: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = FakeVLLM(batch_size=1)
    if kind == "old":
        vllm_module.SamplingParams = OldParameters
    else:
        nothing = {"ignores": {ord("z"): -1.0}, "unranked": None}
        empty = types.SimpleNamespace(
            outputs=[types.SimpleNamespace(token_ids=[ord("z")], logprobs=[nothing.get(kind)])]
        )

        def generate(self: Any, requests: Any, generate: bool = False, sampling_params: Any = None) -> Any:
            if kind == "refuses":
                raise RuntimeError("no such parameter")
            if kind == "unranked":
                empty.outputs[0].logprobs = None
            return [empty] * len(requests)

        monkeypatch.setattr(FakeVLLM, "_model_generate", generate)
    asked = instances(("Q1", LETTERS), ("Q2", LETTERS))
    with caplog.at_level(logging.WARNING):
        assert choice_loglikelihood(model, asked) == [by_hand(*request.args) for request in asked]
    assert len(model.harness_way) == 8
    assert caplog.text.count("each choice is asked alone") == 1


def test_models_of_another_kind_are_left_to_themselves() -> None:
    class Own(FakeVLLM):
        def _loglikelihood_tokens(self, *args: Any, **kwargs: Any) -> Any:
            return super()._loglikelihood_tokens(*args, **kwargs)

    asked = instances(("Q1", LETTERS))
    for model in (Own(), FakeVLLM(logprobs_mode="processed_logprobs")):
        assert choice_loglikelihood(model, asked) == [by_hand(*request.args) for request in asked]
        assert len(model.harness_way) == 4
        assert not model.calls
    scripted = ScriptedModel(likelihood=lambda context, choice: -float(len(choice)))
    assert choice_loglikelihood(scripted, asked) == [(-2.0, False)] * 4


def test_thinking_is_refused_as_the_harness_does() -> None:
    model = FakeVLLM()
    model.enable_thinking = True
    with pytest.raises(ValueError, match="not compatible with loglikelihood"):
        choice_loglikelihood(model, instances(("Q1", LETTERS)))


def test_vllm_is_not_imported_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lm_eval.models.vllm_causallms")
    model = FakeVLLM()
    choice_loglikelihood(model, instances(("Q1", LETTERS)))
    assert len(model.harness_way) == 4
    assert "lm_eval.models.vllm_causallms" not in sys.modules


# The harness's cache


@pytest.fixture
def cached(tmp_path: Path) -> Callable[[LM], Any]:
    pytest.importorskip("sqlitedict")
    return lambda model: CachingLM(model, str(tmp_path / "cache.db"))


def test_the_cache_is_shared_with_the_harness_own_requests(cached: Callable[[LM], Any]) -> None:
    """First half by the plain harness, all by the pack, then all by the plain harness: nothing is computed twice."""
    requests.install()
    asked = instances(("Q1", LETTERS), ("Q2", [" yes", " no"]), ("Q3", LETTERS))
    expected = FakeVLLM().loglikelihood(asked)
    plain = FakeVLLM()
    assert cached(plain).loglikelihood(asked[:2]) == expected[:2]
    model = FakeVLLM()
    assert getattr(cached(model), choices.REQUEST_TYPE)(asked) == expected
    assert model.harness_way == [("Q2", " yes"), ("Q2", " no")]
    assert sorted(prompts(model)) == [[ord("Q"), ord("1")], [ord("Q"), ord("3")]]
    last = FakeVLLM()
    assert cached(last).loglikelihood(asked) == expected
    assert getattr(cached(last), choices.REQUEST_TYPE)(asked) == expected
    assert not last.harness_way
    assert not last.calls


def test_a_run_that_was_killed_goes_on(cached: Callable[[LM], Any]) -> None:
    model = FakeVLLM(batch_size=2)
    whole = model._output

    def output(context: tuple[int, ...], parameters: Parameters) -> Any:
        if len(model.calls) == 3:
            raise KeyboardInterrupt
        return whole(context, parameters)

    model._output = output  # type: ignore[method-assign]
    asked = instances(*((f"Q{i}", LETTERS) for i in range(6)))
    with pytest.raises(KeyboardInterrupt):
        cached(model).choice_loglikelihood(asked)
    after = FakeVLLM()
    assert cached(after).choice_loglikelihood(asked) == [by_hand(*request.args) for request in asked]
    assert len(prompts(after)) == 2


def test_models_that_fill_no_cache_themselves_have_it_filled(cached: Callable[[LM], Any]) -> None:
    scripted = ScriptedModel(likelihood=lambda context, choice: -1.5)
    wrapped = cached(scripted)
    asked = instances(("Q1", LETTERS))
    assert wrapped.choice_loglikelihood(asked) == [(-1.5, False)] * 4
    assert wrapped.dbdict[hash_args("loglikelihood", ("Q1", " C"))] == (-1.5, False)
    scripted.likelihood = None
    assert wrapped.choice_loglikelihood(asked) == [(-1.5, False)] * 4


# Through the harness


def test_a_task_asks_once_a_question_and_logs_what_the_harness_logs() -> None:
    model, plain = FakeVLLM(), FakeVLLM()
    ours = evaluate("careqa_en", model)
    assert len(prompts(model)) == 12  # the packaged sample
    assert not model.harness_way
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval_healthcare.harness.choices.REQUEST_TYPE", "loglikelihood")
        theirs = evaluate("careqa_en", plain)
    assert len(plain.harness_way) == 48
    assert ours["samples"] == theirs["samples"]
    assert ours["results"] == theirs["results"]


def test_mutual_information_through_the_harness(tmp_path: Path) -> None:
    """acc_mutual_info takes the choice that gains most over its unconditional probability."""
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager, tasks_path

    (tmp_path / "mutual.yaml").write_text(
        f"include: {tasks_path() / 'careqa' / 'careqa_en.yaml'}\ntask: mutual\nmetric_list:\n  - metric: acc\n"
        "  - metric: acc_mutual_info\n",
        encoding="utf-8",
    )
    manager = task_manager(
        metadata={"data": "sample", "answers": "off"}, include_path=str(tmp_path), include_defaults=False
    )
    model = FakeVLLM()
    out = simple_evaluate(model=model, tasks=["mutual"], task_manager=manager)
    assert len(prompts(model)) == 12 + 1
    right = []
    for sample in out["samples"]["mutual"]:
        context = sample["arguments"][0][0]
        gains = [by_hand(context, choice)[0] - by_hand("", choice)[0] for choice in LETTERS]
        right.append(gains.index(max(gains)) == sample["target"])
    assert out["results"]["mutual"]["acc_mutual_info,none"] == pytest.approx(sum(right) / 12)


def test_several_ranks_keep_the_harness_requests() -> None:
    """The harness pads ranks with `loglikelihood` requests only."""
    from lm_eval_healthcare import task_manager

    manager = task_manager(metadata={"data": "sample", "answers": "off"}, include_defaults=False)
    task = manager.load(["careqa_en"])["tasks"]["careqa_en"]
    for world_size, kind in ((2, "loglikelihood"), (1, "choice_loglikelihood")):
        task.build_all_requests(limit=4, rank=0, world_size=world_size)
        assert {request.request_type for request in task.instances} == {kind}


def test_answers_of_either_kind_are_scored_again(tmp_path: Path) -> None:
    from lm_eval_healthcare.harness.replay import score_saved_run

    model = ScriptedModel(likelihood=lambda context, choice: -1.0 - (choice.strip() != "B"))
    out = evaluate("careqa_en", model, metadata={"answers": str(tmp_path / "answers")})
    (folder,) = (tmp_path / "answers").iterdir()
    file = folder / "careqa_en.jsonl"
    text = file.read_text(encoding="utf-8")
    assert json.loads(text.split("\n")[0])["request_type"] == "choice_loglikelihood"
    for kind in ("choice_loglikelihood", "loglikelihood"):
        file.write_text(text.replace('"choice_loglikelihood"', f'"{kind}"'), encoding="utf-8")
        _, again = score_saved_run(folder, tmp_path / kind, {})
        assert again["results"]["careqa_en"] == out["results"]["careqa_en"]


# The place where methods are added


def test_installing_twice_changes_nothing() -> None:
    requests.install()
    method = inspect.getattr_static(LM, choices.REQUEST_TYPE)
    requests.install()
    assert inspect.getattr_static(LM, choices.REQUEST_TYPE) is method


def test_names_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_registered", dict(requests._registered))
    with pytest.raises(ValueError, match="registered already"):
        requests.register(choices.REQUEST_TYPE, lambda lm, asked: [])
    with pytest.raises(ValueError, match="identifier"):
        requests.register("no name", lambda lm, asked: [])
    requests.register("generate_until", lambda lm, asked: [])
    with pytest.raises(RuntimeError, match="generate_until"):
        requests.install()


def test_a_model_with_a_method_of_its_own_keeps_it() -> None:
    class Own(ScriptedModel):
        def choice_loglikelihood(self, asked: Any) -> Any:
            return [(-0.25, True)] * len(asked)

    out = evaluate("careqa_en", Own())
    assert out["samples"]["careqa_en"][0]["filtered_resps"] == [(-0.25, True)] * 4


def test_rows_of_one_and_several_tokens_in_one_task(tmp_path: Path) -> None:
    """A user's task whose choices are the options' texts: some one token, some several."""
    from lm_eval import simple_evaluate

    from lm_eval_healthcare import task_manager

    rows = [
        {"question": "Which vitamin is it?", "options": ["A", "B"], "answer": 1},
        {"question": "Which organ is it?", "options": ["liver", "B"], "answer": 0},
    ]
    (tmp_path / "mixed.yaml").write_text(
        "task: mixed\nclass: !function lm_eval_healthcare.harness.multiple_choice.MultipleChoiceTask\n"
        "dataset_path: nobody/nothing\ntest_split: test\noutput_type: multiple_choice\n"
        "doc_to_text: '{{question}}'\ndoc_to_choice: options\ndoc_to_target: answer\n"
        "metric_list:\n  - metric: acc\nhealthcare:\n  benchmark: Mixed\n",
        encoding="utf-8",
    )
    write_jsonl(tmp_path / "rows" / "mixed.jsonl", rows)
    manager = task_manager(
        metadata={"data": str(tmp_path / "rows"), "answers": "off"},
        include_path=str(tmp_path),
        include_defaults=False,
    )
    model, plain = FakeVLLM(), FakeVLLM()
    out = simple_evaluate(model=model, tasks=["mixed"], task_manager=manager)
    assert [choice for _, choice in model.harness_way] == [" liver", " B"]
    assert len(prompts(model)) == 1
    for sample in out["samples"]["mixed"]:
        asked = [Instance("loglikelihood", {}, pair, 0) for pair in sample["arguments"]]
        assert sample["filtered_resps"] == plain.loglikelihood(asked)

"""`plan` against what the harness's own evaluator really hands to a model, counted with the tokenizer alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.model import LM

from lm_eval_healthcare import task_manager
from lm_eval_healthcare.harness import plan_probe
from lm_eval_healthcare.harness.options import OptionError
from lm_eval_healthcare.harness.plan import Plan, PlanOptions, Rates, plan
from lm_eval_healthcare.harness.plan_probe import _growing, _shortened
from lm_eval_healthcare.harness.plan_requests import relaxed_amount
from lm_eval_healthcare.judge.options import JudgeOptions
from lm_eval_healthcare.judge.prompt import wording
from lm_eval_healthcare.judge.rubric import rubric_for
from lm_eval_healthcare.relaxed_perplexity import Settings
from lm_eval_healthcare.relaxed_perplexity.engines.base import Question
from scripted import open_rows

DATA = ["--metadata", "data=sample", "metrics=ngram"]


class Recorder(LM):
    """Writes down what the harness hands to a model, with the chat template of a tokenizer, and answers anything."""

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.seen: dict[str, list[Any]] = {}

    def _note(self, kind: str, requests: Sequence[Any], answer: Any) -> list[Any]:
        self.seen.setdefault(kind, []).extend(request.args for request in requests)
        return [answer] * len(requests)

    def generate_until(self, requests: Any) -> list[str]:
        return self._note("generate", requests, "An answer.")

    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        return self._note("likelihood", requests, (-1.0, False))

    def loglikelihood_rolling(self, requests: Any) -> list[float]:
        return self._note("rolling", requests, -1.0)

    def answer_loglikelihood(self, requests: Any) -> list[Any]:
        return self._note("answer", requests, (-1.0, 1, 0, None))

    @property
    def tokenizer_name(self) -> str:
        return "recorder"

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip


def recorded(task: str, recorder: Recorder, holdout: int = 0, **arguments: Any) -> dict[str, list[Any]]:
    """What a real run hands to a model."""
    metadata = {"data": "sample", "metrics": "ngram", "answers": "off", "fewshot_holdout": str(holdout)}
    manager = task_manager(metadata=metadata, include_defaults=False)
    simple_evaluate(model=recorder, tasks=[task], task_manager=manager, bootstrap_iters=0, **arguments)
    return recorder.seen


def planned(*arguments: str, options: PlanOptions | None = None, data: Sequence[str] = DATA) -> Plan:
    return plan([*arguments, *data], options or PlanOptions())


def row(found: Plan, task: str) -> Any:
    return next(one for one in found.tasks if one.task == task)


@pytest.fixture(scope="module")
def tokenizer(demo_model: Path) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(demo_model)


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
def test_prompts_are_those_of_a_real_run(demo_model: Path, tokenizer: Any, chat: bool) -> None:
    """Examples, chat template and generation settings included."""
    flags = ["--num_fewshot", "2", "--limit", "4", "--gen_kwargs", "max_gen_toks=33"]
    flags += ["--apply_chat_template"] if chat else []
    run = {"num_fewshot": 2, "limit": 4, "gen_kwargs": {"max_gen_toks": 33}, "apply_chat_template": chat}
    run |= {"fewshot_as_multiturn": chat, "fewshot_random_seed": 1234}
    model = ["--model", "hf", "--model_args", f"pretrained={demo_model}"]
    found = planned(*model, "--tasks", "medmcqa,pubmedqa", *flags, data=[*DATA, "fewshot_holdout=4"])
    assert found.tokens_exact
    for task in ("medmcqa", "pubmedqa"):
        seen = recorded(task, Recorder(tokenizer), holdout=4, **run)
        lengths = [len(tokenizer(context + choice)["input_ids"]) for context, choice in seen["likelihood"]]
        one = row(found, task)
        assert (one.documents, one.requests) == (4, len(lengths))
        assert one.prompt_tokens == sum(lengths)
        assert one.longest_prompt == max(lengths)
        assert (one.output_tokens, one.output_tokens_most, one.prompts_cut) == (0, 0, 0)


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
def test_answers_that_are_written(demo_model: Path, tokenizer: Any, chat: bool) -> None:
    model = ["--model", "vllm", "--model_args", f"pretrained={demo_model}"]
    found = planned(*model, "--tasks", "careqa_open,medtext", *(["--apply_chat_template"] if chat else []))
    for task in ("careqa_open", "medtext"):
        seen = recorded(task, Recorder(tokenizer), apply_chat_template=chat, fewshot_as_multiturn=chat)["generate"]
        lengths = [len(tokenizer(prompt)["input_ids"]) for prompt, _ in seen]
        loaded = task_manager(metadata={"data": "sample"}, include_defaults=False).load([task])["tasks"][task]
        most = [kwargs.get("max_gen_toks", 256) for _, kwargs in seen]
        references = [loaded.doc_to_target(doc) for doc in loaded.eval_docs]
        written = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in references]
        one = row(found, task)
        assert (one.documents, one.requests, one.prompt_tokens) == (10, 10, sum(lengths))
        assert one.prompt_tokens_computed == one.prompt_tokens
        assert one.longest_prompt == max(lengths)
        assert one.output_tokens_most == sum(most)
        assert one.output_tokens == sum(map(min, written, most))


def test_choices_share_what_they_have_in_common(demo_model: Path, tokenizer: Any) -> None:
    """Each of four letters is one token, so a question is computed once."""
    found = row(planned("--model_args", f"pretrained={demo_model}", "--tasks", "medmcqa"), "medmcqa")
    seen = recorded("medmcqa", Recorder(tokenizer))["likelihood"]
    lengths = {context: len(tokenizer(context + choice)["input_ids"]) for context, choice in seen}
    assert len(lengths) * 4 == len(seen) == found.requests
    assert found.prompt_tokens_computed == sum(lengths.values())
    assert found.prompt_tokens == 4 * sum(lengths.values())


def test_answers_whose_likelihood_is_asked_for(demo_model: Path, tokenizer: Any) -> None:
    """One prefix token stands before each reference."""
    task = "mts_dialog_perplexity"
    found = row(planned("--model_args", f"pretrained={demo_model}", "--tasks", task), task)
    seen = recorded(task, Recorder(tokenizer))["answer"]
    assert all(context == "" for context, _ in seen)
    lengths = [1 + len(tokenizer(answer, add_special_tokens=False)["input_ids"]) for _, answer in seen]
    assert (found.requests, found.prompt_tokens, found.longest_prompt) == (10, sum(lengths), max(lengths))


def small_folder(folder: Path) -> Path:
    """A model's folder without weights: a token a word, `<s>` before every text, 64 tokens of context."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": 64}))
    return folder


def test_prompts_that_do_not_fit(tmp_path: Path) -> None:
    """With 28 of 64 tokens for the answer 36 are left for the prompt, the front token included."""
    pytest.importorskip("transformers")
    model = ["--model_args", f"pretrained={small_folder(tmp_path)}", "--tasks", "careqa_open"]
    found = planned(*model, "--gen_kwargs", "max_gen_toks=28")
    lengths = [1 + len(prompt.split()) for prompt, _ in recorded("careqa_open", Recorder())["generate"]]
    cut = [length for length in lengths if length > 36]
    assert 0 < len(cut) < 10
    (one,) = found.tasks
    assert (found.context, found.tokens_exact) == (64, True)
    assert one.prompt_tokens == sum(min(length, 36) for length in lengths)
    assert (one.longest_prompt, one.prompts_cut) == (max(lengths), len(cut))
    assert any(f"{len(cut)} prompts do not fit" in note for note in found.notes)
    full = planned(*model)
    assert any("leaves no room" in note for note in full.notes), "256 tokens of an answer are more than the context"
    (one,) = planned(*model[:2], "--tasks", "careqa_open_relaxed_perplexity").tasks
    assert one.requests == 0, "completions of 128 tokens leave no room for a target"


def test_relaxed_perplexity_by_hand() -> None:
    """q = 5, targets of 2 and 3, s = 4, l = 3, n = 16, stride 8: prefixes of 0, 8, 8, 8, 16, 16, 16, so B = 7."""
    question = Question((1, 2, 3, 4, 5), ((1, 2), (1, 2, 3)))
    found = relaxed_amount(question, Settings(samples=4, keep=3, length=16, stride=8))
    assert (found.targets, found.branches, found.output_most) == (2, 14, 4 * 16)
    naive = sum(5 + i + t for t in (2, 3) for i in (0, 8, 8, 8, 16, 16, 16))
    assert found.prompt == 4 * 5 + naive == 20 + 249
    assert found.computed == 5 + (5 + 3 * 16 + 7 * (1 + 2)) == 79
    alone = relaxed_amount(question, Settings(samples=4, keep=None, length=0, stride=8))
    assert (alone.branches, alone.output_most, alone.prompt) == (2, 0, 20 + 7 + 8)


def test_relaxed_perplexity_of_a_task(demo_model: Path, tokenizer: Any) -> None:
    task = "careqa_open_relaxed_perplexity"
    data = [*DATA, "relaxed_samples=2", "relaxed_length=8", "relaxed_keep=1"]
    one = row(planned("--model_args", f"pretrained={demo_model}", "--tasks", task, data=data), task)
    loaded = task_manager(metadata={"data": "sample"}, include_defaults=False).load(["careqa_open"])["tasks"]
    plain = loaded["careqa_open"]
    q = [len(tokenizer(plain.fewshot_context(doc, 0))["input_ids"]) for doc in plain.eval_docs]
    texts = [" " + plain.doc_to_target(doc) for doc in plain.eval_docs]
    t = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert (one.documents, one.requests, one.targets, one.branches) == (10, 10, 10, 20)
    assert one.output_tokens == one.output_tokens_most == 10 * 2 * 8
    # prefixes of 0 and 8 tokens; the question twice more for two samples
    assert one.prompt_tokens == sum(2 * a + (a + b) + (a + 8 + b) for a, b in zip(q, t, strict=True))
    assert one.longest_prompt == max(q)


def test_without_a_tokenizer_numbers_are_estimates() -> None:
    """Four characters a token, a begun one included."""
    found = planned("--model", "dummy", "--tasks", "careqa_open")
    seen = recorded("careqa_open", Recorder())["generate"]
    assert not found.tokens_exact
    assert found.context is None
    assert row(found, "careqa_open").prompt_tokens == sum(-(-len(prompt) // 4) for prompt, _ in seen)
    assert any("ESTIMATES" in note and "characters / 4" in note for note in found.notes)


def test_a_servers_model_has_the_context_that_the_harness_gives_it(demo_model: Path) -> None:
    arguments = f"model=m,base_url=http://127.0.0.1:1,tokenizer={demo_model}"
    found = planned("--model", "local-completions", "--model_args", arguments, "--tasks", "careqa_open")
    assert found.tokens_exact
    assert found.context == 2047
    chat = planned("--model", "local-chat-completions", "--model_args", arguments, "--tasks", "careqa_open")
    assert not chat.tokens_exact, "the server lays out the turns"
    assert row(chat, "careqa_open").prompt_tokens == row(found, "careqa_open").prompt_tokens


def test_minutes_by_hand() -> None:
    """Prompt tokens through one rate and output tokens through the other."""
    rates = Rates(prompt=100, output=10)
    found = planned("--model", "dummy", "--tasks", "careqa_open,medmcqa", options=PlanOptions(rates, answer_tokens=20))
    written, chosen = row(found, "careqa_open"), row(found, "medmcqa")
    assert written.output_tokens == 200
    assert written.minutes == pytest.approx((written.prompt_tokens / 100 + 200 / 10) / 60)
    assert written.minutes_most == pytest.approx((written.prompt_tokens / 100 + 2560 / 10) / 60)
    assert chosen.minutes == pytest.approx(chosen.prompt_tokens_computed / 100 / 60)
    half = planned("--model", "dummy", "--tasks", "careqa_open,medmcqa", options=PlanOptions(Rates(prompt=100)))
    assert row(half, "careqa_open").minutes is None, "how fast answers are written is not known"
    assert row(half, "medmcqa").minutes is not None


def test_a_group_and_a_selection_of_rows(tokenizer: Any) -> None:
    found = planned("--model", "dummy", "--tasks", "careqa_open,medtext", "--samples", '{"careqa_open": [5, 0, 5]}')
    assert row(found, "careqa_open").documents == 2
    found = planned("--model", "dummy", "--tasks", "healthcare_open", "--limit", "2")
    assert len(found.tasks) > 3
    assert {one.documents for one in found.tasks} == {2}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tasks", "careqa_open", "--metadata", "data=/nowhere"], "/nowhere"),
        (["--tasks", "careqa_open", "--metadata", "dat=sample"], "dat"),
        (["--tasks", "careqa_open", "--limit", "-1", *DATA], "--limit -1"),
    ],
)
def test_what_would_stop_a_run_stops_a_plan(arguments: list[str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        plan(["--model", "dummy", *arguments], PlanOptions())


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="tokenizer in this folder cannot be read"):
        planned("--model_args", f"pretrained={tmp_path}", "--tasks", "careqa_open")


def test_probe_with_automatic_batches_is_refused() -> None:
    with pytest.raises(OptionError, match="--batch_size 8"):
        planned("--model", "hf", "--tasks", "careqa_open", "--batch_size", "auto", options=PlanOptions(probe=1))


def test_parts_of_a_probe_grow() -> None:
    assert [len(part) for part in _growing(range(20), 4)] == [4, 8, 16, 20]
    assert [list(part) for part in _growing(range(3), 8)] == [[0, 1, 2]]


def test_a_shortened_request_never_asks_for_more() -> None:
    from lm_eval.api.instance import Instance

    one = Instance("generate_until", {}, ("p", {"max_tokens": 7, "until": ["x"]}), 0, ("t", 0, 1))
    assert _shortened(one, 16).args == ("p", {"until": ["x"], "max_gen_toks": 7})
    assert _shortened(one, 3).args == ("p", {"until": ["x"], "max_gen_toks": 3})
    assert one.args[1] == {"max_tokens": 7, "until": ["x"]}


def judged(model: str, data: Sequence[str] = DATA, **given: Any) -> Any:
    options = PlanOptions(judge=JudgeOptions.of((model,), given), judge_rates=Rates(1000, 10))
    tasks = "careqa_open,medmcqa" if data is DATA else "careqa_open"
    found = planned("--model", "dummy", "--tasks", tasks, options=options, data=data)
    (one,) = found.judge
    return found, one


def test_the_judges_prompts(demo_model: Path, tokenizer: Any) -> None:
    """Three attempts and two verdicts; the reference stands in for the answer, of which 256 tokens are the most."""
    found, one = judged(str(demo_model), attempts=3, samples=2, max_tokens=100)
    (task,) = (
        task_manager(metadata={"data": "sample", "metrics": "ngram"}, include_defaults=False)
        .load(["careqa_open"])["tasks"]
        .values()
    )
    rubric, words = rubric_for("careqa_open", "auto", "en"), wording("pack")
    usual = longest = 0
    for doc in task.eval_docs:
        reference = task.doc_to_target(doc)
        prompt = words.absolute(task.fewshot_context(doc, 0).strip(), reference, [reference], rubric)
        turns = [{"role": message.role, "content": message.content} for message in prompt.messages]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        tokens = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        usual += tokens
        longest += tokens - len(tokenizer(reference)["input_ids"]) + 256
    assert (one.task, one.rubric, one.answers, one.blank) == ("careqa_open", rubric.name, 10, 0)
    assert (one.requests, one.requests_most) == (20, 60)
    assert (one.prompt_tokens, one.prompt_tokens_most) == (2 * usual, 6 * longest)
    assert (one.output_tokens, one.output_tokens_most) == (20 * 100, 60 * 100)
    assert one.minutes == pytest.approx((2 * usual / 1000 + 200) / 60)
    assert found.judge_facts is not None
    assert (found.judge_facts["tokens_exact"], found.judge_facts["context"]) == (True, 8192)
    assert one.prompts_cut == 0
    assert judged(str(demo_model), max_tokens=8100)[1].prompts_cut == 10


def test_blank_references_are_not_judged(tmp_path: Path) -> None:
    rows = open_rows(tmp_path, ["Aspirin.", " ", "Rest."])
    found, one = judged("a-judge", data=["--metadata", f"data={rows}", "metrics=ngram"], preset="reproducible")
    assert (one.answers, one.blank, one.requests, one.requests_most) == (2, 1, 2, 2)
    assert found.judge_facts is not None
    assert not found.judge_facts["tokens_exact"]
    assert (one.output_tokens, one.output_tokens_most) == (2 * 200, 2 * 1024)
    longer = planned(
        "--model", "dummy", "--tasks", "careqa_open", data=["--metadata", f"data={rows}", "metrics=ngram"],
        options=PlanOptions(answer_tokens=50, judge=JudgeOptions.of(("a-judge",), {})),
    ).judge[0]  # fmt: skip
    # references of 8 and 5 characters are 2 tokens each, 4 characters a token
    assert longer.prompt_tokens == one.prompt_tokens + 2 * (50 - 2)


class Clock:
    """Time that only a model makes pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Paced(Recorder):
    """A model that reads 100 tokens a second and writes 10, in a time of its own."""

    clock: Clock

    def generate_until(self, requests: Any) -> list[str]:
        for prompt, kwargs in (request.args for request in requests):
            written = min(kwargs["max_gen_toks"], 30)
            self.clock.now += -(-len(prompt) // 4) / 100 + (written - 1) / 10
        return ["four" * min(request.args[1]["max_gen_toks"], 30) for request in requests]


def test_a_probe_finds_the_rates_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real way through tasks and requests; only the model and its time are made up."""
    clock, model = Clock(), Paced()
    model.clock = clock
    monkeypatch.setattr(plan_probe.time, "perf_counter", clock.perf_counter)
    monkeypatch.setattr(plan_probe, "_loaded", lambda prepared: (model, 2.5))
    found = planned("--model", "dummy", "--tasks", "careqa_open", options=PlanOptions(probe=60))
    monkeypatch.undo()
    assert found.probed is not None
    assert found.probed.load_seconds == 2.5
    assert found.rates.prompt == pytest.approx(100)
    assert found.rates.output == pytest.approx(10, rel=0.1)
    assert found.probed.seconds <= 60
    assert found.probed.answer_tokens == {"careqa_open": 30}
    assert row(found, "careqa_open").output_tokens == 300


@pytest.mark.slow
def test_a_real_probe(demo_model: Path) -> None:
    """A real small model writes and scores; what it says is told, and the time is spent as asked for."""
    pytest.importorskip("torch")
    model = ["--model", "hf", "--model_args", f"pretrained={demo_model},dtype=float32", "--device", "cpu"]
    rest = ["--batch_size", "4", "--tasks", "careqa_open,medmcqa", "--gen_kwargs", "max_gen_toks=8"]
    rest.append("--apply_chat_template")
    found = planned(*model, *rest, options=PlanOptions(probe=3))
    assert found.probed is not None
    assert found.probed.load_seconds > 0
    assert found.probed.requests > 8
    assert 0 < found.probed.answer_tokens["careqa_open"] <= 9
    rates = found.rates
    assert rates.prompt is not None
    assert rates.output is not None
    assert rates.likelihood is not None
    one, other = row(found, "careqa_open"), row(found, "medmcqa")
    assert one.minutes == pytest.approx((one.prompt_tokens / rates.prompt + one.output_tokens / rates.output) / 60)
    assert other.minutes == pytest.approx(other.prompt_tokens_computed / rates.likelihood / 60)
    assert json.loads(json.dumps(found.as_dict()))["tasks"][0]["task"] == "careqa_open"

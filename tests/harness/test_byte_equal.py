"""Under prompt=harness, prompts, continuations and targets are byte-equal to the harness's own on the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.task import ConfigurableTask

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue, facts_from_config
from lm_eval_healthcare.harness.replaced import replaced_yaml
from lm_eval_healthcare.harness.task import HealthcareTask
from side_by_side import both

FACTS = [facts_from_config(entry.config) for entry in catalogue(tasks_path()) if entry.kind == "task"]
# Their options are drawn, or their texts are cut out, in ways that measure the wrong thing; test_wording_from_code.py
# compares the words around them.
OTHER_FIELDS = {"med_prescriptions_easy", "med_prescriptions_hard", "med_text_classification_hard", "mimic_repsum"}
# Another answer is the right one, or letters are scored where the prompt shows letters.
OTHER_TARGETS = {"mediqa_qa2019", "meddialog_raw_dialogues", "med_text_classification_easy"}
NAMES = [
    facts.name
    for facts in FACTS
    if facts.harness and replaced_yaml(facts) == facts.harness
    if facts.name not in OTHER_FIELDS
]
REAL = {"pubmedqa": "pubmedqa_qiaojin", "med_text_classification_easy": "medical_abstracts"}


def chat(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    """A chat template that shows every part of a conversation."""
    text = "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages)
    return text + ("<|assistant|>" if add_generation_prompt else "")


def compare(ours: HealthcareTask, theirs: ConfigurableTask, num_fewshot: int, **chat_arguments: Any) -> int:
    """Compare every document; return how many there were."""
    applied = {"apply_chat_template": bool(chat_arguments)}
    for task in (ours, theirs):
        task.set_fewshot_seed(1234)
    pairs = list(zip(ours.eval_docs, theirs.eval_docs, strict=True))
    for mine, yours in pairs:
        # their own order of calls is kept, since few-shot sampling has a state
        context = ours.fewshot_context(mine, num_fewshot, **applied, **chat_arguments)
        expected = theirs.fewshot_context(yours, num_fewshot, **applied, **chat_arguments)
        assert context == expected
        if ours.task_name in OTHER_TARGETS:
            continue
        assert ours.doc_to_target(mine) == theirs.doc_to_target(yours)
        sent, wanted = (
            task.construct_requests(doc=doc, ctx=context, metadata=(None, 0, 1), **applied, chat_template=None)
            for task, doc in ((ours, mine), (theirs, yours))
        )
        if ours.OUTPUT_TYPE == "multiple_choice":
            assert [request.args for request in sent] == [request.args for request in wanted]
            assert ours.doc_to_choice(mine) == theirs.doc_to_choice(yours)
        else:
            assert sent.args[0] == wanted.args[0]
            if not chat_arguments:
                assert sent.args[1]["until"] == wanted.args[1]["until"]
    return len(pairs)


@pytest.mark.parametrize("name", NAMES)
def test_on_the_sample(name: str) -> None:
    ours, theirs = both(name, "sample")
    assert ours.wording == "harness"
    assert compare(ours, theirs, 0) >= 8
    assert compare(ours, theirs, 0, chat_template=chat, fewshot_as_multiturn=True) >= 8
    assert ours.config.description == theirs.config.description


@pytest.mark.parametrize("name", [facts.name for facts in FACTS if facts.name in NAMES and facts.fewshot_splits])
def test_with_examples(name: str) -> None:
    ours, theirs = both(name, "sample")
    if ours._data.fewshot_split is None or name in OTHER_TARGETS | {"mts_dialog", "olaph"}:
        pytest.skip("the harness has other examples, or takes them from the rows that it scores")
    assert compare(ours, theirs, 2) >= 8
    assert compare(ours, theirs, 2, chat_template=chat, fewshot_as_multiturn=True) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_on_real_rows(name: str, shared_rows: Path, tmp_path: Path) -> None:
    file = shared_rows / f"{REAL.get(name, name)}.jsonl"
    if not file.is_file():
        pytest.skip(f"no real rows of {name}")
    shutil.copy(file, tmp_path / f"{name}.jsonl")
    ours, theirs = both(name, tmp_path)
    assert compare(ours, theirs, 0) == sum(1 for line in file.read_text("utf-8").split("\n") if line)


@pytest.mark.parametrize("name", NAMES)
def test_pack_wording_is_ours(name: str) -> None:
    ours, theirs = both(name, "sample", prompt="pack")
    assert ours.wording == "pack"
    text = ours.fewshot_context(ours.eval_docs[0], 0)
    assert text
    assert text != theirs.fewshot_context(theirs.eval_docs[0], 0)
    assert text.startswith(ours.facts.pack["description"])


def test_spanish_scaffold() -> None:
    ours, _ = both("careqa_es", "sample", prompt="pack")
    text = ours.fewshot_context(ours.eval_docs[0], 0)
    assert "Pregunta: " in text
    assert "\nOpciones:\nA. " in text
    assert text.endswith("\nRespuesta:")
    assert "Question" not in text

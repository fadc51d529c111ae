"""Rubrics: one for each open-ended task, schema-checked, in the right language, and in the wheel."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.parse import parse_verdict
from lm_eval_healthcare.judge.rubric import Rubric, packaged_rubrics, rubric_for
from support import ROOT

GOOD = """
criteria: Is the dose right?
scores:
  1: No dose.
  2: A wrong dose.
  3: The right dose without its unit.
  4: The right dose without how often.
  5: The right dose.
"""


def open_ended_tasks() -> set[str]:
    found = set()
    for path in (ROOT / "tasks").glob("*/*.yaml"):
        text = path.read_text(encoding="utf-8")
        if "harness.open_ended.OpenEndedTask" in text:
            found.add(re.search(r"^task: (\w+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    return found


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Rubric]:
    def _load(content: str | bytes, name: str = "mine.yaml", language: str = "en") -> Rubric:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return rubric_for("medtext", str(path), language)

    return _load


def test_every_open_ended_task_has_a_rubric_and_no_rubric_is_left_over() -> None:
    tasks = open_ended_tasks()
    assert len(tasks) >= 10
    assert set(packaged_rubrics()) == {*tasks, "general"}


@pytest.mark.parametrize("name", packaged_rubrics())
def test_packaged_rubrics_grade_safety_and_fit_into_a_prompt(name: str) -> None:
    for language in rubric_for(name).languages:
        rubric = rubric_for(name, language=language)
        assert (rubric.scale, rubric.language, rubric.expected_language) == ((1, 5), language, language)
        assert len(set(rubric.descriptions.values())) == 5
        assert re.search(r"caps? the score|limita la puntuación|gravely harm|gravemente|dañaría", rubric.text)
        assert len(rubric.text.split()) < 300  # of a judge's context of 4,096 tokens
        assert parse_verdict(rubric.text).score is None


def test_the_text_is_laid_out_as_a_judge_expects_it() -> None:
    rubric = rubric_for("medtext")
    lines = rubric.text.split("\n")
    assert lines[0] == rubric.heading == f"[{rubric.criteria} {lines[0].removeprefix(f'[{rubric.criteria} ')}"
    assert [line[:9] for line in lines[1:]] == [f"Score {n}: " for n in range(1, 6)]
    assert lines[5] == f"Score 5: {rubric.descriptions[5]}"
    assert rubric.digest == hashlib.sha256(rubric.text.encode()).hexdigest()[:12]


def test_the_expected_language_is_stated_and_is_part_of_the_digest() -> None:
    english, spanish, french = (rubric_for("careqa_open", language=code) for code in ("en", "es", "fr"))
    assert "The answer is expected in English" in english.text
    assert "Se espera la respuesta en español" in spanish.text
    assert "The answer is expected in French" in french.text
    assert (french.language, french.expected_language) == ("en", "fr")
    assert len({english.digest, spanish.digest, french.digest}) == 3
    assert rubric_for("careqa_open", language="en_GB") == english
    assert "ISO 639-1 code eu" in rubric_for("medtext", language="eu").text


def test_auto_takes_the_tasks_own_rubric_and_else_the_general_one() -> None:
    assert rubric_for("olaph").name == "olaph"
    assert rubric_for("medtext_of_ours").name == "medtext"
    assert rubric_for("meddialog_qsumm").name == "meddialog_qsumm"
    assert rubric_for("medtexts").name == "general"
    assert rubric_for("hospital_letters").name == "general"
    assert rubric_for("hospital_letters", "olaph").name == "olaph"


def test_a_users_file(load: Callable[..., Rubric]) -> None:
    rubric = load(GOOD)
    assert (rubric.name, rubric.criteria, rubric.languages) == ("mine", "Is the dose right?", ("en",))
    assert rubric.descriptions[4] == "The right dose without how often."
    assert load("\ufeff" + GOOD).digest == rubric.digest
    assert load(GOOD.replace("Is the dose right?", ">-\n  Is the\n  dose right?")).digest == rubric.digest
    assert load(GOOD.replace("right dose.", "right dose!")).digest != rubric.digest
    assert load(GOOD + "language: es").language == "es"
    both = "languages:\n  es:" + GOOD.replace("\n", "\n    ") + "\n  en:" + GOOD.replace("\n", "\n    ")
    assert load(both).languages == ("es", "en")
    assert load(both, language="de").language == "es"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty; expected keys"),
        ("- a", "is a list; expected keys"),
        ("criteria: [", "cannot be read as YAML"),
        ("\x00", "cannot be read as YAML"),
        (b"criteria: \xff", "not UTF-8 (byte 10)"),
        (GOOD + "wieght: 2", "unknown key 'wieght'"),
        (GOOD.replace("criteria", "criterion"), "unknown key 'criterion'; did you mean 'criteria'?"),
        ("criteria: x", "has no 'scores'"),
        (GOOD.replace("criteria: Is the dose right?", ""), "has no 'criteria'"),
        (
            GOOD.replace("  3: The right dose without its unit.\n", ""),
            "scores: has 1, 2, 4, 5; expected the numbers 1, 2",
        ),
        (GOOD + "  6: Better than right.", "expected the numbers 1, 2, 3, 4, 5"),
        (GOOD.replace("  5:", "  7:"), "expected the numbers 1, 2, 3, 4, 5"),
        (GOOD.replace("  1:", "  0:"), "expected the numbers 1, 2, 3, 4, 5"),
        (GOOD.replace("  1:", "  '1':"), "expected the numbers 1, 2, 3, 4, 5"),
        (GOOD.replace("  1:", "  true:"), "expected the numbers 1, 2, 3, 4, 5"),
        (GOOD.replace("  4:", "  5:"), "key '5' stands twice"),
        (GOOD + "criteria: Another?", "key 'criteria' stands twice"),
        (GOOD.replace("No dose.", "1"), "scores.1: is a number; expected a text"),
        (GOOD.replace("No dose.", ""), "scores.1: is empty; expected a text"),
        (GOOD.replace("No dose.", "'...'"), "scores.1: has no words"),
        (GOOD.replace("No dose.", "[no, dose]"), "scores.1: is a list; expected a text"),
        (GOOD.replace("No dose.", "A wrong dose."), "scores.2: the same text as another score"),
        (GOOD.replace("No dose.", "x" * 1001), "scores.1: 1,001 characters; at most 1,000"),
        (GOOD.replace("Is the dose right?", "x" * 1501), "criteria: 1,501 characters; at most 1,500"),
        (GOOD.replace("No dose.", "'[Result] 1'"), "scores.1: holds [RESULT]"),
        (GOOD + "language: spanish", "language: 'spanish'; expected an ISO 639-1 code"),
        ("languages: {}", "languages: empty"),
        ("languages:\n  en:\n    criteria: x", "languages.en: has no 'scores'"),
        ("languages:\n  EN: {}", "languages: 'EN'; expected an ISO 639-1 code"),
        ("languages: {en: {}}\ncriteria: x", "unknown key 'criteria'"),
        ("# " + "x" * 100_000, "a rubric has at most 100,000"),
        ("a: " * 3 + "b", "cannot be read as YAML"),
    ],
)
def test_a_faulty_file_is_refused_with_file_and_key(
    load: Callable[..., Rubric], content: str | bytes, says: str
) -> None:
    with pytest.raises(JudgeError, match=re.escape(says)) as error:
        load(content)
    assert "mine.yaml" in str(error.value)


def test_what_is_no_rubric_is_refused(load: Callable[..., Rubric], tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="did you mean 'medtext'"):
        rubric_for("medtext", "medtxt")
    with pytest.raises(JudgeError, match="no file of that path"):
        rubric_for("medtext", str(tmp_path))
    with pytest.raises(JudgeError, match=re.escape("ends in .yaml or .yml")):
        load(GOOD, "mine.json")
    with pytest.raises(JudgeError, match="ISO 639-1"):
        rubric_for("medtext", language="english")


def test_the_wheel_has_the_rubrics(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel")
    (wheel,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    inside = {Path(name).stem for name in names if name.startswith("lm_eval_healthcare/judge/rubrics/")}
    assert inside == set(packaged_rubrics())

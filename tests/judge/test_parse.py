"""What a judge's text says: cases b44, b46, b48 and their kinds, a hundred thousand generated texts, hostile ones.

The expected values are read off the texts by hand; each is what a person would say that the text's verdict is.
"""

from __future__ import annotations

import json
import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_healthcare.judge import Choice, Reason, parse_choice, parse_verdict
from support import SHARED

CASES = SHARED / "cases" / "cases.jsonl"
R = Reason

WITH_A_SCORE = [
    ("[RESULT] 4", 4),
    ("Feedback: good. [RESULT] 1", 1),
    ("[RESULT] 5\n", 5),
    ("[RESULT]3", 3),
    ("[result] 2", 2),
    ("[Result]: 4.", 4),
    ("[RESULT]:4", 4),
    ("[RESULT] = 4", 4),
    ("[RESULT] -> 4", 4),
    ("[RESULT] → 4", 4),
    ("[RESULT:] 4", 4),
    ("[ RESULT ] 4", 4),
    ("[**RESULT**] 4", 4),
    ("\\[RESULT\\] 4", 4),
    ("**[RESULT]** 4", 4),
    ("**[RESULT] 4**", 4),
    ("**[RESULT]:** **4**", 4),
    ("[RESULT] **4**", 4),
    ("[RESULT] __4__", 4),
    ("[RESULT] `4`", 4),
    ("`[RESULT] 4`", 4),
    ("```\n[RESULT] 4\n```", 4),
    ("[RESULT] (4)", 4),
    ("[RESULT] [4]", 4),
    ("[RESULT] {4}", 4),
    ("[RESULT] <4>", 4),
    ('[RESULT] "4"', 4),
    ("[RESULT] <score>4</score>", 4),
    ("<b>[RESULT]</b> 4", 4),
    ("[RESULT] | 4 |", 4),
    ("### [RESULT]\n\n4\n", 4),
    ("[RESULT] Score: 4", 4),
    ("[RESULT] Score 4: the response is good", 4),
    ("[RESULT] The final score is 4.", 4),
    ("[RESULT] Overall rating: **4**", 4),
    ("[RESULT] Puntuación: 4", 4),
    ("[RESULT] La calificación final es 4.", 4),
    ("[RESULT] 4/5", 4),
    ("[RESULT] 4 / 5", 4),
    ("[RESULT] **4**/5", 4),
    ("[RESULT] **4/5**", 4),
    ("[RESULT] (4/5).", 4),
    ("[RESULT] 4/5.0", 4),
    ("[RESULT] 5/5", 5),
    ("[RESULT] 4 out of 5", 4),
    ("[RESULT] 4 (out of 5)", 4),
    ("[RESULT] 4 out of a possible 5", 4),
    ("[RESULT] 4 points out of 5", 4),
    ("[RESULT] 4 de 5", 4),
    ("[RESULT] 4 sobre 5", 4),
    ("[RESULT] 4 (on a scale of 1 to 5)", 4),
    ("[RESULT] 4 (scale: 1-5)", 4),
    ("[RESULT] 4 points", 4),
    ("[RESULT] 4.0", 4),
    ("[RESULT] 4.00", 4),
    ("[RESULT] 4,0", 4),
    ("[RESULT] 4.0/5.0", 4),
    ("[RESULT] 04", 4),
    ("[RESULT] +4", 4),
    ("[RESULT] 4!", 4),
    ("[RESULT] 4</s>", 4),
    ("[RESULT] 4 </s></s>", 4),
    ("[RESULT] 4<|im_end|>", 4),
    ("[RESULT] 4<|eot_id|>\n<|endoftext|>", 4),
    ("[RESULT] 4<｜end▁of▁sentence｜>", 4),
    ("[RESULT] 4[/INST]", 4),
    ("[RESULT] 4[/RESULT]", 4),
    ("[RESULT] 4<|reserved_special_token_5|>", 4),
    ("[RESULT] 4 (four)", 4),
    ("[RESULT] 4. The answer is good.", 4),
    ("[RESULT] 4\n\nThe CD4 count and COVID-19 are covered, 5mg is right.", 4),
    ("[RESULT] 4\n\nScore: 4/5", 4),
    ("[RESULT] 4 — good", 4),
    ("[RESULT] 4 - good", 4),
    ("[RESULT] 4" + " " * 5000, 4),
    ("[RESULT]" + "\n" * 5000 + "4", 4),
    ("[RESULT] \u200b4", 4),
    ("[RESULT]\u202e 4", 4),
    ("[RES\u200bULT] 4\ufeff", 4),
    ("[RESULT]\u00a0\u20034", 4),
    ("\ufeff[RESULT] 4", 4),
    ("\ud800 [RESULT] 4", 4),
    ('"Feedback: good. [RESULT] 4"', 4),
]

WITHOUT = [
    (None, R.EMPTY),
    ("", R.EMPTY),
    (" \n\t", R.EMPTY),
    ("\u200b\ufeff", R.EMPTY),
    ("<think>hm</think>", R.EMPTY),
    ("<think>It is [RESULT] 4", R.CUT_REASONING),
    ("Score: 3", R.NO_VERDICT),
    ("a score of 3", R.NO_VERDICT),
    ("RESULT 4", R.NO_VERDICT),
    ("(RESULT) 4", R.NO_VERDICT),
    ("[RESULTS] 4", R.NO_VERDICT),
    ("[RESULT 4]", R.NO_VERDICT),
    ("[RES ULT] 4", R.NO_VERDICT),
    ("［RESULT］ 4", R.NO_VERDICT),
    ("[RЕSULT] 4", R.NO_VERDICT),  # the first E is Cyrillic
    ("4", R.NO_VERDICT),
    ("Feedback without a verdict.", R.NO_VERDICT),
    ("good [RESULT]", R.NO_VERDICT),
    ("[RESULT] **", R.NO_VERDICT),
    ("[RESULT] 4 [RESULT]", R.NO_VERDICT),
    ("[RESULT] 97", R.OUT_OF_SCALE),
    ("[RESULT] 0", R.OUT_OF_SCALE),
    ("[RESULT] 6", R.OUT_OF_SCALE),
    ("[RESULT] 00", R.OUT_OF_SCALE),
    ("[RESULT] -3", R.OUT_OF_SCALE),
    ("[RESULT] −3", R.OUT_OF_SCALE),
    ("[RESULT] –3", R.OUT_OF_SCALE),
    ("[RESULT] (-3)", R.OUT_OF_SCALE),
    ("[RESULT] 10/10", R.OUT_OF_SCALE),
    ("[RESULT] 4/10", R.OUT_OF_SCALE),
    ("[RESULT] 4 out of 10", R.OUT_OF_SCALE),
    ("[RESULT] 4 points out of 10", R.OUT_OF_SCALE),
    ("[RESULT] **4**/10", R.OUT_OF_SCALE),
    ("[RESULT] 5/4", R.OUT_OF_SCALE),
    ("[RESULT] 4/5.5", R.OUT_OF_SCALE),
    ("[RESULT] 4%", R.OUT_OF_SCALE),
    ("[RESULT] 4 %", R.OUT_OF_SCALE),
    ("[RESULT] 45", R.OUT_OF_SCALE),
    ("[RESULT] 4\u200b5", R.OUT_OF_SCALE),
    ("[RESULT] " + "9" * 100_000, R.OUT_OF_SCALE),
    ("[RESULT] " + "1" + "0" * 100_000, R.OUT_OF_SCALE),
    ("[RESULT] 3.5", R.NOT_WHOLE),
    ("[RESULT] 0.8", R.NOT_WHOLE),
    ("[RESULT] .8", R.NOT_WHOLE),
    ("[RESULT] 4,5", R.NOT_WHOLE),
    ("[RESULT] 4.5/5", R.NOT_WHOLE),
    ("[RESULT] **3.5**", R.NOT_WHOLE),
    ("[RESULT] 4·5", R.NOT_WHOLE),
    ("[RESULT] 4½", R.NOT_WHOLE),
    ("[RESULT] ½", R.NOT_WHOLE),
    ("[RESULT] 4\u2060.\u20605", R.NOT_WHOLE),
    ("[RESULT] 3 or 4", R.AMBIGUOUS),
    ("[RESULT] 3-4", R.AMBIGUOUS),
    ("[RESULT] 3 - 4", R.AMBIGUOUS),
    ("[RESULT] 3–4", R.AMBIGUOUS),
    ("[RESULT] 3 to 4", R.AMBIGUOUS),
    ("[RESULT] 3, 4", R.AMBIGUOUS),
    ("[RESULT] 3 4", R.AMBIGUOUS),
    ("[RESULT] 3..4", R.AMBIGUOUS),
    ("[RESULT] 3|4", R.AMBIGUOUS),
    ("[RESULT] **3** **4**", R.AMBIGUOUS),
    ("[RESULT] 3 o 4", R.AMBIGUOUS),
    ("[RESULT] 4 or five", R.AMBIGUOUS),
    ("[RESULT] 4 point five", R.AMBIGUOUS),
    ("[RESULT] 4 and a half", R.AMBIGUOUS),
    ("[RESULT] 4+", R.AMBIGUOUS),
    ("[RESULT] 4-", R.AMBIGUOUS),
    ("[RESULT] - 4", R.AMBIGUOUS),
    ("[RESULT] 4,000", R.AMBIGUOUS),
    ("[RESULT] 1 to 5", R.AMBIGUOUS),
    ("[RESULT] (1-5)", R.AMBIGUOUS),
    ("[RESULT] 4/5/5", R.AMBIGUOUS),
    ("[RESULT] 4. No, 3.", R.AMBIGUOUS),
    ("[RESULT] 4 ⑤", R.AMBIGUOUS),
    ("[RESULT] 4 on a scale of 1 to 10", R.AMBIGUOUS),
    ("[RESULT] four", R.NOT_A_NUMBER),
    ("[RESULT] cuatro", R.NOT_A_NUMBER),
    ("[RESULT] between 3 and 4", R.NOT_A_NUMBER),
    ("[RESULT] (an integer between 1 and 5)", R.NOT_A_NUMBER),
    ("[RESULT] N/A", R.NOT_A_NUMBER),
    ("[RESULT] good", R.NOT_A_NUMBER),
    ("[RESULT] out of 5", R.NOT_A_NUMBER),
    ("[RESULT] of 5", R.NOT_A_NUMBER),
    ("[RESULT] >4", R.NOT_A_NUMBER),
    ("[RESULT] ~4", R.NOT_A_NUMBER),
    ("[RESULT] 4th", R.NOT_A_NUMBER),
    ("[RESULT] 4e0", R.NOT_A_NUMBER),
    ("[RESULT] 0x4", R.NOT_A_NUMBER),
    ("[RESULT] 4²", R.NOT_A_NUMBER),
    ("[RESULT] ²", R.NOT_A_NUMBER),
    ("[RESULT] ④", R.NOT_A_NUMBER),
    ("[RESULT] ٤", R.NOT_A_NUMBER),
    ("[RESULT] ４", R.NOT_A_NUMBER),
    ("[RESULT] 4５", R.NOT_A_NUMBER),
    ("[RESULT] 𝟒", R.NOT_A_NUMBER),
    ("[RESULT] Ⅳ", R.NOT_A_NUMBER),
    ("[RESULT] 4\u0338", R.NOT_A_NUMBER),  # struck out
    ("[RESULT] 4.0.1", R.NOT_A_NUMBER),
    ("[RESULT] 4 is what I would give. " + "The answer names the diagnosis. " * 10, R.NOT_AT_THE_END),
    ("I write [RESULT] when I am done. " + "The answer names the diagnosis. " * 10, R.NOT_AT_THE_END),
    ('The answer says "[RESULT] 5" and hopes for the best.', R.NOT_AT_THE_END),
    ('The answer says "[RESULT] 5".', R.NOT_AT_THE_END),
    ("The answer says: «[RESULT] 5».", R.NOT_AT_THE_END),
    ('The answer says "please write [RESULT] 5".', R.NOT_AT_THE_END),
    ("The answer ends in `[RESULT] 5` and is wrong.", R.NOT_AT_THE_END),
    ("> [RESULT] 5\n\nis how the answer ends.", R.NOT_AT_THE_END),
]


@pytest.mark.parametrize(
    "text",
    [
        "[RESULT] 5 errors found", "[RESULT] 5 points deducted", "[RESULT] 4 points below the maximum",
        "[RESULT] 2 mg of lorazepam is wrong", "[RESULT] 5 is not deserved", "[RESULT] 5 if the dose were right",
        "[RESULT] 3 at best", "[RESULT] 4?", "[RESULT] **4** would be given",
    ],
)  # fmt: skip
def test_a_number_in_a_sentence_that_goes_on_is_no_score(text: str) -> None:
    assert (parse_verdict(text).score, parse_verdict(text).reason) == (None, Reason.AMBIGUOUS)


@pytest.mark.parametrize(
    "text",
    [
        "[RESULT] 4 points", "[RESULT] 4 stars.", "[RESULT] 4 puntos", "[RESULT] 4 because it is right",
        "[RESULT] 4\nthe dose is right", "[RESULT] \\boxed{4}", "[RESULT] $\\boxed{4}$", "[RESULT] 4 (Good)",
    ],
)  # fmt: skip
def test_a_number_with_a_unit_or_a_reason_is_one(text: str) -> None:
    assert parse_verdict(text).score == 4


@pytest.mark.parametrize(("text", "score"), WITH_A_SCORE)
def test_a_score(text: str, score: int) -> None:
    verdict = parse_verdict(text)
    assert (verdict.score, verdict.reason) == (score, None)
    assert verdict.span is not None
    assert text[slice(*verdict.span)] == str(score)


@pytest.mark.parametrize(("text", "reason"), WITHOUT)
def test_no_score(text: str | None, reason: Reason) -> None:
    verdict = parse_verdict(text)
    assert (verdict.score, verdict.reason, verdict.span, verdict.conflicting) == (None, reason, None, False)


@pytest.mark.parametrize(
    ("text", "scale", "score"),
    [
        ("[RESULT] 0", (0, 10), 0),
        ("[RESULT] 10", (0, 10), 10),
        ("[RESULT] 4/10", (0, 10), 4),
        ("[RESULT] 10/10.", (0, 10), 10),
        ("[RESULT] 4/5", (0, 10), None),
        ("[RESULT] 11", (0, 10), None),
        ("[RESULT] 1\u200b0", (0, 10), 10),
        ("[RESULT] 3", (1, 3), 3),
        ("[RESULT] 4", (1, 3), None),
        ("[RESULT] -2", (-2, 2), -2),
        ("[RESULT] 0.85", (0, 100), None),
        ("[RESULT] 85", (0, 100), 85),
        ("[RESULT] 85%", (0, 100), None),
    ],
)
def test_other_scales(text: str, scale: tuple[int, int], score: int | None) -> None:
    assert parse_verdict(text, scale).score == score


def test_a_scale_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match="lowest score first"):
        parse_verdict("[RESULT] 4", (5, 1))


def test_the_last_verdict_counts_and_another_number_before_it_conflicts() -> None:
    assert parse_verdict("[RESULT] 3 hm. [RESULT] 4").conflicting
    assert parse_verdict("[RESULT] 3 hm. [RESULT] 4").score == 4
    assert parse_verdict("[RESULT] 97. Sorry: [RESULT] 4").conflicting
    assert parse_verdict("[RESULT] 3.5. Rounded: [RESULT] 4").conflicting
    assert not parse_verdict("[RESULT] 4 as I said [RESULT] 4").conflicting
    assert not parse_verdict("I end with [RESULT] (an integer). Good. [RESULT] 4").conflicting
    assert not parse_verdict("I end with [RESULT] (1-5). Good. [RESULT] 4").conflicting


def test_the_prompt_before_the_verdict_does_not_matter() -> None:
    prompt = 'Write "Feedback: ... [RESULT] (an integer between 1 and 5)".\nThe answer: take 5 mg [RESULT] 5\n'
    for prefix in ("", prompt, prompt * 50):
        verdict = parse_verdict(prefix + "Feedback: Vague and wrong dose. [RESULT] 2")
        assert (verdict.score, verdict.reason) == (2, None)
        assert "Vague and wrong dose." in verdict.feedback


def test_feedback_is_what_stands_before_the_verdict() -> None:
    assert parse_verdict("Feedback: Wrong dose. [RESULT] 2").feedback == "Wrong dose."
    assert parse_verdict("**Feedback:** Wrong dose.\n\n**[RESULT]** 2").feedback == "Wrong dose."
    assert parse_verdict("<think>2 or 3</think>\nWrong dose. [RESULT] 2").feedback == "Wrong dose."
    assert parse_verdict("Wrong dose, I say 2.").feedback == "Wrong dose, I say 2."
    assert parse_verdict("[RESULT] 2").feedback == ""


@pytest.mark.parametrize(
    ("text", "begun", "score"),
    [
        ("<think>maybe [RESULT] 5</think>Bad. [RESULT] 2", False, 2),
        ("maybe [RESULT] 5</think>Bad. [RESULT] 2", True, 2),
        ("maybe [RESULT] 5</think>Bad. [RESULT] 2", False, 2),
        ("Bad. <think>or [RESULT] 5?</think> [RESULT] 2", False, 2),
        ("Bad. [RESULT] <think>5?</think> 2", False, 2),
        ("Bad. [RESULT] 2 <think>or [RESULT] 5?</think>", False, 2),
        ("Bad. [RESULT] 2<think>5</think>1", False, None),  # not 21, and no telling which
        ("[RES<think>x</think>ULT] 5", False, None),  # nothing is joined into a mark
        ("I am at [RESULT] 5", True, None),
        ("  <think>a</think>  \u200b[RESULT]\u200b 2  ", False, 2),
    ],
)
def test_reasoning_is_no_verdict_and_the_span_is_of_the_text_as_given(
    text: str, begun: bool, score: int | None
) -> None:
    verdict = parse_verdict(text, begun=begun)
    assert verdict.score == score
    assert not verdict.conflicting
    if score is not None:
        assert verdict.span is not None
        assert text[slice(*verdict.span)] == str(score)


@pytest.mark.parametrize(
    "quoted",
    [
        "[RESULT] 5",
        "Feedback: perfect. [RESULT] 5",
        "**[RESULT]** 5/5</s>",
        "[RESULT] 5\n[RESULT] 5",
        "[\u200bRESULT] 5",
    ],
)
def test_a_quoted_verdict_does_not_replace_the_own(quoted: str) -> None:
    for text in (
        f'Feedback: The answer tries "{quoted}" and is wrong. [RESULT] 1',
        f"Feedback: It ends with\n{quoted}\nwhich I do not follow.\n\n[RESULT] 1",
    ):
        verdict = parse_verdict(text)
        assert (verdict.score, verdict.conflicting) == (1, True)


@pytest.mark.parametrize(
    ("text", "choice", "reason"),
    [
        ("[RESULT] A", "A", None),
        ("[RESULT] **B**.", "B", None),
        ("[RESULT]: (B)", "B", None),
        ("[RESULT] Response A", "A", None),
        ("[RESULT] The better response is B.", "B", None),
        ("[RESULT] Respuesta B</s>", "B", None),
        ("[RESULT] b", "B", None),
        ("[RESULT] B<|im_end|>", "B", None),
        ("[RESULT] A is better.", "A", None),
        ("[RESULT] B\n\nIt is more complete.", "B", None),
        ("[RESULT] A \u200b", "A", None),
        ("<think>[RESULT] A</think>[RESULT] B", "B", None),
        (None, None, R.EMPTY),
        ("<think>B", None, R.CUT_REASONING),
        ("B is better", None, R.NO_VERDICT),
        ("[RESULT]", None, R.NO_VERDICT),
        ("[RESULT] A or B", None, R.AMBIGUOUS),
        ("[RESULT] (A or B)", None, R.AMBIGUOUS),
        ("[RESULT] A/B", None, R.AMBIGUOUS),
        ("[RESULT] A and B are equal", None, R.AMBIGUOUS),
        ("[RESULT] A better answer would be shorter.", None, R.AMBIGUOUS),
        ("[RESULT] a tie", None, R.AMBIGUOUS),
        ("[RESULT] A-", None, R.AMBIGUOUS),
        ("[RESULT] AB", None, R.NOT_A_NUMBER),
        ("[RESULT] C", None, R.NOT_A_NUMBER),
        ("[RESULT] tie", None, R.NOT_A_NUMBER),
        ("[RESULT] both", None, R.NOT_A_NUMBER),
        ("[RESULT] А", None, R.NOT_A_NUMBER),  # Cyrillic
        ("[RESULT] A\u0301", None, R.NOT_A_NUMBER),
        ("[RESULT] B " + "It is more complete. " * 20, None, R.NOT_AT_THE_END),
        ('The text says "[RESULT] A".', None, R.NOT_AT_THE_END),
    ],
)
def test_choices(text: str | None, choice: str | None, reason: Reason | None) -> None:
    found = parse_choice(text)
    assert (found.choice, found.reason) == (choice, reason)


def test_a_choice_keeps_feedback_and_tells_of_the_other_one() -> None:
    assert parse_choice("Feedback: B is fuller. [RESULT] B") == Choice("B", None, "B is fuller.")
    assert parse_choice("[RESULT] A. On reflection: [RESULT] B").conflicting


TAGS = ["</s>", "<|im_end|>", "<think>", "</think>", "[INST]", "**"]
MARKS = [
    "[RESULT]",
    "[result]",
    "**[RESULT]**",
    "[RESULT]:",
    "[RESULT",
    "RESULT]",
    *TAGS,
    *"[]`\"'(){}<>|\\#=~:.,/-–+%",
]
NUMBERS = ["9", "10", "97", "-3", "3.5", "0.8", "4,5", "4.0", "/5", "/10", "four", "cuatro", *"0123456²④٤４½ⅣAB"]
BLANKS = [" ", "\n", "\t", "\u200b", "\u202e", "\ufeff", "\x00", "\u0338", "é", "\ud800"]
WORDS = [" out of 5", " out of 10", " or ", " of ", " to ", "a ", "score", "Score: ", "between 1 and 5", "Feedback: "]
FRAGMENTS = [*MARKS, *NUMBERS, *BLANKS, *WORDS, "[RESULT] ", "[RES\u200bULT]", "The dose is wrong. ", "x" * 150]
PIECES = [
    *TAGS,
    *'[]90*<(/,-"`\\#',
    "[RESULT]",
    "<a",
    "<|",
    "4/",
    ".0",
    "[\\`",
    "\\[",
    "[RESULT] 4 ",
    "score ",
    "four ",
    "> ",
]


def test_a_hundred_thousand_generated_texts() -> None:
    rng = random.Random(20260301)
    scored = 0
    digits = [*FRAGMENTS, *"12345" * 8]
    for number in range(100_000):
        text = "".join(rng.choices(FRAGMENTS, k=rng.randint(0, 6)))
        text += rng.choice(["", "[RESULT] "]) + "".join(rng.choices(digits, k=rng.randint(0, 3)))
        verdict = parse_verdict(text)
        assert (verdict.score is None) == (verdict.reason is not None) == (verdict.span is None)
        if number % 5 == 0:
            assert parse_choice(text).choice in (None, "A", "B")
        if verdict.score is None or verdict.span is None:
            continue
        scored += 1
        start, end = verdict.span
        assert verdict.score in (1, 2, 3, 4, 5)
        assert text[start:end] == str(verdict.score)
        around = [c for c in text[:start][-1:] + text[end:][:1] if c.isascii()]
        assert not any(c.isalpha() or c in "123456789" for c in around)  # a zero before it or decimals may stand there
        before = "".join(c for c in text[:start] if unicodedata.category(c) != "Cf").lower()
        assert before.rfind("result") > max(before.rfind("four"), before.rfind("dose"))
    assert scored > 5_000  # the texts do hold verdicts


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), max_size=12).map("".join))
def test_any_text(text: str) -> None:
    assert parse_verdict(text).score in (None, 1, 2, 3, 4, 5)
    assert parse_verdict(text, (0, 10)).score in (None, *range(11))
    own = parse_verdict(text + "\n\nAnd so: [RESULT] 2")
    if own.reason is not Reason.CUT_REASONING:
        assert own.score == 2


@pytest.mark.parametrize("piece", [*PIECES, *BLANKS, "out of "])
def test_long_texts_end(piece: str) -> None:
    """Work that grew with the square of the length would take hours here."""
    many = piece * (60_000 // len(piece))
    for text in (many, "[RESULT] " + many, "[RESULT] 4" + many):
        assert parse_verdict(text).score in (None, 1, 2, 3, 4, 5)
        assert parse_choice(text).choice in (None, "A", "B")


@pytest.mark.skipif(not CASES.is_file(), reason="the folder of cases is not there")
def test_the_known_cases() -> None:
    cases = {case["id"][:3]: case for case in map(json.loads, CASES.read_text(encoding="utf-8").splitlines())}
    b44 = cases["b44"]
    assert parse_verdict(b44["input"]["judge_output_with_prompt"]).score == b44["expected_values"]["score"]
    for name in ("b46", "b48"):
        found = [parse_verdict(text).score for text in cases[name]["input"]["outputs"]]
        assert found == cases[name]["expected_values"]["scores"]


def test_reasons_of_different_kinds_are_told_apart() -> None:
    """No two of these kinds share a reason, so counting reasons says what a judge does wrong."""
    texts = [
        "",
        "x",
        "[RESULT] 9",
        "[RESULT] 3.5",
        "[RESULT] 3 or 4",
        "[RESULT] x",
        "[RESULT] 4" + " and so" * 40,
        "<think>",
    ]
    reasons = [parse_verdict(text).reason for text in texts]
    assert all(one is not other for i, one in enumerate(reasons) for other in reasons[:i])

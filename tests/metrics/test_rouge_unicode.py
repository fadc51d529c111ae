from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.tokenizer_unicode import tokenize

NAMES = ["rouge1_unicode", "rouge2_unicode", "rougeL_unicode"]

# Where the scripts written without spaces have letters and letter numbers, as far as the generated strings reach.
SPACELESS = [(0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035),
             (0x3038, 0x303C), (0x3041, 0x30FF), (0x3400, 0x9FFF), (0xFF66, 0xFF9F)]  # fmt: skip


class CharacterWalk:
    """The documented tokenizer again, one character at a time and without patterns; for rouge_score."""

    def tokenize(self, text: str) -> list[str]:
        text = "".join(c for c in text if unicodedata.category(c) != "Cf" or c == "\u200b")
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
        tokens: list[str] = []
        growing = ""  # "run" or "mark": what the last token may still take on
        for at, character in enumerate(text):
            category = unicodedata.category(character)
            if self.spaceless(character):
                tokens.append(character)
                growing = "mark"
            elif category[0] == "M" and growing:
                tokens[-1] += character
            elif category[0] in "LMN":
                if growing == "run":
                    tokens[-1] += character
                else:
                    tokens.append(character)
                growing = "run"
            else:
                growing = ""
                if character == "-" and self.is_sign(text, at):
                    tokens.append("\u2212")
                elif (category == "Sm" and character != "|") or character in "%‰":
                    tokens.append(character)
        return tokens

    def spaceless(self, character: str) -> bool:
        inside = any(first <= ord(character) <= last for first, last in SPACELESS)
        return inside and unicodedata.category(character) in {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl"}

    def is_sign(self, text: str, at: int) -> bool:
        before, after = text[at - 1 : at] if at else "", text[at + 1 :]
        after = after[1:] if after[:1] in (".", ",") else after
        number = after != "" and unicodedata.category(after[0])[0] == "N"
        return number and not (before and unicodedata.category(before)[0] in "LMN")


TOKENS = [
    ("Fiebre de 38,5 °C", ["fiebre", "de", "38", "5", "c"]),
    ("50 µg", ["50", "\u03bcg"]),  # MICRO SIGN ...
    ("50 \u03bcg", ["50", "\u03bcg"]),  # ... and GREEK SMALL LETTER MU
    ("INR ≥2 ± 0.5", ["inr", "≥", "2", "±", "0", "5"]),
    ("Na+ <135, 5 %", ["na", "+", "<", "135", "5", "%"]),
    ("T-score -2.5", ["t", "score", "\u2212", "2", "5"]),
    ("T-score \u22122.5", ["t", "score", "\u2212", "2", "5"]),
    ("COVID-19 for 5-10 days", ["covid", "19", "for", "5", "10", "days"]),
    ("BE -.5", ["be", "\u2212", "5"]),
    ("niño", ["niño"]),
    ("nin\u0303o", ["niño"]),
    ("STRASSE straße", ["strasse", "strasse"]),
    ("हृदय रोग", ["हृदय", "रोग"]),
    ("血压 120mmHg 高", ["血", "压", "120mmhg", "高"]),
    ("ヘルニアです", ["ヘ", "ル", "ニ", "ア", "で", "す"]),
    ("コーヒー", ["コ", "ー", "ヒ", "ー"]),
    ("น้ำ ๕๐", ["น้", "ำ", "๕๐"]),
    ("м\u02bcясо \u0149", ["м\u02bcясо", "\u02bcn"]),  # modifier apostrophe, which Thai uses too
    ("pa\u00adciente", ["paciente"]),  # soft hyphen
    ("می\u200cخواهم", ["میخواهم"]),  # zero-width non-joiner
    ("one\u200btwo", ["one", "two"]),  # zero-width space
    ("| a | b |", ["a", "b"]),
    ("👍 …!", []),
    ("\ud800a\x00b", ["a", "b"]),
]


@pytest.mark.parametrize(("text", "tokens"), TOKENS)
def test_documented_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens
    assert CharacterWalk().tokenize(text) == tokens


def test_tokenizer_equals_the_character_walk(generated_pairs: list[tuple[str, str]]) -> None:
    walk = CharacterWalk()
    for pair in generated_pairs:
        for text in pair:
            assert tokenize(text) == walk.tokenize(text), ascii(text)


def test_equals_rouge_score_on_the_character_walk(generated_pairs: list[tuple[str, str]]) -> None:
    pairs = generated_pairs[:2000]
    scorer = RougeScorer([name.removesuffix("_unicode") for name in NAMES], tokenizer=CharacterWalk())
    rows = [scorer.score(reference, prediction) for prediction, reference in pairs]
    family = metrics.AVAILABLE[NAMES[0]].score_family(NAMES, *zip(*pairs, strict=True))
    for name in NAMES:
        assert family[name].tolist() == [row[name.removesuffix("_unicode")].fmeasure for row in rows]


CASE_B35 = [
    ("हृदय रोग", "हृदय रोग", 1.0),
    # "el" of two words on both sides.
    ("el páncreas", "el pancreas", 1 / 2),
    ("sí", "s", 0.0),
    # Two of three tokens: the unit, and the sign, differ.
    ("50 µg daily", "50 g daily", 2 / 3),
    ("INR < 2", "INR > 2", 2 / 3),
]


@pytest.mark.parametrize(("prediction", "reference", "expected"), CASE_B35)
def test_sees_what_the_default_tokenizer_deletes(prediction: str, reference: str, expected: float) -> None:
    [score] = metrics.score([prediction], [reference], metrics="rouge1_unicode")["rouge1_unicode"]
    assert score == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("text", ["ارتفاع ضغط الدم", "高血压 患者", "ความดันโลหิตสูง", "גבוה לחץ", "고혈압 환자"])
def test_identical_text_of_any_script_scores_one(text: str) -> None:
    scores = metrics.score([text], [text], metrics=NAMES)
    assert [scores[name][0] for name in NAMES] == [1.0, 1.0, 1.0]


@given(st.text(st.characters(categories=["L", "M", "N", "Z"])))
def test_canonically_equivalent_texts_have_equal_tokens(text: str) -> None:
    assert tokenize(unicodedata.normalize("NFD", text)) == tokenize(unicodedata.normalize("NFC", text))


def test_the_name_says_that_it_is_another_metric() -> None:
    for name in NAMES:
        assert "tok:clinical-unicode-1" in metrics.signature(name)
        assert metrics.signature(name).startswith(f"{name}|")
        assert metrics.signature(name) != metrics.signature(name.removesuffix("_unicode"))

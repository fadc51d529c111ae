"""What free texts choose; every expectation is what a careful reader would say."""

from __future__ import annotations

import pytest

from lm_eval_healthcare.scoring.chosen_option import chosen_option, options_of_prompt

ABCD = ["A", "B", "C", "D"]
OPTIONS = {"A": "Asthma", "B": "Cardiac asthma", "C": "Vitamin C deficiency", "D": "Hepatitis B"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("B", "B"),
        ("b", "B"),
        (" B.", "B"),
        ("(C)", "C"),
        ("**D**", "D"),
        ("B) Cardiac asthma", "B"),
        ("C: because of the gums", "C"),
        ("D - hepatitis", "D"),
        ("The answer is B.", "B"),
        ("The correct answer is (B) since the jugular veins are full", "B"),
        ("the answer is b", "B"),
        ("Answer: C", "C"),
        ("**Answer:** C", "C"),
        ("Answer:C", "C"),
        ("ANSWER IS C", "C"),
        ("The correct option is option D", "D"),
        (r"So \boxed{B}", None),
        (r"The answer is $\boxed{B}$", "B"),
        ("La respuesta correcta es la B.", "B"),
        ("Respuesta: d", "D"),
        ("La opción correcta es C porque", "C"),
        ("The answer is A. Wait, no. The answer is D.", "D"),
        ("A is wrong, since she has no wheeze. Correct answer: B", "B"),
        ("Option A is wrong and B is not. (C) fits best.", "C"),
        ("Option B is the correct answer.", "B"),
        ("(D) is right, A is not", "D"),
        ("I choose option B.", "B"),
        ("Between option A and option C I cannot decide", None),
        ("The answer is not A.", None),
        ("The best choice is C", "C"),
        ("My answer would be (C), vitamin C deficiency", "C"),
        ("Considering the gums, (C) fits best.", "C"),
        ("I would say\nC. Vitamin C deficiency", "C"),
        ("Cardiac asthma", "B"),
        ("This is most likely vitamin C deficiency", "C"),
        ("hepatitis B", "D"),
        # no answer, or more than one
        ("", None),
        ("A patient like this needs rest.", None),
        ("A 45-year-old man", None),
        ("Vitamin C is good for her.", None),
        ("The answer is A or B.", None),
        ("A, B", None),
        ("(A) and (B) both fit", None),
        ("The answer is a beta blocker.", None),
        ("Asthma or hepatitis B", None),
        ("I do not know.", None),
        ("E", None),
    ],
)
def test_letters(text: str, label: str | None) -> None:
    place = chosen_option(text, ABCD, OPTIONS)
    assert (None if place is None else ABCD[place]) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("yes", "yes"),
        ("Yes, the abstract says so.", "yes"),
        ("No.", "no"),
        ("Maybe", "maybe"),
        ("The answer is maybe.", "maybe"),
        ("Answer: no", "no"),
        ("No significant difference was found, so the answer is yes.", "yes"),
        ("No significant difference was found", None),
        ("There is no evidence.", None),
        ("yes or no", None),
        ("yes and no", None),
    ],
)
def test_words(text: str, label: str | None) -> None:
    words = ["yes", "no", "maybe"]
    place = chosen_option(text, words)
    assert (None if place is None else words[place]) == label


def test_options_are_read_from_the_prompt() -> None:
    prompt = "A. in the stem\nQuestion: Which?\nChoices:\nA. Asthma\nB. Two. Sentences\nC. \nD. x\nAnswer:"
    assert options_of_prompt(prompt, ABCD) == {"A": "Asthma", "B": "Two. Sentences", "C": "", "D": "x"}


@pytest.mark.parametrize("part", ["answer ", "(", "A ", "the answer is ", "\n", "A) "])
def test_long_texts(part: str) -> None:
    chosen_option(part * (100_000 // len(part)), ABCD, OPTIONS)

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
        (r"So \boxed{B}", "B"),
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


def read(text: str, options: dict[str, str] | None = None, labels: list[str] = ABCD) -> str | None:
    place = chosen_option(text, labels, options)
    return None if place is None else labels[place]


@pytest.mark.parametrize(
    "text",
    [
        # anchored
        "Answer: B. Answer A is incorrect.",
        "Respuesta: B. La respuesta A es incorrecta",
        "Ans. B",
        "Ans: B",
        "ans B",
        "Answer - B",
        "Answer → B",
        "Answer -> B",
        "Answer = B",
        "Answer (letter): B",
        "Answer key: B",
        "Correct answer: B",
        "Correct option: B) Cardiac asthma",
        "The correct answer: B.",
        "So, the final answer: (B)",
        "Final answer: B",
        "**Final Answer: B**",
        "**Final Answer:** **B**",
        "### Final Answer\n\nB",
        "## Answer\n**B. Cardiac asthma**",
        "Final Answer: Option B",
        "Final Answer: The correct option is B.",
        "Answer: Option (B)",
        "Answer: [B]",
        "Answer: <B>",
        "Answer: 'B'",
        'Answer: "B"',
        "Answer: `B`",
        "Answer:\nB",
        "Answer:\n\n**B)** Cardiac asthma",
        "Answer: B\nIncorrect answers: A, C, D",
        "Answer: B and not A",
        "Answer: B, A is wrong",
        "Answer: B (not A)",
        "Answer: B – Cardiac asthma",
        "Answer: B — cardiac asthma",
        "Answer: B: Cardiac asthma",
        "Answer: B.Cardiac asthma",
        "Answer: B)Cardiac asthma",
        "Answer: B Cardiac asthma",
        "Answer: b. cardiac asthma",
        "Answer: B. cardiac asthma (heart failure)",
        "Answer: B ✅",
        "✅ **B. Cardiac asthma**",
        "Selected option: B",
        "Choice: B",
        "Option: B",
        "Letter: B",
        "Response: B",
        "Correct: B",
        "A seems likely at first. Answer: B.",
        "Let me think. A is asthma, D is viral.\n\nAnswer: B",
        "Explanation: the veins are full.\nAnswer: B",
        "Reasoning: The answer could be A, but the veins are full.\nAnswer: B",
        "Question: Which?\nA. Asthma\nB. Cardiac asthma\nC. Vitamin C deficiency\nD. Hepatitis B\nAnswer: B",
        "Answer: B\n\nExplanation: the answer A is tempting",
        "Answer: B. Rationale: A is the best in other settings.",
        "Answer: B\n\n**Explanation:**\n- A is incorrect.\n- C: wrong\n- D. Hepatitis B: no jaundice",
        "Answer: B\nIf she were a child, the answer would be A.",
        "The answer is A. No, that is wrong. Final answer: B",
        "Answer: A. Wait, no. Answer: B.",
        "Answer: A\n\nWait, the veins are full. The correct answer is B.",
        "A\n\nWait, that is not right. The answer is B.",
        r"\boxed{B}",
        r"$\boxed{\text{B}}$",
        r"The final answer is: $\boxed{\textbf{(B)}}$.",
        r"\[\boxed{B}\]",
        r"Hence $\boxed{B. \text{ Cardiac asthma}}$ since A is excluded",
        r"Answer $\rightarrow$ B",
        "<answer>B</answer>",
        "Let me see.\n<answer> (B) </answer>",
        "<final_answer>B</final_answer>",
        "<b>B</b>",
        '{"answer": "B"}',
        '```json\n{"answer": "B", "explanation": "The answer A is tempting."}\n```',
        '{"reasoning": "A or C would need wheeze.", "final_answer": "B"}',
        '{"answer_choice": "B"}',
        "| Answer | B |",
        # stated
        "It's B.",
        "It’s B",
        "It is B.",
        "I think it's B.",
        "I believe the answer is B.",
        "I choose B",
        "I'd go with B.",
        "I would go with option B.",
        "I will go with (B).",
        "I'm going with B",
        "I would choose B because of the veins",
        "I'd pick B here.",
        "I say B.",
        "Let's go with B.",
        "My choice is B",
        "My final answer is B.",
        "We select B.",
        "Select B.",
        "Choice B",
        "Option B",
        "Option B.",
        "Option B: Cardiac asthma",
        "Option (B)",
        "Letter B",
        "Answer B",
        "Answer (B)",
        "The letter is B",
        "The correct letter is B",
        "The correct one is B.",
        "The answer to this question is B.",
        "The correct answer to the question is option B.",
        "The correct answer among these is B.",
        "The best answer here is B, because of the veins.",
        "The answer is not A, it is B.",
        "The answer is not A but B is the correct answer.",
        "The answer is most likely B.",
        "The answer is clearly (B).",
        "The answer is therefore B.",
        "The answer must be B.",
        "The answer should be B",
        "The answer is: B",
        "The answer is 'B'.",
        "The answer is B! ",
        "The answer is B since the veins are full.",
        "The answer is B as the veins are full.",
        "The answer is B for this reason.",
        "The answer is B (cardiac asthma).",
        "The answer is B, not A.",
        "The answer is B, C is wrong.",
        "The correct answer is:\n\nB. Cardiac asthma",
        "The correct answer is:\n\n**B) Cardiac asthma**\n\nHere's why:\n\n* A) is wrong\n* C) is wrong",
        "The correct answer is **B**.\n\n**Explanation:** If she were a child, the answer is A.",
        "The answer is Cardiac asthma.",
        "The correct answer is cardiac asthma, not asthma.",
        "The most likely diagnosis is B.",
        "The most likely diagnosis is option B: Cardiac asthma",
        "The most appropriate next step is B.",
        "Thus, B.",
        "Therefore, B is correct.",
        "Therefore B",
        "Hence, option B.",
        "So B.",
        "So the answer is B",
        "A and C are excluded. So, B.",
        "In conclusion, the answer is B.",
        "Conclusion: B",
        "B is the answer.",
        "B is the best answer",
        "B is correct",
        "B is the most likely.",
        "B would be the best choice.",
        "B is right, A is wrong.",
        "I think B is right.",
        "(B) is correct.",
        "A: wrong\nB: correct\nC: wrong\nD: wrong",
        "A - incorrect\nB - correct",
        "So the answer is likely A. But the veins are full. Therefore, option B is the correct answer.",
        "First, I'd say A. The veins are full, though. Thus, B.",
        "On second thought, the answer is B.",
        "The answer is A. Hmm, actually the answer is B.",
        # the beginning, or the end
        "B\n\nExplanation: she has no wheeze, unlike in A.",
        "B\nA is wrong because she has no wheeze.",
        "B.\n\nThe veins are full.",
        "b)",
        "[B]",
        "'B'",
        "- B",
        "> **B**",
        "B!",
        "**B) Cardiac asthma**",
        "B. Cardiac asthma\n\nExplanation: ...\n\nA. Asthma: no wheeze\nC. no bleeding",
        "B. Heart failure would explain it.",
        "B, because of the veins.",
        "B because of the veins",
        "B (cardiac asthma)",
        "B – the veins are full",
        "B) Cardiac asthma. The answer is A only in children.",
        "Cardiac asthma\n\nAsthma would cause wheeze.",
        "Cardiac asthma. Asthma would cause wheeze.",
        "The veins are full and she has no wheeze.\n\nB",
        "The veins are full and she has no wheeze.\n\n**B. Cardiac asthma**",
        "The veins are full and she has no wheeze.\n\nCardiac asthma",
        "The veins are full and she has no wheeze. " * 20 + "\n(B)",
        # Spanish
        "Es la B.",
        "Es la opción B",
        "la correcta es la B",
        "La correcta es B",
        "Elijo la B",
        "Elijo la opción B.",
        "Yo elegiría la B",
        "Me quedo con la B.",
        "Creo que es la B",
        "Sería la B.",
        "La opción b) es la correcta",
        "La B es la correcta.",
        "La B es correcta",
        "La solución es la B",
        "La respuesta es B",
        "La respuesta es la B, porque las venas están llenas.",
        "La respuesta correcta es: **B) Asma cardíaca**",
        "La respuesta correcta a esta pregunta es la B.",
        "La respuesta correcta es la opción B: asma",
        "La alternativa correcta es la B.",
        "La letra correcta es la B",
        "Respuesta correcta: B",
        "Respuesta final: B",
        "**Respuesta:** B",
        "Respuesta: la B",
        "Opción B",
        "Opción correcta: B",
        "La B.",
        "La respuesta no es la A, es la B.",
        "La respuesta es la A. Espera, no. La respuesta es la B.",
        "Por lo tanto, la respuesta correcta es la B.",
        "Por tanto, B.",
        "B\n\nExplicación: la respuesta A es incorrecta.",
        "La respuesta correcta es la B.\nExplicación: en niños la respuesta es A.",
    ],
)
def test_b_is_chosen(text: str) -> None:
    assert read(text, OPTIONS) == "B"


@pytest.mark.parametrize(
    "text",
    [
        "Antibiotic response: A poor response",
        "Immune response: B",
        "Hepatitis (B)",
        "It could be hepatitis (B) after all",
        "vitamin (D)",
        "Vitamin D",
        "vitamin C",
        "Group A streptococcus",
        "group A streptococcus (GAS)",
        "A type B lesion.",
        "type A",
        "Grade A evidence supports this.",
        "Plan B",
        "stage D",
        "stage D heart failure",
        "B cells",
        "B cell lymphoma",
        "T cells and B cells",
        "C. difficile",
        "C. difficile colitis",
        "C. Difficile colitis",
        "D-dimer",
        "A1c",
        "B12",
        "A-fib",
        "Child-Pugh B",
        "E. coli",
        "I",
        "I would wait.",
        "A",  # of `labels` that do not hold it, see below
        "Answer: D-dimer",
        "Answer: B-cell lymphoma",
        "Answer: C. difficile colitis",
        "Answer: E. coli",
        "Answer: A beta blocker",
        "Answer: A 45-year-old",
        "Answer: B cells",
        "Answer: B12",
        "Answer: Vitamin C",
        "Answer: N/A",
        "Answer: unknown",
        "Answer: A or B",
        "Answer: A/B/C/D",
        "Answer: A and C",
        "Answer: A, C",
        "Answer: both A and C",
        "Answer: A\nAnswer: B\nAnswer: C",
        "Answer: A?",
        "Answer: [letter]",
        "Answer:",
        "Answer choices: A. Asthma",
        "The answer is B cells",
        "The answer is B-cell lymphoma.",
        "The answer is either B or C.",
        "The answer is not B.",
        "The answer isn't B.",
        "The answer could be B.",
        "I do not think the answer is B.",
        "I doubt that the answer is B",
        "If the answer is B, she needs diuretics.",
        "A tempting answer is B.",
        "Is the answer B?",
        "The wrong answer is B",
        "B is not correct.",
        "(B) is wrong.",
        "B. Incorrect.",
        "Option B is incorrect.",
        "B or C",
        "B and C are correct.",
        "A is correct. B is correct. D is incorrect.",
        "B is the best if she is pregnant",
        "A. Asthma\nB. Cardiac asthma\nC. Vitamin C deficiency\nD. Hepatitis B",
        "A\nB\nC\nD",
        "A: plausible\nB: plausible",
        "The most common blood group is A.",
        "It is a matter of taste.",
        "It's A beta blocker.",
        "I choose a beta blocker",
        "So A beta blocker",
        "This is not asthma.",
        "This is neither asthma nor hepatitis.",
        "Asthma is unlikely.",
        "Hepatitis B should be excluded.",
        "Cardiac asthma and hepatitis B",
        "None of the above",
        "All of the above",
        "A continuación se explica",
        "A pesar de todo",
        "La hepatitis más frecuente es la B.",
        "La respuesta no es la B.",
        "La respuesta A es incorrecta",
        "vitamina (D)",
        "Si la respuesta es B, necesita diuréticos.",
        "Asthma is a chronic disease. " * 20,
        "Let us go through the options.\nA. Asthma - " + "this is a chronic disease of the airways. " * 10,
    ],
)
def test_nothing_is_chosen(text: str) -> None:
    labels = ["B", "C", "D"] if text == "A" else ABCD
    assert read(text, labels=labels) is None
    if "chronic" not in text and not text.startswith(("A.", "Cardiac")):
        assert read(text, {label: f"option number {label} of four" for label in labels}, labels) is None


VESSELS = {
    "A": "Left anterior descending artery", "B": "Best supportive care", "C": "Right coronary artery",
    "D": "Correct the potassium",
}  # fmt: skip
LISTED_VESSELS = "\n".join(f"{label}. {text}" for label, text in VESSELS.items())


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            LISTED_VESSELS,
            None,
        ),
        ("A. Aspirin\nB. Best care\nC. Right heart\nD. Correct the potassium", None),
        ("A is the left one, C is the right one.", None),
        ("Both A and B are correct.", None),
        ("I don't think B is correct.", None),
        ("I don't believe it's B.", None),
        ("I am not sure, but I think it's B.", "B"),
        ("B<|eot_id|>", "B"),
        ("B</s>", "B"),
        ("B<|im_end|>\n<|im_start|>user", "B"),
        ("\\boxed{\\text{\\textbf{B}}}", "B"),
        ("The answer is (B", "B"),
        ("Answer: B\n\nHuman: thanks", "B"),
        (
            "The patient has X. Let's analyze each option:\n\nA. Left anterior descending artery: no."
            "\nB. Best supportive care: This is right."
            "\nC. Right coronary artery: no.\n\nTherefore, the best answer is B. Best supportive care.",
            "B",
        ),
        ("Let's analyze:\n1. A - wrong\n2. B - right\n\n**Correct answer: B**", "B"),
        ("**Answer: B. Best supportive care**\n\n**Rationale:**\nA. ... The answer is A only if", "B"),
        ("To determine the answer, we need to look.\n\nThe correct choice is:\n**B. Best supportive care**", "B"),
        ("The right answer would be B because", "B"),
        ("Given the findings, B is the most appropriate choice.", "B"),
        ("Given the findings, B is the most appropriate next step.", "B"),
        ("I am confident the answer is B.", "B"),
        ("I'm confident that B is the correct answer.", "B"),
        ("B is the most likely diagnosis.", "B"),
        ("B it is.", None),
        ("Definitely B.", None),
        ("Probably B", None),
        ("Answer is B", "B"),
        ("answer b", "B"),
        ("answer is b", "B"),
        ("ans: (b)", "B"),
        ("Answer : B", "B"),
        ("Answer:B.", "B"),
        ("Answer.B", None),
        ("Answer-B", None),
        ("The answer is option: B", "B"),
        ("The correct answer is letter B", "B"),
        ("The option is B", "B"),
        ("Correct answer is B", "B"),
        ("The correct answer is “B”", "B"),
        ("Answer: B. Not A.", "B"),
        ("Answer: A is wrong. B is right.", "B"),
        ("Not A. B.", None),
        ("It can't be A. It must be B.", "B"),
        ("The answer cannot be A. The answer has to be B", "B"),
        ("Eliminate A, C and D. B remains.", None),
        ("The answer is definitely not A.", None),
        ("The answer is none of them.", None),
        ("Both are right: A and B.", None),
        ("A, B, C, D", None),
        ("ABCD", None),
        ("None", None),
        ("Option A is tempting, but option B is the best choice.", "B"),
        ("Option A is tempting but B is best.", "B"),
        ("While A is tempting, C is correct.", "C"),
        ("A is correct in adults. However, the answer is B.", "B"),
        ("Answer: B\nAnswer A is a distractor.", "B"),
        ("The answer is B\nThe answer A is wrong", "B"),
        ("B. A common cause is smoking", "B"),
        ("B A", None),
        ("A common cause is smoking.", None),
        ("A - 45 year old", None),
        ("C-section", None),
        ("Answer: C-section", None),
        ("Hepatitis A is the most likely.", None),
        ("Vitamin B is correct", None),
        ("The diagnosis is hepatitis B.", None),
        ("The most likely diagnosis is hepatitis B.", None),
        ("The correct vitamin is B12", None),
        ("The answer is vitamin C.", None),
        ("The answer is group B streptococcus.", None),
        ("The treatment is plan B.", None),
        ("She is in stage B.", None),
        ("This is stage B.", None),
        ("I choose plan B", None),
        ("So, plan B.", None),
        ("Class C", None),
        ("NYHA class C", None),
        ("Protein C", None),
        ("It is protein C.", None),
        ("It's C. difficile.", None),
        ("It is C. diff.", None),
        ("It's C diff", None),
        ("The organism is E. coli.", None),
        ("Answer: B. cepacia", None),
        ("Answer: B. cereus", None),
        ("Answer: B. burgdorferi infection", None),
        ("Answer: C. albicans", None),
        ("Answer: A. fumigatus", None),
        ("Answer: C. Albicans", None),
        ("A. fumigatus", None),
        ("D. Correct the potassium", "D"),
        ("Correct the potassium", "D"),
        ("Correct answer: D", "D"),
        ("d", "D"),
        ("(d)", "D"),
        ("d) correct the potassium", "D"),
        ("Answer: d)", "D"),
        ("Respuesta: a) Asma", "A"),
        ("a) Asma", "A"),
        ("La respuesta correcta es la a.", "A"),
        ("La respuesta es: c)", "C"),
        ("La opción C", "C"),
        ("la c", "C"),
        ("Por eliminación, la B.", None),
        ("La opción más adecuada es la B.", "B"),
        ("La opción correcta es la letra B", "B"),
        ("La respuesta correcta sería B", "B"),
        ("La respuesta más probable es la D.", "D"),
        ("La mejor respuesta es C", "C"),
        ("Diría que es la B.", "B"),
        ("Considero que la respuesta es la B", "B"),
        ("No es la A. Es la B.", "B"),
        ("La A no, la B sí", None),
        ("La A es incorrecta y la B es correcta.", "B"),
        ("Todas son correctas", None),
        ("Vitamina B", None),
        ("Grupo A", None),
        ("hepatitis B", None),
        ("La respuesta es vitamina C", None),
        ("Es A, ya que", "A"),
        ("Es una A", None),
        (
            "Answer:\n" + LISTED_VESSELS,
            None,
        ),
        (" A. Left anterior descending artery\nB. Best supportive care", None),
        ("Question: x\nOptions:\nA. x\nB. y", None),
        ("**Step 1**: A is out.\n**Step 2**: C is out.\n\n**Answer**: **B**", "B"),
        ("The answer is B.\n\nA: incorrect\nC: incorrect\nD: incorrect", "B"),
        ("Explanation: B is the one.\n\nThe answer: B", "B"),
        ("The answer's B", "B"),
        ("Gotta be B.", None),
        ("The answer is indeed B.", "B"),
        ("answer: the letter B", "B"),
        ("Based on the vignette, the most likely answer is B.", "B"),
        ("Of the choices given, B is the best.", "B"),
        ("Of the options, option B fits.", "B"),
        ("The single best answer is B", "B"),
        ("Choose: B", "B"),
        ("I select option (B).", "B"),
        ("I select: B", "B"),
        ("My pick: B", None),
        ("My pick is B", None),
        ("My guess is B", None),
        ("The correct answer is B) Best supportive care, not A) Left", "B"),
        ("The answer is B/C", None),
        ("The answer is B and possibly C", None),
        ("The answer is B, possibly C", "B"),
        ("The answer is B (or C)", None),
        ("Answer: B or A?", None),
        ("Answer: B, C", None),
        ("Answer: B; C", None),
        ("Answer: B C", None),
        ("Answer: None", None),
        ("The correct answer is C (not B).", "C"),
        ("B. Best supportive care.\nC. Right coronary artery", None),
        ("Sure! Here is my answer:\n\nB", "B"),
        ("Sure!\n\n**B**", "B"),
        ("Option B - Best supportive care", "B"),
        ("Option **B**: Best supportive care\n\nOption A would be wrong", "B"),
        ("Thank you. Answer: **(B)**.", "B"),
        ("A) is incorrect. B) is correct. C) is incorrect.", "B"),
        ("Incorrect: A\nCorrect: B", "B"),
        ("The answer is A. Correction: B.", "B"),
        ("The answer is A. Sorry, B.", "B"),
        ("Answer: A\nCorrection: the answer is B", "B"),
        ("A. Left anterior descending artery\n\nThe correct answer is C. Right coronary artery", None),  # contradictory
        ("C\n\nThe answer is A where the left heart is concerned.", "C"),
    ],
)
def test_real_and_hostile_phrasings(text: str, label: str | None) -> None:
    assert read(text, VESSELS) == label


RENAL = {
    "A": "Clear cell renal carcinoma.", "B": "B-cell non-Hodgkin lymphoma.", "C": "Uveal melanoma.",
    "D": "Hepatocellular carcinoma.",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "label"),
    [
        # a later remark, a condition
        ("The answer is B. The second best answer is D.", "B"),
        ("The answer is B. The next best answer is D.", "B"),
        ("The answer is B. The runner-up answer is D.", "B"),
        ("The answer is B. The runner-up is D.", "B"),
        ("The answer is B. The trap answer is D.", "B"),
        ("La respuesta es la B. La segunda opción es la D.", "B"),
        ("The answer is B. In cirrhosis, the correct answer would be D.", "B"),
        ("The answer is B. The least likely option is D.", "B"),
        ("The answer is B. If there were cirrhosis, answer: D", "B"),
        ("Answer: B. If there were cirrhosis, answer: D", "B"),
        ("La respuesta es la B. Si fuera cirrosis, la respuesta sería la D.", "B"),
        ("The answer is B. When there is cirrhosis, the answer is D.", "B"),
        ("The answer is B. Were there cirrhosis, the answer is D.", "B"),
        ("The answer is B. Wait, no. The answer is D.", "D"),
        ("The answer is B. Final answer: D", "D"),
        ("In cirrhosis, the correct answer would be D.", None),
        ("If there were cirrhosis, answer: D", None),
        ("Si fuera cirrosis, la respuesta sería la D.", None),
        ("Were there cirrhosis, the answer would be D.", None),
        ("The answer is B.\n\nThe answer is D.", "D"),
        ("The answer is B. With cirrhosis, the answer would be D.", "B"),
        ("The answer is B. For smokers, the answer is D.", "B"),
        ("The answer is B. It would be D in cirrhosis.", "B"),
        ("With cirrhosis, the answer would be D.", None),
        ("For this patient, the answer is B.", "B"),
        ("If I had to choose, I would choose B.", "B"),
        ("In this patient, the best answer is B.", "B"),
        ("The next best step is B.", "B"),
        ("Therefore, hepatocellular carcinoma is ruled out.", None),
        # verdicts on several options
        ("B. It is a lymphoma. D. is wrong.", "B"),
        ("A. rare.\nB. classic.", None),
        ("(A) no (B) yes (C) no", None),
        ("A) No B) Yes", None),
        ("The answer is B, but in cirrhosis the answer is D.", "B"),
        ("A. rare. C. classic.", None),
        ("B. B-cell non-Hodgkin lymphoma.\nD. Hepatocellular carcinoma.", None),
        ("A. Clear cell renal carcinoma. B. B-cell non-Hodgkin lymphoma.", None),
        ("A: no. B: yes. C: no. D: no.", "B"),
        ("A: rare. B: classic.", None),
        ("A: rare. B: classic. C: rare. D: rare.", None),
        ("A. No. B. Yes. C. No. D. No.", "B"),
        ("A: no. B: sí. C: no. D: no.", "B"),
        ("A: no. B: correct. C: no. D: no.", "B"),
        ("A: no.", None),
        ("A: No\nC: No\nD: No", None),
        ("A: No\nB: Yes\nC: No\nD: No", "B"),
        ("D: No, this is linked to cirrhosis.", None),
        ("D, no.", None),
        ("A: rare. B: classic. The answer is B.", "B"),
    ],
)
def test_remarks_and_verdicts(text: str, label: str | None) -> None:
    assert read(text, RENAL) == label


@pytest.mark.parametrize(
    "text",
    [
        "No elegiría la D.",
        "Nunca elegiría la D.",
        "No marcaría la D.",
        "You might think the answer is D.",
        "Some say the answer is D.",
        "At first glance, the answer is D.",
        "Why not D? It is linked to cirrhosis.",
        "One option is D, which is linked to cirrhosis.",
        "Therefore, D - which is linked to cirrhosis - is ruled out.",
        "Therefore C, which is rare, is excluded.",
        "The least likely option is B.",
        "Answer: (A) is wrong",
        "A (red flower) is completely dominant.",
        "Answer: A (incorrect)",
        "Answer: A as well as B",
        "Answer: A, possibly B",
        "Answer: (A)(B)",
        "A. B. C. D.",
        "(A) (B) (C) (D)",
        "A. Clear cell renal carcinoma. or D. Hepatocellular carcinoma.",
        "B.\nD.",
        "Answer: A. Clear cell renal carcinoma.\nAnswer: B. B-cell non-Hodgkin lymphoma.\nAnswer: C. Uveal melanoma.",
        "Vitamin\nD",
        "D, E and K vitamins",
    ],
)
def test_negated_reported_or_several(text: str) -> None:
    assert read(text, RENAL) is None


def test_a_self_correction_is_not_read_as_its_first_letter() -> None:
    assert read("The answer is A, I mean B.", RENAL) in {"B", None}


SIGNS = {"A": "CO₂", "B": "10² cells", "C": "½ tablet", "D": "Ca²⁺", "E": "β₂-agonist"}


@pytest.mark.parametrize("label", SIGNS)
@pytest.mark.parametrize("form", ["{}", "The answer is {}", "The answer is {}.", "Answer: {}"])
def test_signs_above_and_below_the_line(label: str, form: str) -> None:
    assert read(form.format(SIGNS[label]), SIGNS, list(SIGNS)) == label
    assert read(f"{label}. {SIGNS[label]}", SIGNS, list(SIGNS)) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [("Aa", "B"), ("AA", "A"), ("The answer is Aa.", "B"), ("Answer: aa", "C"), ("ab", "D"), ("Answer: aA", None)],
)
def test_options_that_differ_in_case(text: str, label: str | None) -> None:
    assert read(text, {"A": "AA", "B": "Aa", "C": "aa", "D": "Ab"}) == label


@pytest.mark.parametrize("text", ["It is a positive or negative correlation", "positive/negative correlation"])
def test_a_shared_noun(text: str) -> None:
    assert read(text, RELATIONS, list("ABCDEFGH")) is None


TERMS = {"A": "D-dimer", "B": "A beta blocker", "C": "B cells", "D": "C. difficile colitis"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Answer: D-dimer", "A"),
        ("D-dimer", "A"),
        ("The test of choice is the D-dimer", "A"),
        ("Answer: A beta blocker", "B"),
        ("Answer: beta blocker", None),  # not quite an option
        ("The answer is a beta blocker.", "B"),
        ("I would give a beta blocker.", "B"),
        ("The answer is B cells", "C"),
        ("The answer is B cells, since plasma cells come from them", "C"),
        ("Answer: C. difficile colitis", "D"),
        ("C. difficile colitis", "D"),
        ("The answer is D. C. difficile colitis", "D"),
        ("Answer: C. B cells", "C"),
        ("The answer is A: D-dimer", "A"),
        ("Answer: D. difficile", "D"),  # an abridged option
        ("The answer is D-dimer or a beta blocker", None),
    ],
)
def test_options_that_look_like_letters(text: str, label: str | None) -> None:
    assert read(text, TERMS) == label


TREATMENTS = {"A": "Aspirin", "B": "Surgery", "C": "Aspirin and heparin", "D": "5", "E": "5.0 mg"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("I would not give aspirin.", None),
        ("Surgery is unnecessary.", None),
        ("Aspirin is contraindicated", None),
        ("Avoid aspirin", None),
        ("Never surgery", None),
        ("No aspirin", None),
        ("Aspirin rather than surgery", None),
        ("La cirugía no, sin surgery", None),
        ("I would not give aspirin. I would choose surgery.", "B"),
        ("I would not give aspirin, but surgery would help", "B"),
        ("I would give aspirin.", "A"),
        ("The answer is aspirin.", "A"),
        ("The answer is aspirin and heparin.", "C"),
        ("The answer is aspirin or surgery.", None),
        ("Aspirin and heparin", "C"),
        ("Answer: Surgery", "B"),
        ("Answer: surgery, since aspirin is not enough", "B"),
        ("5", "D"),
        ("Answer: 5", "D"),
        ("Answer: 5.0 mg", "E"),
        ("Wait 5 days", None),
        ("E. 5.0 mg", "E"),
        ("The answer is E", "E"),
    ],
)
def test_options_in_words(text: str, label: str | None) -> None:
    assert read(text, TREATMENTS, list("ABCDE")) == label


def test_identical_options_are_not_told_apart_by_their_text() -> None:
    assert read("Answer: aspirin", {"A": "Aspirin", "B": "aspirin", "C": "x", "D": "y"}) is None


def test_a_letter_counts_more_than_an_option_that_is_a_letter() -> None:
    groups = {"A": "B", "B": "A", "C": "AB", "D": "0"}
    assert read("Answer: B", groups) == "B"
    assert read("The answer is AB", groups) == "C"


RELATIONS = {"E": "cotreatment", "F": "drug interaction", "G": "negative correlation", "H": "positive correlation"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("F", "F"),
        ("The relation is F. drug interaction", "F"),
        ("The relation between the two entities is H.", "H"),
        ("Relation: G", "G"),
        ("positive correlation", "H"),
        ("The relation is a negative correlation.", "G"),
        ("H. pylori", None),
        ("Answer: H. pylori", None),
        ("Answer: E. Coli", None),
        ("Factor H", None),
    ],
)
def test_eight_labels(text: str, label: str | None) -> None:
    assert read(text, RELATIONS, list("ABCDEFGH")) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Conclusion: yes", "yes"),
        ("The answer to the question is yes.", "yes"),
        ("The answer to the question 'Does it help?' is yes.", "yes"),
        ("The answer is likely no.", "no"),
        ("I would say no.", "no"),
        ("I'd say maybe", "maybe"),
        ("Final answer: **Maybe**", "maybe"),
        ("**Yes**\n\nThe difference was large. There was no harm.", "yes"),
        ("No, the difference was small.", "no"),
        ("No. There was no difference.", "no"),
        ("no, no difference was found", "no"),
        ("No - p was 0.4", "no"),
        ("The first attempt succeeded more often.\n\nYes", "yes"),
        ("Yes. The groups were small, though, so the answer is maybe.", "maybe"),
        ('{"answer": "no"}', "no"),
        (r"\boxed{\text{yes}}", "yes"),
        ("Answer yes", "yes"),
        ("So, no.", "no"),
        ("Thus, the answer is: Yes", "yes"),
        ("Based on the abstract, the answer is 'no'.", "no"),
        ("The answer is yes. Wait, no. The answer is maybe.", "maybe"),
        ("No response: yes", None),
        ("No response was seen.", None),
        ("Conclusion: No significant difference", None),
        ("The answer is no longer known", None),
        ("Answer: no significant difference", None),
        ("Answer: yes/no/maybe", None),
        ("Answer: yes or no", None),
        ("Yes, maybe.", None),
        ("Maybe yes", None),
        ("yes\nno\nmaybe", None),
        ("If the answer is yes, more trials are needed.", None),
        ("It is no surprise.", None),
        ("Overall, no difference was found", None),
    ],
)
def test_more_words(text: str, label: str | None) -> None:
    assert read(text, labels=["yes", "no", "maybe"]) == label


def test_options_are_read_from_the_prompt() -> None:
    prompt = "A. in the stem\nQuestion: Which?\nChoices:\nA. Asthma\nB. Two. Sentences\nC. \nD. x\nAnswer:"
    assert options_of_prompt(prompt, ABCD) == {"A": "Asthma", "B": "Two. Sentences", "C": "", "D": "x"}


LOOPS = {
    "answer ": None, "(": None, "A ": None, "\n": None, "A) ": "A", "(A) ": "A", "the answer is ": None,
    "the answer is A or ": None, "The answer is B. ": "B", "Answer: B\n": "B", "answer to ": None, "Wait, ": None,
    "\\boxed{": None, "<answer>": None, "{": None, "it is ": None, "so ": None, "Explanation: ": None, "* ": None,
    "A. Asthma\n": "A", "If the answer is ": None, "my ": None, "Asthma or ": None, "not ": None, ".": None, "A, ": "A",
    "I would ": None, "the correct ": None, "B is correct (": "B", "A\n": "A", "- ": None, "' ": None,
    "In x, the answer is ": None, "A: no. ": None, "Answer: A (": "A", "Answer: A\nAnswer: B\n": None,
    "Some say the answer is ": None, "A, possibly B ": None,
    "Answer:\n": None, "answer for:": None, "The answer is:\nA. x\nB. y\n": None,
}  # fmt: skip


@pytest.mark.parametrize("part", LOOPS)
def test_looping_models(part: str) -> None:
    assert read(part * (100_000 // len(part)), OPTIONS) == LOOPS[part]


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\u00a0", " \n", "\r"])
def test_long_blanks(blank: str) -> None:
    assert read("answer" + blank * 100_000 + "x", OPTIONS) is None
    assert read("The answer is" + blank * 100_000 + "B", OPTIONS) == "B"
    assert read("A" + blank * 100_000 + "beta blocker", OPTIONS) == ("A" if "\n" in blank else None)

"""Multiple choice answered in free text: the letter is read from what the model writes.

Chat and reasoning models are asked this way; a score by log-likelihood looks only at the first token after the
question.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.harness.aggregation import SCORED_MEAN
from lm_eval_healthcare.harness.lettered import count_faulty_options
from lm_eval_healthcare.harness.open_ended import CUT, EMPTY, CutAnswer, GeneratedTextTask, first_text
from lm_eval_healthcare.harness.rows import answer_key
from lm_eval_healthcare.metrics import is_blank
from lm_eval_healthcare.scoring.chosen_option import chosen_option, options_of_prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ACC, PARSED, UNPARSED, CHOSEN = "acc", "acc_parsed", "unparsed", "chosen"


class GenerativeChoiceTask(GeneratedTextTask):
    """Accuracy of the option that a text chooses.

    `acc` counts a text that chooses no option as wrong; `acc_parsed` is the accuracy of the texts that choose one, and
    `unparsed` the share of those that do not. A high `unparsed` says that the model did not follow the format, not that
    it knows little. The sample log says under `chosen` what was read from each text.
    """

    def _look_at_questions(self) -> None:
        self.reasons += count_faulty_options(self)

    def _resolve_metrics(self, config: dict[str, Any]) -> list[str]:
        return [ACC, PARSED]

    def _metric_list(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for name in self.metric_names:
            out.append({"metric": name, "aggregation": SCORED_MEAN, "higher_is_better": True})
            out.append({"metric": f"{name}_coverage", "aggregation": "mean", "higher_is_better": True})
        out += [{"metric": name, "aggregation": "mean", "higher_is_better": False} for name in (UNPARSED, EMPTY, CUT)]
        return out

    def _signatures(self) -> dict[str, str]:
        how = "impl:lm_eval_healthcare|answer:option read from generated text|reader:1"
        return {ACC: f"acc|{how}|unparsed:wrong", PARSED: f"acc_parsed|{how}|unparsed:left out"}

    def _score(self, docs: Sequence[dict[str, Any]], results: Sequence[Sequence[Any]], count: bool) -> None:
        empty = cut = 0
        for doc, result in zip(docs, results, strict=True):
            found = first_text(result)
            text = "" if found is None else found
            labels = [str(choice) for choice in self.doc_to_choice(doc)]
            prompt = str(self.doc_to_text(doc))
            options = options_of_prompt(prompt, labels)
            chosen = chosen_option(before_next_question(text, prompt, options), labels, options)
            right = math.nan if chosen is None else float(chosen in self._gold(doc, labels))
            scores: dict[str, Any] = {
                CHOSEN: "none" if chosen is None else labels[chosen],
                ACC: 0.0 if chosen is None else right,
                f"{ACC}_coverage": 1.0,
                PARSED: right,
                f"{PARSED}_coverage": float(chosen is not None),
                UNPARSED: float(chosen is None),
                EMPTY: float(is_blank(text)),
                CUT: float(isinstance(text, CutAnswer)),
            }
            empty += is_blank(text)
            cut += isinstance(text, CutAnswer)
            self._scores[answer_key(doc, result)] = scores
            if count:
                self.reasons.update({UNPARSED: 1} if chosen is None else {})
        if count:
            self.reasons.update({name: number for name, number in ((EMPTY, empty), (CUT, cut)) if number})
            self._warn_of_empty(empty, cut, len(docs))

    def _gold(self, doc: dict[str, Any], labels: Sequence[str]) -> set[int]:
        target = self.doc_to_target(doc)
        targets = target if isinstance(target, list) else [target]
        return {labels.index(one) if isinstance(one, str) and one in labels else int(one) for one in targets}


def before_next_question(reply: str, prompt: str, options: Mapping[str, str]) -> str:
    """Return a reply up to the next question, which a base model invents in the prompt's form.

    That question begins with `Question:` or with the words that the prompt begins with (`Abstract:`). Where the prompt
    begins with the question itself, it is known by its list of options, if a choice was made before it. The question
    that was asked, written down again, is no next question.

    Args:
        reply: The model's answer, without reasoning.
        prompt: The document's own prompt, without examples.
        options: The options' texts by label, if the prompt lists some.
    """
    first = re.match(r"\w+(?: \w+){0,4}(?=:)", prompt)
    heads = "|".join(["Question", "Pregunta", *([re.escape(first[0])] if first else [])])
    for head in re.finditer(rf"^(?:{heads})(?: \d{{1,3}})?:.*$", reply, re.MULTILINE):
        before = reply[: head.start()]
        if before.strip() and head[0].strip() not in prompt:
            return before
    listed = "\n".join(rf"{re.escape(label)}\. (.*)" for label in options)
    blocks = re.finditer(rf"^{listed}\n(?:Answer|Respuesta):", reply, re.MULTILINE) if options else iter(())
    asked = [text.strip() for text in options.values()]
    if block := next((block for block in blocks if [text.strip() for text in block.groups()] != asked), None):
        before = reply[: block.start()].rpartition("\n\n")[0]
        return reply if chosen_option(before, list(options), options) is None else before
    return reply

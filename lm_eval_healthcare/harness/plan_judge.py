"""What a judge would cost: its prompts are really made, of the documents' own questions and references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lm_eval_healthcare.harness import repeated_requests
from lm_eval_healthcare.harness.plan_requests import plain_type
from lm_eval_healthcare.harness.plan_tokens import (
    CHARACTERS_A_TOKEN,
    FourCharacters,
    context_of,
    laid_out,
    local_tokenizer,
)
from lm_eval_healthcare.judge.prompt import wording
from lm_eval_healthcare.judge.rubric import rubric_for
from lm_eval_healthcare.metrics import is_blank

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from lm_eval_healthcare.harness.plan_tokens import CountingModel
    from lm_eval_healthcare.judge.options import JudgeOptions
    from lm_eval_healthcare.judge.prompt import Prompt, Wording
    from lm_eval_healthcare.judge.rubric import Rubric
    from lm_eval_healthcare.judge.settings import Settings

VERDICT_TOKENS = 200
"""Tokens of a usual verdict with its feedback: an assumption, since no verdict has been written yet."""
_PART = 256  # prompts whose texts are in memory at once


@dataclass
class JudgeTokens:
    """What the judge does for one task.

    Attributes:
        task: The task.
        rubric: What it grades by.
        answers: Answers that it is shown.
        blank: Documents without a reference, which it is not shown.
        requests: Requests if every verdict is given at the first attempt.
        requests_most: Requests if none is given before the last.
        prompt_tokens: Tokens of the prompts at the first attempt, with answers of the estimated length.
        prompt_tokens_most: Tokens of all prompts at all attempts, with answers as long as they may be.
        output_tokens: Tokens of the verdicts, with `VERDICT_TOKENS` each.
        output_tokens_most: Tokens of all verdicts at all attempts, as long as they may be.
        longest_prompt: Tokens of the longest prompt, with an answer as long as it may be.
        prompts_cut: Prompts that do not fit into the context beside a verdict if the answer is as long as it may be.
        minutes: Estimated time; None if no rate is known.
        minutes_most: The time if all is as long as it may be.
    """

    task: str
    rubric: str
    answers: int
    blank: int
    requests: int
    requests_most: int
    prompt_tokens: int
    prompt_tokens_most: int
    output_tokens: int
    output_tokens_most: int
    longest_prompt: int
    prompts_cut: int
    minutes: float | None = None
    minutes_most: float | None = None


class Judge:
    """A judge's tokens, context and wording, without its weights.

    Attributes:
        facts: What results say of it.
    """

    def __init__(self, options: JudgeOptions) -> None:
        """Read what lies on this machine.

        Args:
            options: The judge, the first of several.

        Raises:
            lm_eval_healthcare.judge.errors.JudgeError: If there is no such wording.
        """
        self.options = options
        model = options.models[0] if options.models else ""
        self._wording: Wording = wording(options.wording, model)
        found = local_tokenizer(options.tokenizer or model, {})
        self._tokenizer: Any = found or FourCharacters()
        given = options.context or options.args.get("max_model_len")
        self.context = int(given) if given else context_of(model, {}) or context_of(options.tokenizer, {})
        settings = options.settings
        self.facts: dict[str, Any] = {
            "model": model or options.base_url,
            "tokens_exact": found is not None,
            "context": self.context,
            "wording": self._wording.name,
            "preset": settings.preset,
            "attempts": settings.tries,
            "samples": settings.samples,
            "max_tokens": settings.sampling.max_tokens,
            "verdict_tokens_assumed": min(VERDICT_TOKENS, settings.sampling.max_tokens),
        }

    def count(self, task: Any, instances: Sequence[Instance], lm: CountingModel) -> JudgeCount:
        """Count the prompts about a task's answers, the reference standing in for the answer.

        Args:
            task: An open-ended task.
            instances: Its requests.
            lm: The evaluated model's tokens, for the most that an answer may have.
        """
        rubric = rubric_for(task.facts.name, self.options.rubric, (task.facts.languages or ("en",))[0])
        counted = JudgeCount(task.task_name, rubric.name, self.options.settings, self.context)
        first = list({one.doc_id: one for one in reversed(instances)}.values())[::-1]
        for start in range(0, len(first), _PART):
            self._add(counted, task, first[start : start + _PART], rubric, lm)
        return counted

    def _add(
        self, counted: JudgeCount, task: Any, instances: Sequence[Instance], rubric: Rubric, lm: CountingModel
    ) -> None:
        texts, answers, most, times = [], [], [], []
        for one in instances:
            target = task.doc_to_target(one.doc)
            listed = target if isinstance(target, list | tuple) else [target]
            references = [str(text) for text in listed if text is not None and not is_blank(str(text))]
            if not references:
                counted.blank += 1
                continue
            texts.append(self._text(self._wording.absolute(task._question(one.doc), references[0], references, rubric)))
            answers.append(references[0])
            most.append(lm.answer_limit(one.args[1]))
            repeated = plain_type(one) == repeated_requests.REQUEST_TYPE  # of other repeats the first is graded
            times.append(max(1, one.repeats or 1) if repeated else 1)
        lengths = self._lengths(texts), self._lengths(answers)
        for whole, answer, limit, several in zip(*lengths, most, times, strict=True):
            counted.documents += [(whole - answer, answer, limit)] * several

    def _text(self, prompt: Prompt) -> str:
        """Return a prompt as one text, in the judge's chat template if it has one."""
        turns = [{"role": message.role, "content": message.content} for message in prompt.messages]
        plain = "\n\n".join(turn["content"] for turn in turns)
        if not getattr(self._tokenizer, "chat_template", None):
            return plain
        text = laid_out(self._tokenizer, turns, add_generation_prompt=True)
        if turns[0]["content"] in text:
            return text
        return laid_out(self._tokenizer, [{"role": "user", "content": plain}], add_generation_prompt=True)

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        if isinstance(self._tokenizer, FourCharacters):
            return [-(-len(text) // CHARACTERS_A_TOKEN) for text in texts]
        templated = bool(getattr(self._tokenizer, "chat_template", None))
        found = self._tokenizer(list(texts), truncation=False, add_special_tokens=not templated)["input_ids"]
        return [len(ids) for ids in found]


@dataclass
class JudgeCount:
    """The judge's prompts about one task.

    Attributes:
        task: The task.
        rubric: The rubric's name.
        settings: How often and how long the judge is asked.
        context: Its context in tokens, if known.
        blank: Documents without a reference.
        documents: For each other one: tokens of the prompt without the answer, of the answer that is estimated, and the
            most that an answer may have.
    """

    task: str
    rubric: str
    settings: Settings
    context: int | None
    blank: int = 0
    documents: list[tuple[int, int, int]] = field(default_factory=list)

    def tokens(self, answer_tokens: float | None = None) -> JudgeTokens:
        """Return what the judge does.

        Args:
            answer_tokens: Tokens of a usual answer; None: as many as the reference has.
        """
        s, sampling = self.settings, self.settings.sampling
        asked = len(self.documents)
        usual = [
            rest + min(answer if answer_tokens is None else answer_tokens, most)
            for rest, answer, most in self.documents
        ]
        longest = [rest + most for rest, _, most in self.documents]
        room = None if self.context is None else self.context - sampling.max_tokens
        requests, requests_most = asked * s.samples, asked * s.samples * s.tries
        return JudgeTokens(
            task=self.task,
            rubric=self.rubric,
            answers=asked,
            blank=self.blank,
            requests=requests,
            requests_most=requests_most,
            prompt_tokens=round(sum(usual)) * s.samples,
            prompt_tokens_most=sum(longest) * s.samples * s.tries,
            output_tokens=min(VERDICT_TOKENS, sampling.max_tokens) * requests,
            output_tokens_most=sampling.max_tokens * requests_most,
            longest_prompt=max(longest, default=0),
            prompts_cut=0 if room is None else sum(length > room for length in longest),
        )

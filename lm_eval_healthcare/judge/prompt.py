"""What a judge is asked: instruction, answer, reference and rubric, laid out by a template.

A user's template file is YAML:

    system: ...      # optional
    absolute: ...    # with {instruction}, {response}, {reference} and {rubric}
    relative: ...    # optional; with {instruction}, {response_a}, {response_b}, {reference} and {rubric}
    relative_without_reference: ...   # optional; if not given, `relative` without the paragraph that has {reference}

or, if its name ends in .txt, the text of `absolute` alone. Besides, {fence} is a code that the material cannot hold,
{lowest} and {highest} are the scale's ends, and `{{name}}` is that word in braces.

Answers, question and references are rewritten where they could pass for something else; see `judge.defusing`.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_eval_healthcare.judge import pack_wording
from lm_eval_healthcare.judge.defusing import defuse, headings
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.rubric import Rubric
from lm_eval_healthcare.judge.strict_yaml import kind_of, known_keys, load_yaml, mapping
from lm_eval_healthcare.judge.template import Template, from_braces, from_format, without_block
from lm_eval_healthcare.judge.trained_wording import DISTRIBUTION, trained
from lm_eval_healthcare.judge.verdict_marker import MARKER, markers, visible

logger = logging.getLogger(__name__)

PACK, TRAINED, AUTO = "pack", "prometheus", "auto"

_MOST_BYTES = 100_000
_FENCE_DIGITS = 12
_ABSOLUTE = ("instruction", "response", "reference", "rubric")
_RELATIVE = ("instruction", "response_a", "response_b", "reference", "rubric")
_WITHOUT = ("instruction", "response_a", "response_b", "rubric")
_FREE = ("fence", "lowest", "highest")
_RENAMED = {"reference_answer": "reference", "response_A": "response_a", "response_B": "response_b"}
_IS_PROMETHEUS = re.compile(r"prometheus[-_]?(?:eval|bgb|\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Message:
    """One turn: `role` is `system` or `user`."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """What is sent.

    Attributes:
        messages: The turns. A model without a chat template is given their contents, a blank line between them.
        defused: How many pieces of the answer (or answers) looked like a verdict, like the prompt's own fences or
            headings, or like control tokens, and were written differently, so that a judge who quotes them gives no
            verdict by it.
    """

    messages: tuple[Message, ...]
    defused: int = 0


class Wording(ABC):
    """A template for absolute and one for relative grading.

    Attributes:
        name: `pack`, `prometheus-eval 0.1.20`, or the file's name.
        digest: The first 12 hexadecimal digits of the SHA-256 of the templates.
    """

    name: str
    digest: str

    @abstractmethod
    def absolute(self, question: str, answer: str, references: Sequence[str], rubric: Rubric) -> Prompt:
        """Ask for a score of one answer.

        Args:
            question: What the model that wrote the answer was asked.
            answer: Its answer.
            references: Answers that would get the highest score, at least one that is not blank.
            rubric: What is graded.

        Raises:
            ValueError: If no reference has words.
            JudgeError: If the wording has no template for the rubric's scale.
        """

    @abstractmethod
    def relative(self, question: str, answers: tuple[str, str], references: Sequence[str], rubric: Rubric) -> Prompt:
        """Ask which of two answers is better; `references` may be empty.

        Raises:
            JudgeError: If the wording has no template for it.
        """


@dataclass(frozen=True)
class _Templates(Wording):
    """A wording of templates.

    Attributes:
        system: Text of the system's turn by mode, `absolute` and `relative`; "" for none.
        templates: By mode, `absolute`, `relative` and `without`, the latter for comparing without a reference.
        one_turn: Whether the system's text is the first line of the user's turn, as in training.
        scale: The only scale that the text is for; None for any.
    """

    name: str
    digest: str
    system: Mapping[str, str]
    templates: Mapping[str, Template]
    one_turn: bool = False
    scale: tuple[int, int] | None = None

    def absolute(self, question: str, answer: str, references: Sequence[str], rubric: Rubric) -> Prompt:
        shown = _references(references)
        if not shown:
            raise ValueError("no reference has words; an answer without a reference is not graded")
        if self.scale is not None and rubric.scale != self.scale:
            raise JudgeError(
                f"wording '{self.name}' is for scores {self.scale[0]} to {self.scale[1]}, and rubric '{rubric.name}' "
                f"has {rubric.scale[0]} to {rubric.scale[1]}; use wording=pack"
            )
        return self._prompt("absolute", question, {"response": answer}, shown, rubric, rubric.text)

    def relative(self, question: str, answers: tuple[str, str], references: Sequence[str], rubric: Rubric) -> Prompt:
        shown = _references(references)
        mode = "relative" if shown else "without"
        if mode not in self.templates:
            raise JudgeError(f"wording '{self.name}' has no template 'relative', which comparing two answers needs")
        both = {"response_a": answers[0], "response_b": answers[1]}
        text = rubric.heading if self.one_turn else rubric.text  # trained with the rubric's first line alone
        return self._prompt(mode, question, both, shown, rubric, text)

    def _prompt(
        self, mode: str, question: str, answers: Mapping[str, str], shown: Sequence[str], rubric: Rubric, text: str
    ) -> Prompt:
        template = self.templates[mode]
        of_template = headings(template.literal)
        values, defused = {}, 0
        for name, answer in answers.items():
            values[name], count = defuse(answer, of_template)
            defused += count
        values["instruction"] = defuse(question, of_template)[0]
        values["reference"] = _labelled([defuse(reference, of_template)[0] for reference in shown])
        values["fence"] = _fence([question, *answers.values(), *shown])
        low, high = rubric.scale
        filled = template.fill({**values, "rubric": text, "lowest": str(low), "highest": str(high)})
        system = self.system.get(mode, "")
        if self.one_turn:
            return Prompt((Message("user", f"{system}\n{filled}".strip()),), defused)
        turns = (Message("system", system),) if system else ()
        return Prompt((*turns, Message("user", filled)), defused)


def wording(where: str, judge_model: str = "") -> Wording:
    """Return a wording.

    Args:
        where: `pack`: the package's own. `prometheus`: the one on which Prometheus was trained, read from the installed
            `prometheus-eval`, which is not imported. A path: a template file. `auto`: `prometheus` if the judge's name
            says that it is one, and with a warning `pack` if that cannot be had; for all other judges `pack`.
        judge_model: The judge's name or path.

    Raises:
        JudgeError: If it cannot be had or is not as a template must be.
    """
    if where == AUTO and _is_prometheus(judge_model):
        try:
            return _trained()
        except JudgeError as error:
            logger.warning(
                "the judge is a Prometheus, but the words on which it was trained are not to be had, so it is asked in "
                "this package's own, which the results say; its scores are not those of the published method (%s)",
                error,
            )
    if where == AUTO:
        where = PACK
    if where == PACK:
        return _pack()
    if where == TRAINED:
        return _trained()
    path = Path(where).expanduser()
    if not path.is_file():
        raise JudgeError(
            f"wording '{where}': no such file; expected {AUTO}, {PACK}, {TRAINED}, or a template file's path"
        )
    return _from_file(path)


def _pack() -> Wording:
    return _made(
        PACK,
        pack_wording.SYSTEM,
        {
            "absolute": from_braces(pack_wording.ABSOLUTE, PACK, _ABSOLUTE, _FREE),
            "relative": from_braces(pack_wording.RELATIVE, PACK, _RELATIVE, _FREE),
            "without": from_braces(pack_wording.RELATIVE_WITHOUT_REFERENCE, PACK, _WITHOUT, _FREE),
        },
    )


def _trained() -> Wording:
    found = trained()
    name = f"{DISTRIBUTION} {found.version}"
    wanted = {"absolute": ("ABSOLUTE_PROMPT", _ABSOLUTE), "relative": ("RELATIVE_PROMPT", _RELATIVE)}
    if "RELATIVE_PROMPT_WO_REF" in found.texts:
        wanted["without"] = ("RELATIVE_PROMPT_WO_REF", _WITHOUT)
    templates = {
        mode: from_format(found.texts[constant], f"{name}: {constant}", needed, _RENAMED)
        for mode, (constant, needed) in wanted.items()
    }
    if "without" not in templates:
        plain = found.texts["RELATIVE_PROMPT"]
        templates["without"] = from_format(without_block(plain, "reference_answer"), name, _WITHOUT, _RENAMED)
    compare = found.texts["REL_SYSTEM_PROMPT"]
    system = {"absolute": found.texts["ABS_SYSTEM_PROMPT"], "relative": compare, "without": compare}
    return _checked(_Templates(name, _digest(system, templates), system, templates, one_turn=True, scale=(1, 5)))


def _from_file(path: Path) -> Wording:
    where = f"template {path}"
    if path.stat().st_size > _MOST_BYTES:
        raise JudgeError(f"{where}: {path.stat().st_size:,} bytes; a template has at most {_MOST_BYTES:,}")
    content = path.read_bytes()
    if path.suffix.lower() == ".txt":
        try:
            return _made(path.name, "", {"absolute": from_braces(content.decode("utf-8-sig"), where, _ABSOLUTE, _FREE)})
        except UnicodeDecodeError as error:
            raise JudgeError(f"{where}: not UTF-8 (byte {error.start}); save it as UTF-8") from error
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise JudgeError(f"{where}: expected a name that ends in .yaml, .yml or .txt")
    found = mapping(where, load_yaml(where, content))
    known_keys(where, found, ("absolute",), ("system", "relative", "relative_without_reference"))
    for key, value in found.items():
        if not isinstance(value, str):
            raise JudgeError(f"{where}: {key}: is {kind_of(value)}; expected a text")
    templates = {"absolute": from_braces(found["absolute"], f"{where}: absolute", _ABSOLUTE, _FREE)}
    if "relative" in found:
        templates["relative"] = from_braces(found["relative"], f"{where}: relative", _RELATIVE, _FREE)
        without = found.get("relative_without_reference", without_block(found["relative"], "reference"))
        templates["without"] = from_braces(without, f"{where}: relative_without_reference", _WITHOUT, _FREE)
    elif "relative_without_reference" in found:
        raise JudgeError(f"{where}: has relative_without_reference, but no relative; give both or neither")
    return _made(path.name, found.get("system", ""), templates)


def _made(name: str, system: str, templates: Mapping[str, Template]) -> Wording:
    by_mode = dict.fromkeys(templates, system.strip())
    return _checked(_Templates(name, _digest(by_mode, templates), by_mode, templates))


def _checked(made: _Templates) -> Wording:
    for mode, template in made.templates.items():
        if not any(markers(visible(template.literal + made.system.get(mode, "")).text)):
            raise JudgeError(
                f"wording '{made.name}': {mode}: does not name {MARKER}, behind which the verdict is looked for; ask "
                f"the judge to end with '{MARKER}' and the verdict"
            )
    return made


def _digest(system: Mapping[str, str], templates: Mapping[str, Template]) -> str:
    found = hashlib.sha256()
    for mode in sorted(templates):
        for text in (mode, system.get(mode, ""), templates[mode].source):
            content = text.encode("utf-8", "surrogatepass")
            found.update(len(content).to_bytes(8, "big") + content)
    return found.hexdigest()[:12]


def _references(references: Sequence[str]) -> list[str]:
    listed = [references] if isinstance(references, str) else references
    return [text.strip() for text in listed if isinstance(text, str) and text.strip()]


def _labelled(references: Sequence[str]) -> str:
    if len(references) < 2:
        return "".join(references)
    return "\n\n".join(f"Reference {number}:\n{text}" for number, text in enumerate(references, 1))


def _fence(material: Sequence[str]) -> str:
    """Return a code that none of the texts holds, the same for the same texts."""
    content = b"".join(
        len(piece).to_bytes(8, "big") + piece for piece in (text.encode("utf-8", "surrogatepass") for text in material)
    )
    for turn in itertools.count():
        code = hashlib.sha256(content + b"%d" % turn).hexdigest()[:_FENCE_DIGITS]
        if not any(code in text.lower() for text in material):
            return code
    raise AssertionError("unreachable")


def _is_prometheus(judge_model: str) -> bool:
    """Say whether a name or path is that of a Prometheus judge: its last part, or one such as `prometheus-7b-v2.0`."""
    parts = re.split(r"[/\\]", judge_model.rstrip("/\\"))
    return "prometheus" in parts[-1].lower() or any(_IS_PROMETHEUS.search(part) for part in parts)

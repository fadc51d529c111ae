"""Rubrics: what a judge grades by, one for each open-ended task, from the package or from a user's file.

A file is YAML and has texts in one language or in several:

    criteria: What is the answer to be like?        languages:
    scores:                                           en:
      1: What an answer of score 1 is like.             criteria: ...
      ...                                               scores: {1: ..., 2: ..., 3: ..., 4: ..., 5: ...}
      5: What an answer of score 5 is like.           es: ...
    language: en   # of these texts; optional

The judge is also told in which language the answer is expected, which no file has to say.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.strict_yaml import kind_of, known_keys, load_yaml, mapping
from lm_eval_healthcare.judge.verdict_marker import MARKER, markers, visible

AUTO, GENERAL = "auto", "general"
SCORES = (1, 2, 3, 4, 5)
MOST_CRITERIA, MOST_DESCRIPTION, MOST_BYTES = 1500, 1000, 100_000
_SUFFIXES = (".yaml", ".yml")
_NAMES = {
    "en": {"en": "English", "es": "Spanish", "ca": "Catalan", "fr": "French", "de": "German", "it": "Italian"}
    | {"pt": "Portuguese", "zh": "Chinese", "ja": "Japanese", "ko": "Korean", "ar": "Arabic", "ru": "Russian"},
    "es": {"en": "inglés", "es": "español", "ca": "catalán", "fr": "francés", "de": "alemán", "it": "italiano"}
    | {"pt": "portugués", "zh": "chino", "ja": "japonés", "ko": "coreano", "ar": "árabe", "ru": "ruso"},
}
_EXPECTED = {
    "en": "The answer is expected in {}; one that is mainly in another language gets at most a score of 2.",
    "es": "Se espera la respuesta en {}; la que esté principalmente en otro idioma obtiene como máximo un 2.",
}
_UNKNOWN = {"en": "the language with the ISO 639-1 code {}", "es": "el idioma con el código ISO 639-1 {}"}


@dataclass(frozen=True)
class Rubric:
    """What is graded, and what each score means.

    Attributes:
        name: The task's name, or the file's stem.
        languages: ISO 639-1 codes for which the rubric has texts, the first being the default.
        criteria: The question that the judge answers, in one language.
        descriptions: What each score of the scale means, in that language, lowest first.
        language: The language of these texts.
        expected_language: The language in which answers are to be.
        digest: The first 12 hexadecimal digits of the SHA-256 of what the judge is shown.
    """

    name: str
    criteria: str
    descriptions: Mapping[int, str]
    language: str = "en"
    expected_language: str = "en"
    languages: tuple[str, ...] = ("en",)
    digest: str = ""

    def __post_init__(self) -> None:
        """Fill in the digest if none is given."""
        if not self.digest:
            found = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
            object.__setattr__(self, "digest", found)

    @property
    def scale(self) -> tuple[int, int]:
        """The lowest and the highest score."""
        return min(self.descriptions), max(self.descriptions)

    @property
    def heading(self) -> str:
        """The criteria in brackets, with the language in which the answer is expected: the first line of `text`."""
        words = self.language if self.language in _EXPECTED else "en"
        unknown = _UNKNOWN[words].format(self.expected_language)
        expected = _EXPECTED[words].format(_NAMES[words].get(self.expected_language, unknown))
        return f"[{self.criteria} {expected}]"

    @property
    def text(self) -> str:
        """The rubric as a judge is shown it: `[criteria]`, then `Score 1: ...` to `Score 5: ...`, a line each."""
        lines = [f"Score {score}: {self.descriptions[score]}" for score in sorted(self.descriptions)]
        return "\n".join([self.heading, *lines])


def rubric_for(task: str, where: str = AUTO, language: str = "en") -> Rubric:
    """Return the rubric of a task.

    Args:
        task: The task's name. A name that goes on after a packaged one and `_` has that one's rubric.
        where: `auto` for the packaged rubric of the task (the general one for tasks that have none), the name of a
            packaged rubric, or a file's path.
        language: ISO 639-1 code of the task's texts, in which answers are expected; a region (`en-GB`) is ignored. If
            the rubric has no texts in that language, its first ones are used.

    Raises:
        lm_eval_healthcare.judge.errors.JudgeError: If there is no such rubric, or it is not as a rubric must be.
    """
    code = language.replace("_", "-").split("-")[0].strip().lower()
    if not (len(code) == 2 and code.isascii() and code.isalpha()):
        raise JudgeError(f"language '{language}' of task '{task}': expected an ISO 639-1 code of two letters, as 'en'")
    names = packaged_rubrics()
    if where == AUTO:
        own = [name for name in names if name != GENERAL and (task == name or task.startswith(name + "_"))]
        where = max(own, key=len, default=GENERAL)
    if where in names:
        file = resources.files("lm_eval_healthcare.judge").joinpath("rubrics", f"{where}.yaml")
        return _rubric(where, f"packaged rubric '{where}'", file.read_bytes(), code)
    path = Path(where).expanduser()
    if not path.is_file():
        near = difflib.get_close_matches(where, [AUTO, *names], n=1)
        raise JudgeError(
            f"rubric '{where}': no file of that path, and no packaged rubric of that name"
            + (f"; did you mean '{near[0]}'?" if near else "")
            + f". Expected '{AUTO}', a YAML file, or one of {', '.join(names)}."
        )
    if path.suffix.lower() not in _SUFFIXES:
        raise JudgeError(f"rubric {path}: expected a YAML file, whose name ends in {' or '.join(_SUFFIXES)}")
    if path.stat().st_size > MOST_BYTES:
        raise JudgeError(f"rubric {path}: {path.stat().st_size:,} bytes; a rubric has at most {MOST_BYTES:,}")
    return _rubric(path.stem, f"rubric {path}", path.read_bytes(), code)


def packaged_rubrics() -> list[str]:
    """Return the names of the rubrics in the package."""
    folder = resources.files("lm_eval_healthcare.judge").joinpath("rubrics")
    return sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".yaml"))


def _rubric(name: str, where: str, content: bytes, expected: str) -> Rubric:
    texts = _languages(where, load_yaml(where, content))
    language = expected if expected in texts else next(iter(texts))
    criteria, descriptions = texts[language]
    return Rubric(name, criteria, descriptions, language, expected, tuple(texts))


def _languages(where: str, found: object) -> dict[str, tuple[str, dict[int, str]]]:
    """Check a file's content and return criteria and descriptions by language."""
    top = mapping(where, found)
    if "languages" not in top:
        known_keys(where, top, ("criteria", "scores"), ("language",))
        return {_code(where, "language", top.get("language", "en")): _texts(where, "", top)}
    known_keys(where, top, ("languages",), ())
    languages = mapping(f"{where}: languages", top["languages"])
    if not languages:
        raise JudgeError(f"{where}: languages: empty; expected at least one language, such as 'en'")
    texts = {}
    for key, value in languages.items():
        code = _code(where, "languages", key)
        entry = mapping(f"{where}: languages.{code}", value)
        known_keys(f"{where}: languages.{code}", entry, ("criteria", "scores"), ())
        texts[code] = _texts(where, f"languages.{code}.", entry)
    return texts


def _texts(where: str, prefix: str, entry: Mapping[Any, Any]) -> tuple[str, dict[int, str]]:
    scores = mapping(f"{where}: {prefix}scores", entry["scores"])
    wrong = [key for key in scores if isinstance(key, bool) or not isinstance(key, int)]
    if wrong or sorted(scores) != list(SCORES):
        given = ", ".join(repr(key) for key in scores) or "none"
        raise JudgeError(f"{where}: {prefix}scores: has {given}; expected the numbers 1, 2, 3, 4, 5, each with a text")
    descriptions = {score: _text(where, f"{prefix}scores.{score}", scores[score], MOST_DESCRIPTION) for score in SCORES}
    repeated = [score for score in SCORES[1:] if descriptions[score] in [descriptions[s] for s in range(1, score)]]
    if repeated:
        raise JudgeError(f"{where}: {prefix}scores.{repeated[0]}: the same text as another score; each needs its own")
    return _text(where, f"{prefix}criteria", entry["criteria"], MOST_CRITERIA), descriptions


def _text(where: str, key: str, value: object, most: int) -> str:
    if not isinstance(value, str):
        raise JudgeError(f"{where}: {key}: is {kind_of(value)}; expected a text (put it in quotation marks)")
    text = " ".join(value.split())
    if not any(c.isalnum() for c in text):
        raise JudgeError(f"{where}: {key}: has no words; expected a text")
    if len(text) > most:
        raise JudgeError(f"{where}: {key}: {len(text):,} characters; at most {most:,}, or it crowds out the answer")
    if any(markers(visible(text).text)):
        raise JudgeError(f"{where}: {key}: holds {MARKER}, which only a verdict may have; word it differently")
    return text


def _code(where: str, key: str, value: object) -> str:
    # YAML reads an unquoted `no`, Norwegian, as false.
    text = "no" if value is False else value
    if not (isinstance(text, str) and len(text) == 2 and text.isascii() and text.isalpha() and text.islower()):
        raise JudgeError(f"{where}: {key}: '{value}'; expected an ISO 639-1 code of two small letters, as 'en' or 'es'")
    return text

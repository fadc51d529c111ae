"""A judge held against people: how well its scores agree with human grades of the same answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lm_eval_healthcare.judge.agreement import ORDINAL, krippendorff_alpha
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.grade_file import Grade, document_key, read_grades
from lm_eval_healthcare.judge.paired import (
    RESAMPLES,
    Statistic,
    exact,
    kendall,
    mean_difference,
    quadratic_kappa,
    spearman,
    within,
)

__all__ = ["Grade", "GradedDocument", "JudgedDocument", "MetaEvaluation", "meta_evaluation", "read_grades"]

MEAN, MEDIAN = "mean", "median"
_SHOWN = 5

Key = tuple[str, str, str]


@dataclass(frozen=True)
class JudgedDocument:
    """One answer that the judge was shown.

    Attributes:
        task: The task.
        doc_id: The document, as in the samples file.
        score: The judge's score; NaN for no verdict.
        model: The model that wrote the answer.
    """

    task: str
    doc_id: str | int
    score: float
    model: str = ""

    @property
    def key(self) -> Key:
        """By which grades are matched."""
        return self.task, self.model, document_key(self.doc_id)


@dataclass(frozen=True)
class GradedDocument:
    """One answer with both.

    Attributes:
        key: Task, model and document.
        human: The raters' grades combined.
        judge: The judge's score; NaN for no verdict.
        raters: Number of grades.
    """

    key: Key
    human: float
    judge: float
    raters: int


@dataclass(frozen=True)
class MetaEvaluation:
    """How well a judge agrees with people.

    Attributes:
        documents: The answers that were judged and graded by people.
        scale: The lowest and the highest score.
        combined: How several raters' grades of an answer were made one: `mean` or `median`.
        empty_grades: Rows of the file without a grade.
        unmatched_grades: Task, model and document of graded answers that were not judged.
        unmatched_documents: The same of judged answers without a grade.
        exact: Share of answers with equal scores, as are those that follow over answers with a verdict.
        within_one: Share of answers with scores at most 1 apart.
        kappa: Cohen's kappa with quadratic weights.
        spearman: Spearman's rank correlation.
        kendall: Kendall's tau-b.
        error: Mean of judge less human with a 95% interval; above 0 if the judge is milder.
        confusion: Human grade (rows, lowest first) by judge's score (columns, lowest first, the last one for no
            verdict), both rounded to whole numbers, halves up.
        rounded: Answers for which rounding changed one of the two.
        raters: The raters' names.
        raters_alpha: Krippendorff's ordinal alpha of the raters among themselves.
    """

    documents: tuple[GradedDocument, ...]
    scale: tuple[int, int]
    combined: str
    empty_grades: int
    unmatched_grades: tuple[Key, ...]
    unmatched_documents: tuple[Key, ...]
    exact: Statistic
    within_one: Statistic
    kappa: Statistic
    spearman: Statistic
    kendall: Statistic
    error: Statistic
    confusion: NDArray[np.int64]
    rounded: int
    raters: tuple[str, ...]
    raters_alpha: Statistic

    @property
    def no_verdict(self) -> int:
        """Graded answers without a verdict of the judge."""
        return sum(math.isnan(one.judge) for one in self.documents)

    def lines(self) -> list[str]:
        """Return it in words, without the confusion matrix."""
        said = [
            f"{len(self.documents)} answers both judged and graded by people, "
            f"{self.no_verdict} of them without a verdict",
            *_unmatched("graded answers were not judged", self.unmatched_grades),
            *_unmatched("judged answers have no grade", self.unmatched_documents),
        ]
        if self.empty_grades:
            said.append(f"{self.empty_grades} rows without a grade")
        if len(self.raters) > 1:
            said.append(f"{len(self.raters)} raters, their grades combined by {self.combined}")
            said.append(f"Krippendorff's alpha among the raters (ordinal): {self.raters_alpha}")
        named = {
            "same score": self.exact, "at most 1 apart": self.within_one, "quadratic kappa": self.kappa,
            "Spearman": self.spearman, "Kendall's tau-b": self.kendall, "mean error (judge - human)": self.error,
        }  # fmt: skip
        return said + [f"{name}: {value}" for name, value in named.items()]

    def rows(self) -> list[dict[str, object]]:
        """Return the confusion matrix as a table."""
        names = [*map(str, range(self.scale[0], self.scale[1] + 1))]
        return [
            {"human": name, **dict(zip([*names, "no verdict"], row, strict=True))}
            for name, row in zip(names, self.confusion.tolist(), strict=True)
        ]


def meta_evaluation(
    judged: Iterable[JudgedDocument],
    grades: Sequence[Grade],
    rng: np.random.Generator,
    scale: tuple[int, int] = (1, 5),
    combine: str = MEDIAN,
    resamples: int = RESAMPLES,
) -> MetaEvaluation:
    """Compare a judge's scores with people's grades.

    Args:
        judged: The answers that were judged, each once.
        grades: People's grades; see `read_grades`. Those without a task belong to the one task that was judged, those
            without a model to the one model.
        rng: Draws the documents of the interval.
        scale: The lowest and the highest score.
        combine: What is made of several raters' grades of an answer: `median` or `mean`.
        resamples: How often documents are drawn.

    Raises:
        JudgeError: If `combine` is neither, a document was judged twice, a score is off the scale, or grades do not say
            to which of several tasks or models they belong.
    """
    if combine not in (MEAN, MEDIAN):
        raise JudgeError(f"raters combined by '{combine}': expected {MEDIAN} or {MEAN}")
    scores = _scores(judged, scale)
    by_key = _by_key(grades, scores)
    one_of = statistics.median if combine == MEDIAN else statistics.fmean
    documents = tuple(
        GradedDocument(key, float(one_of(by_key[key].values())), score, len(by_key[key]))
        for key, score in scores.items()
        if key in by_key
    )
    human, judge = (
        np.array([getattr(one, side) for one in documents], dtype=np.float64) for side in ("human", "judge")
    )
    confusion, rounded = _confusion(human, judge, scale)
    raters = tuple(sorted({rater for of_key in by_key.values() for rater in of_key}))
    return MetaEvaluation(
        documents=documents,
        scale=scale,
        combined=combine,
        empty_grades=sum(math.isnan(one.grade) for one in grades),
        unmatched_grades=tuple(key for key in by_key if key not in scores),
        unmatched_documents=tuple(key for key in scores if key not in by_key),
        exact=exact(judge, human),
        within_one=within(judge, human),
        kappa=quadratic_kappa(judge, human),
        spearman=spearman(judge, human),
        kendall=kendall(judge, human),
        error=mean_difference(judge, human, rng, resamples),
        confusion=confusion,
        rounded=rounded,
        raters=raters,
        raters_alpha=_raters_alpha(by_key, raters),
    )


def _scores(judged: Iterable[JudgedDocument], scale: tuple[int, int]) -> dict[Key, float]:
    scores: dict[Key, float] = {}
    for one in judged:
        if one.key in scores:
            raise JudgeError(f"document {_named(one.key)} was judged twice; give the results of one run of each model")
        if not (math.isnan(one.score) or scale[0] <= one.score <= scale[1]):
            raise JudgeError(f"document {_named(one.key)} has score {one.score}; expected {scale[0]} to {scale[1]}")
        scores[one.key] = float(one.score)
    return scores


def _by_key(grades: Sequence[Grade], scores: Mapping[Key, float]) -> dict[Key, dict[str, float]]:
    """The grades of each answer by rater, those without a grade left out."""
    tasks, models = (sorted({key[place] for key in scores}) for place in (0, 1))
    by_key: dict[Key, dict[str, float]] = {}
    for one in grades:
        if math.isnan(one.grade):
            continue
        key = (_only("task", one.task, tasks, one), _only("model", one.model, models, one), one.doc_id)
        of_key = by_key.setdefault(key, {})
        if one.rater in of_key:
            raise JudgeError(
                f"line {one.line} of the grades: document {_named(key)} has two grades"
                f"{f' by rater {one.rater!r}' if one.rater else ' without a rater'}; expected one"
            )
        of_key[one.rater] = one.grade
    return by_key


def _only(what: str, given: str | None, judged: Sequence[str], grade: Grade) -> str:
    if given is not None:
        return given
    if len(judged) > 1:
        raise JudgeError(
            f"line {grade.line} of the grades does not say of which {what} it is, and {len(judged)} were judged "
            f"({', '.join(judged[:_SHOWN])}{', ...' if len(judged) > _SHOWN else ''}); add a column {what}, or give "
            f"the results of one {what}"
        )
    return judged[0] if judged else ""


def _confusion(
    human: NDArray[np.float64], judge: NDArray[np.float64], scale: tuple[int, int]
) -> tuple[NDArray[np.int64], int]:
    size = scale[1] - scale[0] + 1
    matrix = np.zeros((size, size + 1), dtype=np.int64)
    whole_human, whole_judge = np.floor(human + 0.5), np.floor(judge + 0.5)
    for row, column in zip(whole_human, whole_judge, strict=True):
        matrix[int(row) - scale[0], size if math.isnan(column) else int(column) - scale[0]] += 1
    changed = (whole_human != human) | (np.isfinite(judge) & (whole_judge != judge))
    return matrix, int(changed.sum())


def _raters_alpha(by_key: Mapping[Key, Mapping[str, float]], raters: Sequence[str]) -> Statistic:
    matrix = np.array(
        [[of_key.get(rater, math.nan) for of_key in by_key.values()] for rater in raters], dtype=np.float64
    )
    return krippendorff_alpha(matrix.reshape(len(raters), len(by_key)), ORDINAL)


def _named(key: Key) -> str:
    task, model, doc_id = key
    return f"{doc_id} of {task}" + (f" by {model}" if model else "")


def _unmatched(what: str, keys: Sequence[Key]) -> list[str]:
    if not keys:
        return []
    return [f"{len(keys)} {what}: {'; '.join(map(_named, keys[:_SHOWN]))}{'; ...' if len(keys) > _SHOWN else ''}"]

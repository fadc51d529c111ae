"""The section of the HTML report on self-consistency and on resilience to rewording: tables and pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_healthcare.report import study_drawings
from lm_eval_healthcare.report.html_data import shown
from lm_eval_healthcare.report.html_parts import MOST_LISTED, Names, details, escape, plain_table, rest, scroll
from lm_eval_healthcare.report.study_files import StudyFile
from lm_eval_healthcare.report.study_numbers import (
    RESILIENCE,
    Distribution,
    coefficients,
    distributions,
    noises,
    number,
    objects,
    part,
    whole,
)

TITLE = "Asked again, reworded"
_MOST_BARS = 40
_SCALED = "Variances are divided by the squared range of the metric over the data, so that metrics can be compared."
_MEANING = {
    "self-consistency": (
        "Self-consistency",
        "How much each metric differs between several answers of one model to one question. " + _SCALED,
    ),
    "resilience": (
        "Resilience to rewording",
        "How much each metric moves when an answer is reworded and, as far as checks can tell, means the same. "
        + _SCALED,
    ),
}


def studies(found: Sequence[StudyFile]) -> str:
    """Return the body of the section.

    Args:
        found: The studies.
    """
    names = Names([str(run.get("model")) for one in found for run in objects(one.content, "runs")])
    return "\n".join(_study(one, names) for one in found)


def style() -> str:
    """Return the style rules of the pictures."""
    return study_drawings.style()


def _study(study: StudyFile, names: Names) -> str:
    content = study.content
    resilient = content["study"] == RESILIENCE
    title, meaning = _MEANING[content["study"]]
    rows = distributions(content)
    out = [
        f"<h3>{title}</h3>",
        f'<p>{meaning}</p><p class="legend"><code>{escape(study.path)}</code></p>',
        _metrics(content, rows, resilient=resilient),
        _picture(
            study_drawings.strips(rows, "scaled variance of a question", log=True),
            "One dot a question; line: the middle half; bar: median; diamond: mean. A variance of exactly 0 lies at 0.",
            "No picture of the variances: no metric has one.",
        ),
        _picture(
            study_drawings.metrics(rows, "mean of the scaled variances", "variance of the scaled variances"),
            "Left and low is steady. Metrics of one colour and shape are one cluster; those at 0 are not shown.",
            "No picture of means and variances of variances: no metric has both above 0.",
        ),
    ]
    if not resilient:
        out += _of_consistency(content)
    out += [_flags(content, names), _rewordings(content), _left_out(content)]
    return "\n".join(part for part in out if part)


def _picture(svg: str, legend: str, otherwise: str) -> str:
    if not svg:
        return f"<p>{otherwise}</p>"
    return f'{scroll(legend, svg)}<p class="legend">{legend}</p>'


def _metrics(content: Mapping[str, Any], rows: Sequence[Distribution], *, resilient: bool) -> str:
    metrics = part(content, "metrics")
    head = ["Metric", "Mean scaled variance", "Variance of variances", "Questions", "Undefined", "Cluster"]
    head += ["Versions", "Mean change"] if resilient else ["Answers", "Mean CV", "Mean"]
    head.append("Flags")
    body = []
    for one in rows[:MOST_LISTED]:
        about = part(metrics, one.name)
        cells = [
            escape(one.name), shown(one.mean), shown(one.spread), f"{one.n_prompts:,}",
            _count(about.get("n_undefined")), str(one.cluster or "–"),
        ]  # fmt: skip
        if resilient:
            cells += [_count(about.get("versions")), shown(number(about.get("mean_change")))]
        else:
            cells += [
                _count(about.get("repeats")),
                shown(number(about.get("mean_cv"))),
                shown(number(about.get("mean"))),
            ]
        body.append([*cells, escape(", ".join(_texts(about.get("flags"))))])
    return plain_table(head, body, "Metrics of the study") + rest(len(rows))


def _of_consistency(content: Mapping[str, Any]) -> list[str]:
    found = noises(content)
    more = f" The first {_MOST_BARS} of {len(found)}." if len(found) > _MOST_BARS else ""
    return [
        _picture(
            study_drawings.strips(coefficients(content), "standard deviation / mean", log=False),
            "Coefficients of variation. A metric that can be below 0 has none.",
            "No picture of the coefficients of variation: no metric has one.",
        ),
        _picture(
            study_drawings.bars(found[:_MOST_BARS]),
            "Where the error of a mean comes from. Blue: prediction noise, which more answers a question lessen; "
            f"orange: data noise, which only more questions lessen.{more}",
            "No picture of the noise: no mean has one.",
        ),
        _pairs(content),
    ]


def _pairs(content: Mapping[str, Any]) -> str:
    found = objects(content, "pairs")
    if not found:
        return ""
    body = [
        [escape(" − ".join(_texts(one.get("models")))), escape(one.get("task")), escape(one.get("metric")),
         shown(number(one.get("difference"))), shown(number(one.get("se"))), _count(one.get("n"))]
        for one in found[:MOST_LISTED]
    ]  # fmt: skip
    head = ["Models", "Task", "Metric", "Difference", "Standard error", "Questions"]
    table = plain_table(head, body, "Pairs of models on the same questions")
    return details(f"Pairs of models on the same questions ({len(found)})", table + rest(len(found)))


def _flags(content: Mapping[str, Any], names: Names) -> str:
    found = [
        f"<li>{names(str(run.get('model')))}, {escape(run.get('task'))}: {escape(flag.get('text') or flag.get('flag'))}"
        "</li>"
        for run in objects(content, "runs")
        for flag in objects(run, "flags")
    ]
    if not found:
        return ""
    listed = f"<ul>{''.join(found[:MOST_LISTED])}</ul>{rest(len(found))}"
    return f'<div class="warn" role="note"><h4>To beware of</h4>{listed}</div>'


def _rewordings(content: Mapping[str, Any]) -> str:
    about = part(content, "rewordings")
    accepted, missing = whole(about.get("accepted")), whole(about.get("missing"))
    if accepted is None:
        return ""
    text = f"{accepted:,} rewordings were accepted, {missing or 0:,} are missing."
    reasons = Counter({str(why): whole(n) or 0 for why, n in part(about, "rejected_by_reason").items()})
    listed = ", ".join(f"{escape(why.replace('_', ' '))} {n:,}" for why, n in reasons.most_common() if n)
    return f"<p>{text}{f' Rejected: {listed}.' if listed else ''}</p>"


def _left_out(content: Mapping[str, Any]) -> str:
    found = objects(content, "left_out")
    if not found:
        return ""
    items = "".join(
        f"<li>{escape(one.get('what'))}: {escape(one.get('why'))}</li>" for one in found[:MOST_LISTED]
    )  # fmt: skip
    return details(f"Left out ({len(found)})", f"<ul>{items}</ul>{rest(len(found))}")


def _count(value: Any) -> str:
    found = number(value)
    return "–" if math.isnan(found) else f"{found:,.0f}"


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [str(one.get("flag") if isinstance(one, Mapping) else one) for one in value]

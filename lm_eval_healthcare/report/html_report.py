"""One HTML file from results: no network, no external script, every text escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from lm_eval_healthcare.report import html_coverage, html_heatmap, html_parts, html_studies, html_tables
from lm_eval_healthcare.report.html_data import Report
from lm_eval_healthcare.report.html_parts import Names, escape

_SECTIONS = {
    "coverage": "Coverage and warnings",
    "overview": "Overview",
    "benchmarks": "Benchmarks",
    "samples": "Answers",
    "correlations": "Correlations",
    "studies": html_studies.TITLE,
    "made": "How it was made",
}
_DATA_ID = "samples-data"


def html_report(report: Report) -> str:
    """Return the page as a text that UTF-8 can hold; equal reports give equal texts.

    Scripts and styles of the page are allowed by their hashes and nothing else is, so that markup from an answer could
    not run even if it were not escaped.

    Args:
        report: What is shown.
    """
    names = Names([*html_parts.every_model(report), *((report.samples or {}).get("models") or [])])
    bodies = {
        "coverage": html_coverage.coverage(report, names),
        "overview": html_tables.overview(report, names),
        "benchmarks": html_tables.benchmarks(report, names),
        "samples": _samples(report),
        "correlations": html_heatmap.heatmaps(report.correlations),
        "studies": html_studies.studies(report.studies),
        "made": html_coverage.made(report),
    }
    shown = {key: title for key, title in _SECTIONS.items() if key != "studies" or report.studies}
    style, script = asset("report.css") + html_heatmap.colours(), asset("report.js")
    style += html_studies.style() if report.studies else ""
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in shown.items())
    sections = "\n".join(
        f'<section id="{key}" aria-labelledby="h-{key}"><h2 id="h-{key}" tabindex="-1">{title}</h2>{bodies[key]}'
        "</section>"
        for key, title in shown.items()
    )
    data = {**(report.samples or {}), "names": {m: names.plain(m) for m in (report.samples or {}).get("models", [])}}
    title = escape(report.made.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the results</a>\n'
        f'<header><h1>{title}</h1><p class="sub">{escape(report.made.date)}</p></header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main id="main" tabindex="-1">\n{sections}\n</main>\n'
        f'<script type="application/json" id="{_DATA_ID}">{embedded(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def policy(style: str, script: str) -> str:
    """Return the page's Content-Security-Policy: its own style and script by their hashes, nothing else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def embedded(data: Any) -> str:
    """Return JSON that can stand inside a script element: ASCII only, and nothing that markup begins with.

    Lone surrogates, NUL and U+2028 stay what they are, as escapes.

    Raises:
        ValueError: If the data hold NaN or infinity, which JSON has no word for.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """Return a packaged style or script."""
    return (files("lm_eval_healthcare.report") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _samples(report: Report) -> str:
    samples = report.samples
    if samples is None:
        return "<p>Answers were not asked for (<code>--no-samples</code>).</p>"
    notes = "".join(f"<li>{escape(note)}</li>" for note in dict.fromkeys(samples["notes"]))
    if samples["hidden"]:
        tasks = ", ".join(samples["hidden"])
        notes += f"<li>{escape(f'{tasks}: texts of credentialed data are never put into a report')}</li>"
    if not samples["docs"]:
        return (
            "<p>No answers are embedded: no sample files (<code>lm_eval --log_samples</code>) lie beside the results, "
            f"or none may be shown.</p><ul>{notes}</ul>"
        )
    options = "".join(
        f'<option value="{number}">{escape(task["name"])} ({task["shown"]} of {task["documents"]})</option>'
        for number, task in enumerate(samples["tasks"])
    )
    return (
        f'<p class="legend">{escape(samples["rule"])}</p><ul class="notes">{notes}</ul>'
        "<noscript><p>Searching the answers needs the page's script.</p></noscript>"
        '<div class="controls script"><label>Task <select id="s-task"><option value="">all tasks</option>'
        f'{options}</select></label><label>Search <input id="s-query" type="search" autocomplete="off" '
        'spellcheck="false" placeholder="questions, references, answers"></label>'
        '<label>Show <select id="s-show"><option value="">all</option><option value="differ">where models differ'
        '</option><option value="gap">with a score missing</option></select></label>'
        '<output id="s-count" aria-live="polite"></output></div>'
        '<div class="browser script"><div id="s-list" role="listbox" tabindex="0" aria-label="Documents">'
        '<div id="s-pad" role="presentation"></div></div>'
        '<article id="s-detail" tabindex="-1" aria-label="Answers to the chosen document"></article></div>'
    )

"""The HTML report: what is said, that nothing in an answer can run, and that a browser can use it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headless_browser import Browser, program
from lm_eval_healthcare.analysis.scores import Correlation
from lm_eval_healthcare.report import html_heatmap
from lm_eval_healthcare.report.html_data import (
    Breakdown,
    Made,
    RankInterval,
    Report,
    marks,
    means,
    measures,
    short_names,
    shown,
)
from lm_eval_healthcare.report.html_parts import escape, natural
from lm_eval_healthcare.report.html_report import embedded, html_report
from lm_eval_healthcare.report.html_samples import collect, documents_per_task
from lm_eval_healthcare.results.cell import GROUP, Cell, SetAside, Skipped, Table
from lm_eval_healthcare.results.discovery import RunFiles
from support import write_jsonl

NAN = float("nan")
MADE = Made("2026-01-02", "lm-eval-healthcare report x", "9.9.9")
ATTACKS = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "\"'><svg onload=window.hacked=3>",
    "<!--<script>",
    "]]></style><style>*{display:none}</style>",
    "a\u2028b\u2029c",
    "nul\x00 bell\x07",
    "lone \ud800 surrogate \udfff",
    "{{constructor.constructor('window.hacked=4')()}} ${window.hacked=5}",
    "\u202egnp.exe",
    "x" * 100_000,
]


def cell(model: str, task: str, value: float, stderr: float = NAN, metric: str = "acc", **more: Any) -> Cell:
    facts = {"higher_is_better": True, "n": 100, "n_total": 100, "coverage": 1.0, **more}
    return Cell(model, task, metric, "none", value, stderr, **facts)


def correlation(x: str, y: str, r: float = 0.9, **more: Any) -> Correlation:
    return Correlation(
        **{"x": x, "y": y, "method": "spearman", "r": r, "p": 0.01, "low": 0.5, "high": 0.99, "n": 7, **more}
    )


class Page(HTMLParser):
    """What a parser finds in a page: elements, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.raw:
            self._inside = tag
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def hostile_report(tmp_path: Path) -> Report:
    """A report in which every text that comes from outside is an attack."""
    table = Table()
    runs = []
    for number in range(2):
        model = f"org/{ATTACKS[number]}"
        file = tmp_path / f"m{number}" / "results_2026-01-01T00-00-00.000000.json"
        rows = [
            {
                "doc_id": place, "doc": {"q": attack, "category": attack}, "target": attack, "doc_hash": f"h{place:02}",
                "arguments": {"gen_args_0": {"arg_0": attack, "arg_1": {"until": []}}}, "resps": [[attack]],
                "filtered_resps": [attack], "filter": "none", "acc": float(place == number), "weird": math.inf,
                "judge": [{"judge": attack[:50], "score": 3, "reason": attack[:50], "text": attack}],
            }
            for place, attack in enumerate(ATTACKS)
        ]  # fmt: skip
        samples = file.with_name("samples_t_2026-01-01T00-00-00.000000.jsonl")
        samples.parent.mkdir(parents=True, exist_ok=True)
        samples.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        file.write_text("{}")
        runs.append(RunFiles(file.parent, "s", file, {"results": {}}, {"t": samples}))
        table.cells += [cell(model, task, 0.5 + number / 10, 0.01, file=file) for task in ("t", ATTACKS[2])]
    table.set_aside = [SetAside(cell(ATTACKS[3], ATTACKS[4], 0.1), ATTACKS[0])]
    table.skipped = [Skipped(Path(ATTACKS[1]), ATTACKS[7], broken=True)]
    table.notes = [ATTACKS[6], *ATTACKS[:2]]
    return Report(
        table,
        Made(ATTACKS[0], ATTACKS[1], ATTACKS[2], title=ATTACKS[0], paths=(ATTACKS[7],)),
        breakdowns=[Breakdown(table.cells[0].model, "t", ATTACKS[1], {ATTACKS[0]: {"n": 3, ATTACKS[4]: 0.5}})],
        samples=collect(runs, table, lambda task, content: False),
        correlations={ATTACKS[0]: [correlation(ATTACKS[1], ATTACKS[2], flags=(ATTACKS[0],), reason=ATTACKS[1])]},
        ranks=[RankInterval(table.cells[0].key, 1, 1, 2)],
    )


def test_nothing_from_outside_becomes_markup(tmp_path: Path) -> None:
    text = html_report(hostile_report(tmp_path))
    assert text.encode("utf-8")  # no lone surrogate is left
    page = Page(text)
    assert [attrs.get("type") for tag, attrs in page.elements if tag == "script"] == ["application/json", None]
    assert not {tag for tag, _ in page.elements} & {"img", "iframe", "object", "link", "base", "form", "embed"}
    assert sum(tag == "style" for tag, _ in page.elements) == 1
    for tag, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "src", "srcset")], (tag, attrs)
        assert attrs.get("href", "#").startswith("#")  # type: ignore[union-attr]
    assert "<img src=x onerror='window.hacked = 2'>" in page.text  # the text itself is there to be read


def test_embedded_texts_are_what_they_were(tmp_path: Path) -> None:
    page = Page(html_report(hostile_report(tmp_path)))
    data = json.loads(page.raw["script"][0])
    answers = [doc["a"][0]["x"] for doc in data["docs"]]
    assert answers[:-1] == ATTACKS[:-1]
    assert answers[-1] == "x" * 2000
    assert data["docs"][-1]["a"][0]["l"] == 100_000
    assert page.raw["script"][0].isascii()
    assert not re.search(r"[<>&]", page.raw["script"][0])
    place = data["tasks"][0]["metrics"].index("weird")
    assert data["docs"][0]["a"][0]["s"][place] == "inf"


def test_policy_allows_only_the_page_itself(tmp_path: Path) -> None:
    page = Page(html_report(hostile_report(tmp_path)))
    (policy,) = [
        a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for kind, text in (("script-src", page.raw["script"][1]), ("style-src", page.raw["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded({"x": NAN})


def test_escaping() -> None:
    assert escape('<a href="x">\'&\x00\ud800') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;\ufffd\ufffd"


def test_equal_reports_give_equal_pages(tmp_path: Path) -> None:
    assert html_report(hostile_report(tmp_path)) == html_report(hostile_report(tmp_path))


def test_marks_by_hand() -> None:
    """Best 0.80; 0.75 is 0.05 away, below 1.96 * sqrt(0.02² + 0.02²) = 0.0554; 0.74 is not."""
    found = marks([cell(m, "t", v, 0.02) for m, v in (("a", 0.8), ("b", 0.75), ("c", 0.74), ("d", 0.80004))])
    assert found == {"a": "best", "b": "near", "d": "best"}  # d: printed 0.8000 as well
    lower = [cell(m, "t", v, higher_is_better=False) for m, v in (("a", 2.0), ("b", 1.5), ("c", NAN))]
    assert marks(lower) == {"b": "best"}
    assert marks(lower[:1]) == {}
    assert marks([cell("a", "t", 1.0, higher_is_better=None), cell("b", "t", 2.0, higher_is_better=None)]) == {}
    disagreeing = [cell("a", "t", 1.0, higher_is_better=False), cell("b", "t", 2.0)]
    assert marks(disagreeing) == {}


def test_means_are_of_models_that_have_every_task() -> None:
    cells = [cell("a", "t", 0.2), cell("a", "u", 0.6), cell("b", "t", 0.9), cell("a", "g", 1.0, kind=GROUP)]
    assert means(cells) == (2, {"a": pytest.approx(0.4)})
    assert means([cell("a", t, 1.0, higher_is_better=False) for t in "tu"]) == (2, {})


def test_names_and_numbers() -> None:
    assert short_names(["/x/a/m1", "/y/a/m1", "m2", "org/m3/"]) == {
        "/x/a/m1": "x/a/m1", "/y/a/m1": "y/a/m1", "m2": "m2", "org/m3/": "m3",
    }  # fmt: skip
    assert short_names(["m", "o/m"]) == {"m": "m", "o/m": "o/m"}
    assert [shown(v) for v in (0.12345, -1.5, 12.345, 1234.56, 1.5e7, 1e-6, 0.0, NAN, math.inf)] == [
        "0.1235", "−1.500", "12.35", "1234.6", "1.5e+07", "1e−06", "0.0000", "–", "∞",
    ]  # fmt: skip
    assert sorted(["t10", "t9", "2", "10", "T1"], key=natural) == ["2", "10", "T1", "t9", "t10"]
    both = [cell("a", "t", 1, metric="bleu"), cell("b", "t", 1, metric="bleu"), cell("a", "t", 1)]
    assert measures(both) == [("bleu", "none"), ("acc", "none")]
    assert measures(both, "acc")[0] == ("acc", "none")


def test_coverage_comes_first_and_says_what_is_missing() -> None:
    table = Table(
        [cell("org/a", "t", 0.5, 0.1), cell("org/b", "t", 0.4, 0.1, n=50), cell("org/a", "u", 0.3, coverage=0.97)],
        [SetAside(cell("org/c", "t", 0.9, n=10), "partial: 10 of 100 documents")],
        [Skipped(Path("cut.json"), "the file is cut", broken=True)],
        ["two protocols are mixed"],
    )
    page = Page(html_report(Report(table, MADE)))
    text = page.text
    assert [a["id"] for t, a in page.elements if t == "section"] == [
        "coverage", "overview", "benchmarks", "samples", "correlations", "made",
    ]  # fmt: skip
    for words in (
        "two protocols are mixed", "1 files are cut, empty or no JSON", "1 chosen values are from runs over a part",
        "1 chosen values leave out documents", "1 pair of model and task with results that were all set aside",
        "50 of 100", "97.0%", "the file is cut", "2026-01-02", "lm-eval-healthcare report x",
    ):  # fmt: skip
        assert words in text, words
    titles = [a.get("title") for t, a in page.elements if t == "td" and a.get("class") == "gone"]
    assert titles.count("set aside: partial: 10 of 100 documents") == 1  # c has no t: visibly, with the reason
    assert titles.count("no result") >= 2  # b and c have no u
    complete = Page(html_report(Report(Table([cell("a", "t", 0.5)]), MADE))).text
    assert "No warnings" in complete
    assert "No value was chosen" in Page(html_report(Report(Table(), MADE))).text


def test_breakdowns_and_ranks_are_shown() -> None:
    table = Table([cell("a", "t", 0.5, 0.1), cell("b", "t", 0.4, 0.1)])
    table.cells.append(cell("a", "t", 0.7, metric="acc_year_2020", extra={"part_of": "acc"}))
    years = Breakdown(
        "a", "t", "year", {"2021": {"n": 4, "acc": 0.25, "acc_stderr": 0.05}, "2020": {"n": 6, "acc": 0.75}}
    )
    ranks = [RankInterval(("a", "t", "acc", "none"), 1, 1, 2)]
    text = html_report(Report(table, MADE, breakdowns=[years], ranks=ranks))
    assert "By year: acc" in text
    assert text.index("<bdi>2020</bdi>") < text.index("<bdi>2021</bdi>")
    assert "0.2500<small>±0.0500, n = 4" in text
    assert "rank 1 (1 to 2)" in text
    assert "acc_year_2020" not in text  # a part of a metric is no metric of its own


def test_heatmap_cells() -> None:
    assert [html_heatmap.step(r) for r in (-1, -0.5, 0, 0.26, 1)] == [0, 5, 10, 13, 20]
    text = html_heatmap.heatmaps(
        {"All": [
            correlation("a", "b", -0.5, flags=("few_models",), sensitivity=(-0.75, -0.25)),
            correlation("a", "c", NAN, reason="constant", n=6, p=NAN, low=NAN, high=NAN),
            correlation("b", "d", 0.5),
        ]}
    )  # fmt: skip
    page = Page(text)
    cells = [a for t, a in page.elements if t == "td" and "title" in a]
    by_title = {a["title"]: a["class"] for a in cells}
    told = "r = −0.500; n = 7 models; 95% interval 0.50 to 0.99; p = 0.0100"
    told += "; one model left out: −0.75 to −0.25; few models"
    assert by_title[f"a, b: {told}"] == "c5 few"
    assert by_title["a, c: undefined, one of the two is constant; n = 6"] == "gone"
    assert by_title["c, d: not computed"] == "gone"
    assert len(cells) == 16  # four columns, square
    assert "at least three models" in html_heatmap.heatmaps({})
    colours = re.findall(r"\.c(\d+)\{background:rgb\((\d+),(\d+),(\d+)\)", html_heatmap.colours())
    assert [colours[0][1:], colours[10][1:], colours[20][1:]] == [
        ("213", "94", "0"), ("247", "247", "247"), ("0", "114", "178"),
    ]  # fmt: skip


def test_answers_are_shared_evenly() -> None:
    sizes = {"large": (20, 100), "small": (1, 5)}
    assert documents_per_task(sizes, 105) == {"large": 5, "small": 5}  # 20 * 5 + 1 * 5
    assert documents_per_task(sizes, 104) == {"large": 4, "small": 4}  # 20 * 4 + 1 * 4 = 84; the next step is too much
    assert documents_per_task(sizes, 10**6) == {"large": 100, "small": 5}
    assert documents_per_task(sizes, 0) == {"large": 0, "small": 0}
    assert documents_per_task({}, 5) == {}


def a_run(folder: Path, model: str, rows: list[dict[str, Any]], stamp: str = "2026-01-01T00-00-00.000000") -> RunFiles:
    samples = write_jsonl(folder / model / f"samples_t_{stamp}.jsonl", rows)
    results = samples.with_name(f"results_{stamp}.json")
    results.write_text("{}")
    content = {
        "results": {"t": {}},
        "model_name": model,
        "configs": {"t": {"doc_to_text": "{{q}}", "description": "Do. "}},
    }
    return RunFiles(samples.parent, stamp, results, content, {"t": samples})


def a_row(number: int, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": number, "doc": {"q": f"question {number}", "year": 2020}, "target": f"reference {number}",
        "arguments": {"gen_args_0": {"arg_0": "p", "arg_1": {"until": []}}}, "resps": [[answer]],
        "filtered_resps": [answer], "filter": "none", "doc_hash": f"{9 - number}", **more,
    }  # fmt: skip


def of_runs(*runs: RunFiles, n: int = 10) -> Table:
    return Table([
        cell(run.model, "t", 0.5, n=n, n_total=n, file=run.results, date=float(place)) for place, run in enumerate(runs)
    ])  # fmt: skip


def test_the_same_documents_of_every_model(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, m, [a_row(i, f"{m} {i}", acc=i / 10) for i in order]) for m, order in
            (("a", range(10)), ("b", reversed(range(10))))]  # fmt: skip
    found = collect(runs, of_runs(*runs), lambda task, content: False, max_samples=6)
    # 6 answers, 2 models: 3 documents; hashes run from 9 for document 0 to 0 for document 9.
    assert [doc["i"] for doc in found["docs"]] == [7, 8, 9]
    assert [[answer["x"] for answer in doc["a"]] for doc in found["docs"]] == [[f"a {i}", f"b {i}"] for i in (7, 8, 9)]
    assert found["docs"][0]["q"] == ("question 7", None)  # the instruction, equal for all, is left out
    assert found["docs"][0]["r"] == ("reference 7", None)
    assert found["docs"][0]["g"] == {"year": "2020"}
    assert found["tasks"] == [{"name": "t", "metrics": ["acc"], "helpers": 0, "documents": 10, "shown": 3}]


def test_scores_of_a_later_judge_join_the_answer(tmp_path: Path) -> None:
    first = a_run(tmp_path, "a", [a_row(1, "yes", bleu=0.25)])
    verdict = {"judge": "judge1", "score": 4, "reason": None, "text": "good"}
    later = a_run(tmp_path, "a", [a_row(1, "yes", prometheus=4.0, judge=[verdict])], "2026-01-02T00-00-00.000000")
    found = collect([first, later], of_runs(first, later), lambda task, content: False)
    (answer,) = found["docs"][0]["a"]
    assert dict(zip(found["tasks"][0]["metrics"], answer["s"], strict=True)) == {"bleu": 0.25, "prometheus": 4.0}
    assert answer["j"] == [{"j": "judge1", "s": 4.0, "r": None, "x": "good"}]
    other = a_run(tmp_path, "a", [a_row(1, "no", bleu=0.5)], "2026-01-03T00-00-00.000000")
    (answer,) = collect([first, other], of_runs(first, other), lambda task, content: False)["docs"][0]["a"]
    assert (answer["x"], answer["s"]) == ("no", [0.5])  # another answer: the newest, with its own scores only


def test_choices_name_what_was_chosen(tmp_path: Path) -> None:
    row = a_row(1, "", acc=1.0) | {
        "target": "1", "filtered_resps": [["-3.5", "False"], ["-1.25", "True"]], "resps": [],
        "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": " no"}, "gen_args_1": {"arg_0": "q", "arg_1": " yes"}},
    }  # fmt: skip
    run = a_run(tmp_path, "a", [row])
    (doc,) = collect([run], of_runs(run), lambda task, content: False)["docs"]
    assert doc["a"][0]["x"] == "yes"
    assert doc["a"][0]["c"] == [["no", -3.5], ["yes", -1.25]]
    assert doc["r"] == ("yes", None)


def test_credentialed_texts_stay_out(tmp_path: Path) -> None:
    run = a_run(tmp_path, "a", [a_row(1, "SECRET")])
    found = collect([run], of_runs(run), lambda task, content: task == "t")
    assert (found["docs"], found["hidden"]) == ([], ["t"])
    page = html_report(Report(of_runs(run), MADE, samples=found))
    assert "SECRET" not in page
    assert "t: texts of credentialed data are never put into a report" in page
    hidden = a_run(tmp_path, "b", [a_row(1, "SECRET", doc={"hidden_row": 1, "text": "(hidden)"})])
    assert collect([hidden], of_runs(hidden), lambda task, content: False)["hidden"] == ["t"]


def test_faults_of_sample_files_are_told(tmp_path: Path) -> None:
    run = a_run(tmp_path, "a", [a_row(1, "x"), a_row(2, "y")])
    path = run.samples["t"]
    path.write_text(path.read_text()[:-30])
    found = collect([run], of_runs(run), lambda task, content: False)
    assert [doc["i"] for doc in found["docs"]] == [1]
    assert "is cut and was skipped" in found["notes"][0]
    path.write_text("")
    assert "empty" in collect([run], of_runs(run), lambda task, content: False)["notes"][0]
    alone = collect([], of_runs(run), lambda task, content: False)
    assert alone["notes"] == ["1 pairs of model and task have results but no sample file beside them"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("no browser on this machine")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def test_a_browser_runs_nothing_that_answers_hold(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(html_report(hostile_report(tmp_path)).encode())
    browser.size(1200, 800)
    browser.open(path)
    browser.js("document.getElementById('samples').scrollIntoView()")
    browser.until("document.getElementById('s-count').textContent")
    assert browser.js("document.getElementById('s-count').textContent") == f"{len(ATTACKS)} of {len(ATTACKS)} documents"
    browser.js("document.getElementById('s-list').focus()")
    for attack in ATTACKS[:-1]:
        read = browser.js("JSON.stringify(document.querySelector('#s-detail .text').textContent)")
        assert json.loads(read) == attack
        assert browser.js("document.querySelectorAll('#s-detail .answer').length") == 2
        browser.key("ArrowDown")
    assert "the first 2000 of 100000 characters" in browser.js("document.getElementById('s-detail').textContent")
    assert browser.js("typeof window.hacked") == "undefined"
    assert browser.js("document.querySelectorAll('main img, main script, main style, main svg').length") == 0
    assert browser.faults() == []
    assert {url.partition(":")[0] for url in browser.asked_for()} == {"file"}


def test_a_browser_stops_what_was_slipped_in(browser: Browser, tmp_path: Path) -> None:
    """Even if escaping failed, the policy holds: the same page with a script and a handler in its text runs neither."""
    page = html_report(Report(Table([cell("a", "t", 0.5)]), MADE))
    path = tmp_path / "report.html"
    path.write_text(
        page.replace("<main", "<script>window.hacked=1</script><img src=x onerror=window.hacked=2><main", 1)
    )
    browser.open(path)
    assert browser.js("typeof window.hacked") == "undefined"
    assert browser.faults()


def test_a_browser_searches_sorts_and_moves_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    runs = [
        a_run(tmp_path, m, [a_row(i, f"{m} says Ménière {i}" if i == 7 else m, acc=1.0) for i in range(10)])
        for m in "ab"
    ]
    table = of_runs(*runs)
    table.cells += [cell("a", "u", 0.2), cell("b", "u", 0.1), cell("c", "u", 0.3)]
    samples = collect(runs, table, lambda task, content: False)
    pairs = {"All": [correlation("t/acc", "u/acc"), correlation("t/acc", "v/acc", 0.25)]}
    path = tmp_path / "report.html"
    path.write_text(html_report(Report(table, MADE, samples=samples, correlations=pairs)), encoding="utf-8")
    browser.size(390, 800)
    browser.open(path)
    assert browser.js("document.documentElement.scrollWidth <= 390")  # a phone: only tables scroll sideways
    browser.key("Tab")
    assert browser.js("document.activeElement.textContent") == "Skip to the results"
    order = "[...document.querySelectorAll('.measure.on tbody th')].map(one => one.textContent).join('')"
    assert browser.js(order) == "abc"
    browser.js("[...document.querySelectorAll('.measure.on thead button')].at(-1).click()")
    assert browser.js(order) == "cab"  # by u: 0.3, 0.2, 0.1
    browser.js("[...document.querySelectorAll('.measure.on thead button')].at(-2).click()")
    assert browser.js(order)[-1] == "c"  # no value of t: last, whatever the direction
    browser.js("[...document.querySelectorAll('.measure.on thead button')].at(-2).click()")
    assert browser.js(order)[-1] == "c"
    browser.js("document.getElementById('samples').scrollIntoView()")
    browser.until("document.getElementById('s-count').textContent")
    browser.js(
        "(q => { q.value = 'meniere'; q.dispatchEvent(new Event('input')); })(document.getElementById('s-query'))"
    )
    browser.until("document.getElementById('s-count').textContent === '1 of 10 documents'")
    assert browser.js("document.querySelector('#s-detail mark').textContent") == "Ménière"
    browser.js("document.querySelector('.heat td[tabindex]').focus()")
    browser.key("ArrowRight")
    assert browser.js("document.querySelector('.readout').textContent").startswith("t/acc, v/acc: r = 0.250; n = 7")


def test_a_browser_holds_few_of_many_rows(browser: Browser, tmp_path: Path) -> None:
    run = a_run(tmp_path, "a", [a_row(i, f"answer {i}", doc_hash=f"{i:06}") for i in range(20_000)])
    run.content["configs"] = {}  # the question is then the prompt, which needs no template
    table = of_runs(run, n=20_000)
    samples = collect([run], table, lambda task, content: False)
    assert len(samples["docs"]) == 20_000
    path = tmp_path / "report.html"
    path.write_text(html_report(Report(table, MADE, samples=samples)), encoding="utf-8")
    browser.size(1200, 800)
    browser.open(path)
    browser.js("document.getElementById('samples').scrollIntoView()")
    browser.until("document.getElementById('s-count').textContent === '20000 of 20000 documents'")
    browser.js("document.getElementById('s-list').focus()")
    browser.key("End")
    assert "answer 19999" in browser.js("document.getElementById('s-detail').textContent")
    assert 5 < browser.js("document.querySelectorAll('#s-list .row').length") < 60

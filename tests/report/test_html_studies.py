"""The section on studies in the HTML report: its numbers, its pictures, and that nothing in it can run."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.report import html_studies
from lm_eval_healthcare.report.html_data import Made, Report
from lm_eval_healthcare.report.html_parts import MOST_LISTED
from lm_eval_healthcare.report.html_report import html_report
from lm_eval_healthcare.report.study_files import StudyFile, find_studies
from lm_eval_healthcare.results.cell import Table
from reworded_files import consistency_study, resilience_study

MADE = Made("2026-01-02", "lm-eval-healthcare report x", "9.9.9")
ATTACKS = [
    "</script><script>window.hacked = 1</script>", "\"'><svg onload=window.hacked=3>", "</title><img src=x onerror=1>",
    "nul\x00 \ud800 lone", "x" * 5000,
]  # fmt: skip


def page(*studies: dict[str, Any]) -> str:
    found = [StudyFile(Path("/x/resilience.json"), study) for study in studies]
    return html_report(Report(Table(), MADE, studies=found))


def pictures(text: str) -> list[ET.Element]:
    """Every picture, read by an XML parser, so that it is whole and nothing in it is markup that was not meant."""
    return [ET.fromstring(one) for one in re.findall(r"<svg .*?</svg>", text, re.DOTALL)]


def test_nothing_without_a_study() -> None:
    text = html_report(Report(Table(), MADE))
    assert 'id="studies"' not in text
    assert html_studies.TITLE not in text
    assert ".study" not in text


def test_resilience_with_table_and_pictures() -> None:
    text = page(resilience_study(rougeL=[0.01, 0.03, None], bleu=[0.0, 0.002, 0.004]))
    assert f">{html_studies.TITLE}</a>" in text
    assert "<td>rougeL</td><td>0.0200</td><td>0.0001</td><td>3</td><td>1</td>" in text  # mean of 0.01 and 0.03
    assert "9 rewordings were accepted, 3 are missing. Rejected: number lost 5." in text
    assert "3 of 12 rewordings are missing" in text
    assert "org/two, olaph: no rewordings" in text
    strips, scatter = pictures(text)
    circles = [one for one in strips if one.tag == "circle"]
    assert len(circles) == 2 + 3  # a dot for each variance that exists
    words = [one.text for one in strips if one.tag == "text"]
    assert {"bleu", "rougeL", "n = 2 of 3, 1 undefined"} <= set(words)
    assert len([one for one in scatter if one.tag == "path"]) == 2


def test_self_consistency_with_coefficients_noise_and_pairs() -> None:
    text = page(consistency_study(rougeL=[0.01, 0.04], bleu=[0.002, 0.004]))
    *_, coefficients, noise = pictures(text)
    assert len(pictures(text)) == 4
    assert "standard deviation / mean" in [one.text for one in coefficients if one.tag == "text"]
    wide = [float(one.get("width", 0)) for one in noise if one.tag == "rect"]
    # 0.03^2 of 0.03^2 + 0.04^2 is 9/25 = 36% of the bar.
    assert wide[0] / (wide[0] + wide[1]) == pytest.approx(0.36, abs=0.001)
    assert "org/one − org/two" in text
    assert "0.0123" in text


def test_a_long_list_of_flags_says_that_it_goes_on() -> None:
    study = resilience_study(a=[0.1, 0.2])
    study["runs"][0]["flags"] = [{"flag": "x", "n": 1, "text": f"flag {n}"} for n in range(MOST_LISTED + 1)]
    text = page(study)
    assert f"flag {MOST_LISTED - 1}<" in text
    assert f"flag {MOST_LISTED}<" not in text
    assert f"The first {MOST_LISTED} of {MOST_LISTED + 1} are listed." in text


def attributes(text: str) -> set[str]:
    """The names of all attributes that a parser finds."""
    found: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda _, attrs: found.update(name for name, _ in attrs)  # type: ignore[method-assign]
    parser.handle_startendtag = parser.handle_starttag  # type: ignore[method-assign]
    parser.feed(text)
    parser.close()
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_text_is_escaped(attack: str) -> None:
    study = consistency_study(**{attack: [0.01, 0.02], "b": [0.1, 0.2]})
    study["runs"][0] |= {"model": attack, "task": attack, "flags": [{"flag": attack, "text": attack, "n": 1}]}
    study["pairs"][0] |= {"models": [attack, attack], "task": attack, "metric": attack}
    study["left_out"] = [{"what": attack, "why": attack}]
    study["rewordings"]["rejected_by_reason"] = {attack: 3}
    study["metrics"]["b"]["flags"] = [attack]
    text = page(study)
    text.encode("utf-8")
    body = text[text.index('id="studies"') : text.index('id="made"')]
    assert "<script" not in body
    assert "<img" not in body
    assert "class" in attributes(body)
    assert body.count("<svg ") == 4 == body.count("</svg>") == len(pictures(body))
    # The page's policy forbids style attributes and whatever loads something.
    assert not {"style", "onload", "onerror", "href", "src"} & attributes(body)


def test_odd_studies_do_not_stop_the_page() -> None:
    for odd in (
        {"metrics": {"a": 3, "b": {"variances": "x", "n_prompts": [], "flags": {}}}, "runs": [3, {"metrics": 4}]},
        {"metrics": {}, "runs": {}, "pairs": 7, "left_out": [1], "rewordings": {"accepted": "x"}},
        {"metrics": {"a": {"variances": [None, -1.0, 1e300], "mean_variance": 1e300, "variance_of_variance": 1e-300}}},
    ):
        for kind in ("resilience", "self-consistency"):
            assert 'id="studies"' in page({"study": kind, **odd})


def test_studies_are_found_below_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "resilience.json").write_text(json.dumps(resilience_study(x=[0.1])))
    (tmp_path / "b" / "consistency.json").write_text(json.dumps(consistency_study(x=[0.1])))
    (tmp_path / "b" / "resilience.json").write_text('{"study": "something else"}')
    faults: list[str] = []
    found = find_studies([tmp_path, tmp_path / "a" / "resilience.json"], faults)
    assert [one.content["study"] for one in found] == ["self-consistency", "resilience"]
    assert faults == []
    (tmp_path / "b" / "consistency.json").write_text('{"study": ')
    assert len(find_studies([tmp_path], faults)) == 1
    assert "Make it again" in faults[0]


def test_the_command_shows_studies_that_lie_below_its_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "resilience.json").write_text(json.dumps(resilience_study(rougeL=[0.1, 0.2])))
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "-o", str(out), "--cache", "off"]) == 0
    assert "1 study" in capsys.readouterr().out
    assert '<svg class="study"' in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["results", "correlate"])
def test_other_commands_pass_studies_over(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "consistency.json").write_text(json.dumps(consistency_study(rougeL=[0.1, 0.2])))
    main([command, str(tmp_path), "--cache", "off", *(["-o", str(tmp_path / "out")] if command == "correlate" else [])])
    captured = capsys.readouterr()
    assert "1 file skipped\n" in captured.err
    assert "broken" not in captured.err

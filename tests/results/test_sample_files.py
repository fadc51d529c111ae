"""Sample files in all shapes that the harness has had, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare.results.references import references
from lm_eval_healthcare.results.results_file import ResultsError, read_results, values_by_filter
from lm_eval_healthcare.results.samples_file import (
    HIDDEN_ROW,
    SampleFile,
    arguments,
    completed,
    first_of,
    is_text,
    prediction,
)
from lm_eval_healthcare.results.texts import NoText, read_texts
from support import write_jsonl


def row(number: int = 0, answer: Any = "an answer", **more: Any) -> dict[str, Any]:
    """A row as the harness writes it today."""
    return {
        "doc_id": number,
        "doc": {"question": f"Question {number}?", "answer": f"answer {number}"},
        "target": f"answer {number}",
        "arguments": {"gen_args_0": {"arg_0": f"Question {number}?", "arg_1": {"until": []}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": "none",
        **more,
    }


def old_row(number: int = 0) -> dict[str, Any]:
    """A row as version 0.4.2 wrote it: arguments in lists, no filter, no hashes."""
    out = row(number, arguments=[[f"Question {number}?", {"until": []}]])
    del out["filter"]
    return out


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    texts = ["sep\u2028arator", "para\u2029graph", "next\u0085line", "carriage\rreturn", "form\x0cfeed"]
    file = SampleFile(write_jsonl(tmp_path / "s.jsonl", [row(n, text) for n, text in enumerate(texts)]))
    assert [prediction(one) for one in file] == texts
    assert file.cut is None


def test_blank_lines_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    lines = [json.dumps(row(n)) for n in range(3)]
    (tmp_path / "s.jsonl").write_bytes("\ufeff".encode() + "\r\n\r\n".join(lines).encode())
    assert [one["doc_id"] for one in SampleFile(tmp_path / "s.jsonl")] == [0, 1, 2]


def test_old_array_of_rows(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps([old_row(n) for n in range(4)], indent=2))
    texts = read_texts(tmp_path / "s.json")
    assert [(one.prediction, one.references, one.filter) for one in texts.rows] == [
        ("an answer", f"answer {n}", "none") for n in range(4)
    ]


@pytest.mark.parametrize("tail", ['{"doc_id": 4, "doc": {"questi', '{"doc_id": 4, "doc"\n', "\x00\x00\x00", "\ud83d"])
def test_cut_last_line_is_skipped_and_named(tmp_path: Path, tail: str) -> None:
    content = "".join(json.dumps(row(n)) + "\n" for n in range(4)) + tail
    (tmp_path / "s.jsonl").write_bytes(content.encode("utf-8", "surrogatepass"))
    file = SampleFile(tmp_path / "s.jsonl")
    assert len(list(file)) == 4
    assert file.cut == f"{tmp_path / 's.jsonl'}: line 5, the last one, is cut and was skipped"


@pytest.mark.parametrize("bad", ["{", "[1]", '{"a": 1}', '"text"', "\udcff"])
def test_bad_line_in_the_middle_refuses_the_file(tmp_path: Path, bad: str) -> None:
    lines = [json.dumps(row(0)), bad, json.dumps(row(1))]
    (tmp_path / "s.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultsError, match=r"s\.jsonl, line 2: not a row of JSON .* left out"):
        list(SampleFile(tmp_path / "s.jsonl"))


@pytest.mark.parametrize(
    ("content", "told"),
    [("", "the file is empty"), ("\n\n", "the file is empty"), ("{", "no whole row"), ("[]", "holds no rows"),
     ('[{"doc_id": 0', "not a JSON array")],
)  # fmt: skip
def test_files_without_rows(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "s.jsonl").write_text(content)
    with pytest.raises(ResultsError, match=told):
        list(SampleFile(tmp_path / "s.jsonl"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"gen_args_0": {"arg_0": "p", "arg_1": {"a": 1}}, "gen_args_1": {"arg_0": "q"}}, [["p", {"a": 1}], ["q"]]),
        ([["p", {"a": 1}]], [["p", {"a": 1}]]),
        (None, []),
        ("odd", []),
    ],
)
def test_arguments_of_both_shapes(given: Any, expected: Any) -> None:
    assert arguments({"arguments": given}) == expected


CHOICE = {"arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": " A"}}, "filtered_resps": [["-1.5", "False"]]}


def test_texts_are_told_from_log_likelihoods() -> None:
    assert is_text(row(), "generate_until")
    assert not is_text(row(), "multiple_choice")
    assert is_text(row(), None)
    assert not is_text(CHOICE, None)
    assert not is_text({"filtered_resps": CHOICE["filtered_resps"]}, None)
    assert not is_text({"arguments": {"gen_args_0": {"arg_0": "a text"}}, "filtered_resps": ["-12.5"]}, None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"filtered_resps": ["a"], "resps": [["b"]]}, "a"),
        ({"filtered_resps": [["a", "b", "c"]]}, "a"),  # a filter that keeps several
        ({"resps": [["b", "c"]]}, "b"),
        ({"filtered_resps": []}, None),
        ({"filtered_resps": [""]}, ""),
        ({"filtered_resps": ["None"]}, "None"),
        ({"filtered_resps": ["None"], "empty_prediction": 1.0}, None),
        ({"filtered_resps": ["None"], "empty_prediction": 0.0}, "None"),
        ({"filtered_resps": [None]}, None),
    ],
)
def test_the_text_that_was_scored(given: dict[str, Any], text: str | None) -> None:
    assert prediction(given) == text


def test_old_row_completed_as_the_harness_would_write_it() -> None:
    new = completed(old_row(3), "none")
    assert list(new) == [
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
        "doc_hash", "prompt_hash", "target_hash",
    ]  # fmt: skip
    assert new["arguments"] == {"gen_args_0": {"arg_0": "Question 3?", "arg_1": {"until": []}}}
    utils = pytest.importorskip("lm_eval.utils")
    doc = json.dumps(old_row(3)["doc"], indent=2, default=utils.handle_non_serializable, ensure_ascii=False)
    assert new["doc_hash"] == utils.hash_string(doc)
    assert new["prompt_hash"] == utils.hash_string("Question 3?")
    assert new["target_hash"] == utils.hash_string("answer 3")


def test_a_target_that_is_missing_does_not_become_a_text() -> None:
    old = row(0, target=None, doc={"question": "Which drug?", "options": ["None", "aspirin"]})
    assert references(old) is None
    assert references(completed(old, "none")) is None


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"resps": [["a", "b", "c"]], "filtered_resps": ["a"]}, 3),
        ({"resps": [["a", "b", "c"]], "filtered_resps": [["a", "b", "c"]]}, 3),
        ({"resps": [["a", "b", "c"]], "filtered_resps": ["b"]}, 1),  # a vote
        ({"resps": [["a"]], "filtered_resps": ["a"]}, 1),
        ({"resps": "odd"}, 1),
    ],
)
def test_how_many_answers_there_are(given: dict[str, Any], count: int) -> None:
    assert first_of(given) == count


def test_hashes_that_are_there_stay() -> None:
    hashes = {"doc_hash": "a", "prompt_hash": "b", "target_hash": "c"}
    assert {key: completed(row(0, **hashes), "none")[key] for key in hashes} == hashes


def test_every_filter_has_its_own_rows(tmp_path: Path) -> None:
    rows = [row(n, answer, filter=name) for name, answer in (("strict", "[invalid]"), ("k,all", ["x", "y"]))
            for n in range(3)]  # fmt: skip
    texts = read_texts(write_jsonl(tmp_path / "s.jsonl", rows))
    assert texts.filters == ["strict", "k,all"]
    assert [one.prediction for one in texts.of("k,all")] == ["x"] * 3


def _without_filters(tmp_path: Path, *blocks: list[float]) -> Path:
    rows = [{**old_row(n), "exact_match": value} for block in blocks for n, value in enumerate(block)]
    return write_jsonl(tmp_path / "s.jsonl", rows)


# Means by hand: 0 1 0 -> 1/3; 1 0 1 -> 2/3.
RECORDED = {"strict": {"exact_match": 1 / 3}, "flexible": {"exact_match": 2 / 3}}


def test_filters_of_old_rows_are_told_by_their_means(tmp_path: Path) -> None:
    texts = read_texts(_without_filters(tmp_path, [0, 1, 0], [1, 0, 1]), recorded=RECORDED)
    assert [one.filter for one in texts.rows] == ["strict"] * 3 + ["flexible"] * 3


@pytest.mark.parametrize(
    ("blocks", "recorded"),
    [
        ([[1, 0, 1], [0, 1, 0]], RECORDED),  # the other order
        ([[0, 1, 0], [1, 0, 1]], {}),
        ([[0, 1, 0], [1, 0, 1], [1, 1, 1]], RECORDED),
        ([[0, 1, 0], [1, 0]], RECORDED),
    ],
)
def test_filters_that_cannot_be_told_refuse_the_file(
    tmp_path: Path, blocks: list[list[float]], recorded: dict[str, Any]
) -> None:
    with pytest.raises(ResultsError, match="without saying after which filter"):
        read_texts(_without_filters(tmp_path, *blocks), recorded=recorded)


def test_one_filter_of_old_rows_is_that_of_the_results(tmp_path: Path) -> None:
    texts = read_texts(_without_filters(tmp_path, [0, 1, 0]), recorded={"strict": {"exact_match": 1 / 3}})
    assert texts.filters == ["strict"]


def test_a_file_that_was_written_twice_is_refused(tmp_path: Path) -> None:
    rows = [row(n) for n in range(3)]
    with pytest.raises(ResultsError, match=r"document 0 is there more than once with the filter 'none'.*3 documents"):
        read_texts(write_jsonl(tmp_path / "s.jsonl", rows * 2))


def test_one_number_for_two_documents_is_no_repetition(tmp_path: Path) -> None:
    rows = [row(0, doc={"question": question}, target="t") for question in ("first", "second")]
    assert len(read_texts(write_jsonl(tmp_path / "s.jsonl", rows)).rows) == 2


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{**row(), **CHOICE}], "log-likelihoods"),
        ([row(doc={HIDDEN_ROW: 0, "text": "..."})], "keep_text=yes"),
        ([row(target=None), {k: v for k, v in row(1).items() if k != "target"}], "no target"),
    ],
)
def test_rows_without_texts(tmp_path: Path, rows: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(NoText, match=told):
        read_texts(write_jsonl(tmp_path / "s.jsonl", rows))


def test_placeholders_are_those_of_credentialed_tasks() -> None:
    privacy = pytest.importorskip("lm_eval_healthcare.harness.privacy")
    assert HIDDEN_ROW in privacy.hidden_document(0)


@pytest.mark.parametrize(
    ("content", "told"), [("", "the file is empty"), ('{"results": {', "cannot be read"), ("[]", "no results of the")]
)
def test_results_that_cannot_be_read(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ResultsError, match=told):
        read_results(tmp_path / "results.json")


def test_metrics_are_split_from_filters_at_the_first_comma(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(
        '{"results": {"t": {"alias": "t", "sample_len": 6, "n_seen,strict": 1.0, "n_seen_stderr,strict": NaN, '
        '"n_seen,k,all": 3.0, "bleu,strict": NaN}}}'
    )
    values = values_by_filter(read_results(tmp_path / "r.json"), "t")
    assert list(values) == ["strict", "k,all"]
    assert (values["strict"]["n_seen"], values["k,all"]) == (1.0, {"n_seen": 3.0})
    assert values_by_filter({"results": {}}, "t") == {}

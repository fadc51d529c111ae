"""Which documents of two runs are the same, and what is read of them."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare.results.paired_samples import BY_HASH, SampleScores, pair, read_scores
from lm_eval_healthcare.results.results_file import ResultsError
from lm_eval_healthcare.results.run_comparison import Choice, chosen_metrics, compare_metrics
from lm_eval_healthcare.results.samples_file import HIDDEN_ROW
from lm_eval_healthcare.results.task_runs import choose_run, directions, protocol_notes
from support import SHARED, write_jsonl

STAMP = "2026-03-01T10-00-00.000000"
CASES = SHARED / "cases" / "files"


def row(number: int, text: str, **values: Any) -> dict[str, Any]:
    return {"doc_id": number, "doc": {"question": text}, "target": "t", "arguments": {}, "resps": [["a"]],
            "filtered_resps": ["a"], "filter": "none", "doc_hash": f"hash of {text}", **values}  # fmt: skip


def write(
    folder: Path, rows: list[dict[str, Any]], task: str = "medtext", model: str = "org/a", stamp: str = STAMP,
    **content: Any,
) -> Path:  # fmt: skip
    place = folder / model.replace("/", "__")
    path = write_jsonl(place / f"samples_{task}_{stamp}.jsonl", rows)
    results = {"results": {task: {"alias": task}}, "model_name": model, **content}
    (place / f"results_{stamp}.json").write_text(json.dumps(results), encoding="utf-8")
    return path


def scores(folder: Path, rows: list[dict[str, Any]], *columns: str, **more: Any) -> SampleScores:
    return read_scores(choose_run(write(folder, rows, **more), None), columns)


def values(found: SampleScores, metric: str, name: str = "none") -> list[float]:
    return found.scores[name][metric].tolist()


def test_metrics_are_the_numbers_of_a_row(tmp_path: Path) -> None:
    rows = [
        row(0, "one", acc=1, f1=0.5, judge=["text"], chosen="A", right=True, ppl=[-3.0, 2], metrics=["acc", "ppl"]),
        row(1, "two", acc=math.nan, f1=None, right=False, ppl=[-1.0, 2]),
        row(2, "three", acc=0.0, late=2.5),
    ]
    found = scores(tmp_path, rows)
    assert list(found.scores) == ["none"]
    assert list(found.scores["none"]) == ["acc", "f1", "right", "late"]
    assert values(found, "acc") == pytest.approx([1, math.nan, 0], nan_ok=True)
    assert values(found, "f1") == pytest.approx([0.5, math.nan, math.nan], nan_ok=True)
    assert values(found, "late") == pytest.approx([math.nan, math.nan, 2.5], nan_ok=True)
    assert found.notes == ["medtext: ppl is not one number per document and is left out"]


def test_documents_are_told_by_their_content_not_their_number(tmp_path: Path) -> None:
    """`--samples` with [5, 0, 2] numbers the documents wrongly (lm-evaluation-harness#4085)."""
    a = scores(tmp_path / "a", [row(n, f"text {n}", acc=float(n in (0, 5))) for n in range(6)])
    b = scores(tmp_path / "b", [row(5, "text 0", acc=1.0), row(0, "text 2", acc=0.0), row(2, "text 5", acc=1.0)])
    pairs = pair(a, b)
    assert (pairs.by, pairs.a.tolist(), pairs.b.tolist()) == (BY_HASH, [0, 2, 5], [0, 1, 2])
    assert (pairs.only_a, pairs.only_b) == (3, 0)
    assert pairs.notes[0].startswith("3 doc_id stand for different documents in A and B (0, 2, 5)")
    (found,), _ = compare_metrics(a, b, pairs, Choice())
    assert (found.found.n, found.found.difference) == (3, 0.0)


def test_equal_documents_are_paired_in_order(tmp_path: Path) -> None:
    a = scores(tmp_path / "a", [row(n, "same", acc=float(n == 10)) for n in (2, 10)])
    b = scores(tmp_path / "b", [row(n, "same", acc=float(n == 10)) for n in (10, 2)])
    pairs = pair(a, b)
    assert (pairs.a.tolist(), pairs.b.tolist()) == ([0, 1], [1, 0])


def test_rows_without_hash_get_that_of_the_harness(tmp_path: Path) -> None:
    """Old files are arrays of rows without hash; it is computed from the document."""
    rows = [row(n, f"text {n}", acc=1.0, doc_hash=None, arguments=[["p", {}]]) for n in range(3)]
    place = write(tmp_path / "old", rows).with_suffix(".json")
    place.with_suffix(".jsonl").unlink()
    place.write_text(json.dumps(rows, indent=2))
    a = read_scores(choose_run(place, None))
    # By the harness: SHA-256 of the document as JSON with an indent of 2.
    dumped = json.dumps({"question": "text 2"}, indent=2).encode()
    b = scores(tmp_path / "b", [row(7, "text 2", acc=1.0, doc_hash=hashlib.sha256(dumped).hexdigest())])
    assert pair(a, b).a.tolist() == [2]


def test_nothing_to_tell_documents_by_is_never_their_number(tmp_path: Path) -> None:
    rows = [row(n, "", acc=1.0, doc=None, doc_hash=None) for n in range(3)]
    a, b = scores(tmp_path / "a", rows), scores(tmp_path / "b", rows)
    with pytest.raises(ResultsError, match=r"no document in common.*--pair-by.*3 documents of A have no hash"):
        pair(a, b)


def test_the_documents_own_name_where_hashes_have_nothing_in_common(tmp_path: Path) -> None:
    def named(text: str, order: list[int]) -> list[dict[str, Any]]:
        return [row(n, f"{text} {k}", acc=1.0, doc={"id": k, "q": text}) for n, k in enumerate(order)]

    a, b = scores(tmp_path / "a", named("old", [0, 1, 2])), scores(tmp_path / "b", named("new", [2, 1, 7]))
    pairs = pair(a, b)
    assert (pairs.by, pairs.a.tolist(), pairs.b.tolist()) == ("id", [1, 2], [1, 0])
    assert "no document has the same content in both; they are paired by 'id'" in pairs.notes
    other = scores(tmp_path / "c", named("other", [0, 1, 2]), task="olaph")
    with pytest.raises(ResultsError, match=r"no document in common.*--pair-by id pairs by it"):
        pair(a, other)  # numbers of another task's documents may mean anything
    assert len(pair(a, other, "id").a) == 3


def test_names_that_several_documents_have_pair_nothing(tmp_path: Path) -> None:
    docs = [{"unique_id": "x"}, {"unique_id": "x"}, {"unique_id": 7}, {"unique_id": None}, {"unique_id": "z"}]
    a = scores(tmp_path / "a", [row(n, str(n), acc=1.0, doc=doc) for n, doc in enumerate(docs)])
    b = scores(tmp_path / "b", [row(n, f"b{n}", acc=1.0, doc={"unique_id": k}) for n, k in enumerate(["z", "7", "x"])])
    pairs = pair(a, b, "unique_id")
    assert (pairs.a.tolist(), pairs.b.tolist(), pairs.only_a, pairs.only_b) == ([2, 4], [1, 0], 3, 1)
    assert pairs.notes[0].startswith("3 documents of A have no value of 'unique_id', or one that several")
    with pytest.raises(ResultsError, match=r"--pair-by year: no document of medtext has it; the columns are unique_id"):
        pair(a, b, "year")


def test_every_filter_is_compared_with_itself(tmp_path: Path) -> None:
    rows = [row(n, f"q{n}", filter=name, n_seen=seen) for name, seen in (("strict", 1.0), ("k,all", 3.0))
            for n in range(6)]  # fmt: skip
    a, b = scores(tmp_path / "a", rows), scores(tmp_path / "b", rows)
    assert len(a.documents) == 6
    assert {name: set(values(a, "n_seen", name)) for name in a.scores} == {"strict": {1.0}, "k,all": {3.0}}
    found, _ = compare_metrics(a, b, pair(a, b), Choice())
    assert [(one.name, one.found.n) for one in found] == [("n_seen[strict]", 6), ("n_seen[k,all]", 6)]
    (only,), _ = compare_metrics(a, b, pair(a, b), Choice(filter="k,all"))
    assert only.found.mean_a == 3
    with pytest.raises(ResultsError, match=r"--filter strict-match: the filters of medtext are: strict; k,all"):
        compare_metrics(a, b, pair(a, b), Choice(filter="strict-match"))


def test_one_filter_each_is_compared_whatever_its_name(tmp_path: Path) -> None:
    a = scores(tmp_path / "a", [row(n, str(n), filter="strict", acc=1.0) for n in range(3)])
    b = scores(tmp_path / "b", [row(n, str(n), filter="none", acc=0.0) for n in range(3)])
    (found,), _ = compare_metrics(a, b, pair(a, b), Choice())
    assert (found.name, found.found.difference) == ("acc[strict / none]", 1)


OLD = {"results": {"medtext": {"em,strict": 1 / 3, "em,flexible": 2 / 3}}}


def old_rows(*blocks: list[float]) -> list[dict[str, Any]]:
    found = [row(n, f"q{n}", em=value) for block in blocks for n, value in enumerate(block)]
    for one in found:
        del one["filter"]
    return found


def test_rows_that_do_not_say_their_filter(tmp_path: Path) -> None:
    found = scores(tmp_path / "a", old_rows([0, 1, 0], [1, 0, 1]), **OLD)
    assert (values(found, "em", "strict"), values(found, "em", "flexible")) == ([0, 1, 0], [1, 0, 1])
    with pytest.raises(ResultsError, match="without saying after which filter"):
        scores(tmp_path / "b", old_rows([1, 0, 1], [0, 1, 0]), **OLD)


def test_values_that_only_check_the_scoring_are_left_out_unless_named(tmp_path: Path) -> None:
    rows = [row(n, str(n), bleu=0.5, bleu_coverage=1.0, empty_prediction=0.0, bypass=None) for n in range(3)]
    a = scores(tmp_path, rows)
    assert chosen_metrics((a,), Choice()) == {("none",): ["bleu"]}
    assert chosen_metrics((a,), Choice(metrics=("*_coverage",))) == {("none",): ["bleu_coverage"]}
    with pytest.raises(ResultsError, match=r"matches --metric acc in .*there: bleu, bleu_coverage, empty_prediction"):
        chosen_metrics((a,), Choice(metrics=("acc",)))


def test_clusters_are_values_of_a_column(tmp_path: Path) -> None:
    docs = [{"case": "x"}, {"case": "x"}, {"case": ["y"]}, {}, {"case": ["y"]}]
    runs = [
        scores(tmp_path / name, [row(n, str(n), acc=float(n < cut), doc=doc) for n, doc in enumerate(docs)], "case")
        for name, cut in (("a", 4), ("b", 1))
    ]
    (found,), notes = compare_metrics(*runs, pair(*runs), Choice(cluster="case"))
    assert found.found.clusters == 3
    assert notes == ["1 documents have no 'case', and are clusters of their own"]
    with pytest.raises(ResultsError, match="--cluster patient: no document of medtext has it; the columns are case"):
        compare_metrics(*runs, pair(*runs), Choice(cluster="patient"))


def test_hidden_documents_are_paired_by_row_and_it_is_said(tmp_path: Path) -> None:
    rows = [row(n, str(n), acc=1.0, doc={HIDDEN_ROW: n, "text": "(hidden)"}) for n in range(3)]
    a, b = scores(tmp_path / "a", rows), scores(tmp_path / "b", rows)
    pairs = pair(a, b)
    assert len(pairs.a) == 3
    assert any("supposes that both runs read the same data" in note for note in pairs.notes)
    with pytest.raises(ResultsError, match=r"--cluster id: .*keep_text=yes"):
        compare_metrics(a, b, pairs, Choice(cluster="id"))


def test_newest_complete_run_of_one_model(tmp_path: Path) -> None:
    def counts(n: int) -> dict[str, Any]:
        return {"n-samples": {"medtext": {"original": 3, "effective": n}}}

    for stamp, n in (("2026-01-01T00-00-00", 3), ("2026-02-01T00-00-00", 3), ("2026-03-01T00-00-00", 1)):
        write(tmp_path, [row(k, str(k), acc=1.0) for k in range(n)], stamp=stamp, **counts(n))
    chosen = choose_run(tmp_path, "medtext")
    assert chosen.file.name == "samples_medtext_2026-02-01T00-00-00.jsonl"
    assert "3 runs of medtext; 2026-02-01T00-00-00 is taken" in chosen.notes[0]


def test_what_cannot_be_chosen_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no samples_\*\.jsonl there; run with --log_samples"):
        choose_run(tmp_path, "medtext")
    write(tmp_path, [row(0, "q", acc=1.0)])
    with pytest.raises(ResultsError, match="no samples of olaph; there are medtext"):
        choose_run(tmp_path, "olaph")
    write(tmp_path, [row(0, "q", acc=1.0)], model="org/b")
    with pytest.raises(ResultsError, match="several models there"):
        choose_run(tmp_path, "medtext")
    write(tmp_path / "two", [row(0, "q", acc=1.0)])
    write(tmp_path / "two", [row(0, "q", acc=1.0)], task="olaph")
    with pytest.raises(ResultsError, match="name one task with --task; there are medtext, olaph"):
        choose_run(tmp_path / "two", None)


def test_what_else_differs_between_runs(tmp_path: Path) -> None:
    def run(name: str, shots: int, template: str | None, way: str) -> SampleScores:
        section = {"healthcare": {"signatures": {"bleu": way}}}
        return scores(
            tmp_path / name, [row(n, str(n), bleu=0.5 * (n + len(name))) for n in range(3)],
            **{"n-shot": {"medtext": shots}, "versions": {"medtext": 2.0}, "chat_template_sha": template,
               "configs": {"medtext": {"metadata": section}}, "higher_is_better": {"medtext": {"bleu": True}}},
        )  # fmt: skip

    a, b = run("a", 0, None, "bleu|one"), run("bb", 5, "abc", "bleu|two")
    assert protocol_notes(a.of, b.of) == [
        "the number of few-shot examples differs: 0 in A, 5 in B", "the chat template differs",
    ]  # fmt: skip
    assert protocol_notes(a.of, a.of) == []
    assert directions(a.of) == {"bleu": True}
    (found,), notes = compare_metrics(a, b, pair(a, b), Choice())
    assert found.higher_is_better
    assert notes == ["bleu was computed in two ways (its signatures differ), so its values are not comparable"]


needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")


@needs_cases
@pytest.mark.parametrize(
    ("case", "task", "metric", "means"),
    [
        ("b03-samples-old-shape", "medtext", "rougeL", {"none": 0.15}),
        ("b06-samples-without-filter-field", "medgen", "exact_match",
         {"strict-match": 1 / 3, "flexible-extract": 2 / 3}),
        ("b07-multi-filter-comma", "hc_filters", "n_seen", {"strict-match": 1.0, "k,all": 3.0}),
        ("b14-truncated-files", "medtext", "rougeL", {"none": 0.2}),
        ("b16-unicode-line-separators", "hc_open", "rougeL", {"none": 0.6}),
    ],
)  # fmt: skip
def test_recorded_files(case: str, task: str, metric: str, means: dict[str, float]) -> None:
    counts = {"medgen": 3, "hc_filters": 6, "hc_open": 6}
    found = read_scores(choose_run(CASES / case, task))
    assert len(found.documents) == counts.get(task, 4)
    assert {name: float(np.nanmean(columns[metric])) for name, columns in found.scores.items()} == pytest.approx(means)
    assert bool(found.notes) == (case == "b14-truncated-files")


@needs_cases
def test_recorded_run_with_wrong_numbers() -> None:
    case = CASES / "b21-unsorted-samples-docids"
    a, b = (read_scores(choose_run(case / name, "hc_open")) for name in ("out", "out_samples"))
    pairs = pair(a, b)
    assert len(pairs.a) == 3
    for metric in ("bleu", "rougeL", "prometheus"):  # the same answers to the same questions
        assert a.scores["none"][metric][pairs.a].tolist() == b.scores["none"][metric][pairs.b].tolist()

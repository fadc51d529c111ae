"""Finding matrices in results: files of their own, sample logs, saved answers, and each measurement once."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from known_matrices import (
    MODEL,
    SETTINGS,
    STAMP,
    TASK,
    documents,
    first,
    response,
    second,
    write_answers,
    write_matrices,
    write_samples,
)
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.matrix_file import Document
from lm_eval_healthcare.results.relaxed_matrices import Source, find
from lm_eval_healthcare.results.results_file import ResultsError
from support import write_jsonl


def one(path: Path) -> Source:
    found = find([path])
    assert (found.faults, found.repeated) == ([], 0)
    (source,) = found.sources
    return source


def plain(found: list[Document]) -> list[tuple[int, str]]:
    """Documents without texts, which no file of matrices has; as text, so that NaN equals NaN."""
    return [(d.doc_id, str(replace(d.matrix, texts=()).as_response())) for d in found]


def is_known(source: Source) -> None:
    assert plain(list(source.documents())) == plain(documents())
    assert (source.about.task, source.about.model, source.about.settings) == (TASK, MODEL, SETTINGS)
    assert source.about.chat is False
    assert source.about.lm_eval_version in ("", "0.4.13")


def test_a_file_of_matrices(tmp_path: Path) -> None:
    path = write_matrices(tmp_path / "model")
    is_known(one(path))
    is_known(one(tmp_path))


def test_a_sample_log(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model")
    is_known(one(path))
    is_known(one(tmp_path))
    is_known(one(path.with_name(f"results_{STAMP}.json")))


@pytest.mark.parametrize("ranks", [1, 2])
def test_saved_answers(tmp_path: Path, ranks: int) -> None:
    folder = write_answers(tmp_path / "answers" / "run", ranks)
    is_known(one(folder))
    is_known(one(tmp_path))
    is_known(one(folder / "run.json"))


def test_every_shape_of_a_response(tmp_path: Path) -> None:
    """The harness writes what is not a list as text: of a text itself, of a dictionary Python's own notation."""
    unknown = replace(second(), log_p_samples=(math.nan, -math.inf, 0.0, -4.25))
    as_dict = {**unknown.as_response(), "settings": SETTINGS.as_dict()}
    wanted = plain([Document(0, unknown)])
    for name, value in {
        "text": json.dumps(as_dict),
        "python": str(as_dict),
        "object": as_dict,
    }.items():
        for key, shape in (("resps", [[value]]), ("resps", [value]), ("filtered_resps", [value])):
            path = write_jsonl(tmp_path / name / f"samples_{TASK}_{STAMP}.jsonl", [{"doc_id": 0, key: shape}])
            assert plain(list(one(path).documents())) == wanted, (name, key)
    assert "nan" in str(as_dict)


def test_rows_of_several_filters_count_once(tmp_path: Path) -> None:
    path = write_samples(tmp_path)
    path.write_text(path.read_text() * 2)
    is_known(one(path))


def test_each_measurement_once_and_the_file_of_matrices_first(tmp_path: Path) -> None:
    path = write_matrices(tmp_path / "model")
    samples = write_samples(tmp_path / "model")
    folder = write_answers(tmp_path / "answers" / "run", ranks=2)
    found = find([tmp_path])
    assert ([source.path for source in found.sources], found.repeated, found.faults) == ([path], 2, [])
    is_known(found.sources[0])
    assert find([samples, path, path, tmp_path, folder]).sources[0].path == path
    path.unlink()
    found = find([tmp_path])
    assert ([source.path for source in found.sources], found.repeated) == ([samples], 1)


def test_other_measurements_stay(tmp_path: Path) -> None:
    """Another run of the same task: other samples, other targets after the same samples, fewer documents."""
    write_matrices(tmp_path / "model")
    shorter = replace(first(), targets=first().targets[:2])
    write_samples(tmp_path / "targets", texts=[response(shorter), response(second())])
    other = replace(first(), log_p_samples=(0.0, 0.0, 0.0, -1.0))
    write_samples(tmp_path / "other", texts=[response(other), response(second())])
    write_samples(tmp_path / "fewer", texts=[response(first())])
    found = find([tmp_path])
    assert (len(found.sources), found.repeated) == (4, 0)


def test_documents_without_targets_do_not_make_another_measurement(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    nothing = replace(second(), targets=(), seed=0)
    write_samples(tmp_path, texts=[response(first()), response(second()), response(nothing)])
    found = find([tmp_path])
    assert ([source.path for source in found.sources], found.repeated) == ([path], 1)


@pytest.mark.parametrize(
    "metadata",
    [
        {"relaxed_samples": 4, "relaxed_keep": "2", "relaxed_length": 4, "relaxed_stride": 4, "relaxed_seed": 7},
        {"healthcare": {"relaxed_perplexity": {**SETTINGS.as_dict(), "engines": ["generic"]}}, "relaxed_stride": 64},
    ],
    ids=["options", "section"],
)
def test_settings_that_only_the_results_file_knows(tmp_path: Path, metadata: dict) -> None:
    texts = [response(document.matrix, settings=False) for document in documents()]
    is_known(one(write_samples(tmp_path, metadata=metadata, texts=texts)))


def test_settings_that_nobody_knows(tmp_path: Path) -> None:
    texts = [response(document.matrix, settings=False) for document in documents()]
    found = find([write_samples(tmp_path, texts=texts)])
    assert found.sources == []
    assert "how its matrices were measured is not known; put the results file" in found.faults[0]
    found = find([write_samples(tmp_path, texts=texts, metadata={"relaxed_stride": "x"})])
    assert "relaxed_stride=x: expected a whole number" in found.faults[0]


def test_files_of_others_are_passed_over(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["x"]}), tmp_path / "rows.parquet")
    row = {"doc_id": 0, "resps": [["a text"]], "filtered_resps": ["{not json"], "arguments": {}}
    other = write_jsonl(tmp_path / f"samples_medtext_{STAMP}.jsonl", [row])
    found = find([tmp_path])
    assert (found.sources, found.faults) == ([], [])
    assert "no matrices of Relaxed Perplexity in it" in find([other]).faults[0]  # it was named
    with pytest.raises(UserError, match="but not one of matrices"):
        find([tmp_path / "rows.parquet"])


def test_broken_files_do_not_hide_others(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    found = find([tmp_path])
    assert [source.path for source in found.sources] == [path]
    assert "broken.parquet: cut, damaged" in found.faults[0]
    with pytest.raises(UserError, match="no such file or folder"):
        find([tmp_path / "nothing"])
    with pytest.raises(UserError, match=r"x\.parquet: no such file"):
        find([tmp_path / "x.parquet"])


def test_a_broken_row_is_told_with_its_document(tmp_path: Path) -> None:
    broken = json.loads(response(second()))
    broken["targets"][0]["log_p"] = [1.0, 2.0]
    source = one(write_samples(tmp_path, texts=[response(first()), json.dumps(broken)]))
    with pytest.raises(ResultsError, match=r"document 1: not a matrix of Relaxed Perplexity.*2 scores of a target"):
        list(source.documents())


def test_rows_without_a_matrix_and_a_cut_line_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_samples(tmp_path, texts=["None", response(first()), response(second())])
    path.write_text(path.read_text() + '{"doc_id": 3, "resps": [["{')
    with caplog.at_level(logging.WARNING):
        assert [document.doc_id for document in one(path).documents()] == [1, 2]
    assert "1 rows hold no matrix and were skipped" in caplog.text
    assert "the last one, is cut and was skipped" in caplog.text

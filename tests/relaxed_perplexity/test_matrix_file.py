"""Files of matrices: what is written is read again to the last bit, without texts, and faults are told."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from known_matrices import SETTINGS, about, documents, first, second, write_matrices
from lm_eval_healthcare.relaxed_perplexity import Matrix, Prefix, Settings, Target
from lm_eval_healthcare.relaxed_perplexity import matrix_file as files
from lm_eval_healthcare.relaxed_perplexity.matrix_file import Document, MatrixFileError, Row, read, rows_of, write

KEY = b"lm_eval_healthcare.relaxed_perplexity"


def same(found: Matrix, wanted: Matrix) -> None:
    assert found.as_response() == replace(wanted, texts=()).as_response()
    for mine, given in zip(found.targets, wanted.targets, strict=True):
        assert mine.log_p.dtype == np.float64
        assert mine.log_p.tobytes() == given.log_p.tobytes()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = read(write_matrices(tmp_path, signature="s|x", lm_eval_version="0.4.13", chat=True))
    assert len(file) == 5
    assert [(row.doc_id, row.group, row.target) for row in file] == [
        (0, "must_have", 0), (0, "must_have", 1), (0, "nice_to_have", 0), (1, "must_have", 0), (1, "nice_to_have", 0),
    ]  # fmt: skip
    assert all(len(row.matrix.targets) == 1 for row in file)  # a second time over the same file
    found = list(file.documents())
    assert [document.doc_id for document in found] == [0, 1]
    assert found[0].groups == ("must_have", "must_have", "nice_to_have")
    same(found[0].matrix, first())
    same(found[1].matrix, second())
    assert found[1].matrix.targets[1].log_p.tolist() == [-math.inf]
    assert found[0].matrix.targets[2].reason == "target_too_long"
    assert file.about == about(signature="s|x", lm_eval_version="0.4.13", chat=True)


def test_values_without_a_number_and_without_a_list_survive(tmp_path: Path) -> None:
    """NaN where no engine knows a whole sample, no prefix where a document could not be measured at all."""
    unknown = replace(first(), log_p_samples=(math.nan, -math.inf, -1.0, 1e-300))
    nothing = Matrix((), (Target(3, 4, np.empty(0), "nan_loglikelihood"),), (), (), 2**31, 0)
    path = write(tmp_path / "x.parquet", rows_of([Document(5, unknown), Document(2, nothing)]), about())
    one, two = read(path).documents()
    assert math.isnan(one.matrix.log_p_samples[0])
    assert one.matrix.log_p_samples[1:] == (-math.inf, -1.0, 1e-300)
    same(two.matrix, nothing)
    assert (two.doc_id, two.groups, two.matrix.seed) == (2, ("answer",), 2**31)


def test_no_rows(tmp_path: Path) -> None:
    file = read(write(tmp_path / "x.parquet", [], about()))
    assert (len(file), list(file), list(file.documents())) == (0, [], [])


def test_documents_may_lie_across_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ROWS", 2)
    path = write_matrices(tmp_path)
    assert pq.ParquetFile(path).num_row_groups == 3
    one, two = read(path).documents()
    same(one.matrix, first())
    same(two.matrix, second())


def test_rows_are_taken_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ROWS", 2)
    taken, most = 0, 0

    def rows() -> Iterator[Row]:
        nonlocal taken, most
        for _ in range(10):
            yield from rows_of(documents())
            taken += 5

    written = []
    original = pq.ParquetWriter.write_table

    def write_table(self: Any, table: Any, *args: Any, **kwargs: Any) -> None:
        written.append((table.num_rows, taken))
        original(self, table, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)
    write(tmp_path / "x.parquet", rows(), about())
    assert [n for n, _ in written] == [2] * 25
    assert [before for _, before in written] == sorted(before for _, before in written)
    assert written[0][1] == 0  # the first part is on disk before the second document is asked for


def test_no_text_is_in_the_file(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    found = pq.read_table(path)
    texts = {
        name: set(found[name].to_pylist()) for name in found.schema.names if found.schema.field(name).type == "string"
    }
    assert texts == {
        "group": {"must_have", "nice_to_have"}, "engine": {"generic"}, "prefix_token": {None, "<s>"},
        "reason": {None, "target_too_long"},
    }  # fmt: skip
    assert b"secret" not in json.dumps(json.loads(found.schema.metadata[KEY])).encode()


def test_others_can_read_it(tmp_path: Path) -> None:
    """Plain columns and JSON, for people who use other tools."""
    found = pq.read_table(write_matrices(tmp_path))
    row = found.slice(1, 1).to_pylist()[0]
    assert row["log_p"] == [math.log(1 / 4), math.log(1 / 2), math.log(1 / 8)]
    assert (row["position"], row["sample"], row["count"]) == ([0, 4, 4], [0, 2, 0], [4, 1, 3])
    assert row["log_p_prefix"] == [0.0, math.log(0.6), math.log(0.2)]
    assert (row["target_tokens"], row["target_bytes"], row["question_tokens"], row["context_cut"]) == (4, 30, 20, 3)
    told = json.loads(found.schema.metadata[KEY])
    assert told["settings"] == SETTINGS.as_dict()
    assert (told["task"], told["model"], told["chat"]) == ("olaph_relaxed_perplexity", "org/model", False)
    assert told["signature"] == SETTINGS.signature


def test_size_is_near_that_of_the_scores(tmp_path: Path) -> None:
    """Scores are 8 bytes each and cannot be made smaller by much; all else, repeated by target, must not weigh."""
    rng = np.random.default_rng(0)
    places = [(0, 0), *((position, sample) for position in range(8, 129, 8) for sample in range(5))]

    def document(number: int) -> Document:
        prefixes = tuple(Prefix(p, s, -float(rng.exponential(p)), 1) if p else Prefix(0, 0, 0.0, 10) for p, s in places)
        targets = tuple(Target(20, 90, -rng.exponential(60, len(places)), None, "must_have") for _ in range(9))
        return Document(
            number, Matrix(prefixes, targets, (128,) * 10, tuple((-rng.exponential(200, 10)).tolist()), number, 200)
        )

    path = write(tmp_path / "x.parquet", rows_of(document(number) for number in range(100)), about())
    scores = 100 * 9 * len(places) * 8
    assert path.stat().st_size < 1.15 * scores


def test_a_row_has_one_target(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too many values"):
        write(tmp_path / "x.parquet", [Row(0, "must_have", 0, first())], about())
    assert list(tmp_path.iterdir()) == []


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_matrices(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(files, "_ROWS", 1)

    def rows() -> Iterator[Row]:
        yield from rows_of(documents())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, rows(), about())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_takes_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MatrixFileError, match=r"x\.parquet: matrices could not be written .*choose another folder"):
        write(tmp_path / "file" / "x.parquet", rows_of(documents()), about())


def rewritten(path: Path, **changes: Any) -> Path:
    """Change what a file says about itself; None takes a key away."""
    found = pq.read_table(path)
    told = {**json.loads(found.schema.metadata[KEY]), **changes}
    told = {name: value for name, value in told.items() if value is not None}
    pq.write_table(found.replace_schema_metadata({KEY: json.dumps(told).encode()}), path)
    return path


def test_faults_are_told(tmp_path: Path) -> None:
    with pytest.raises(MatrixFileError, match=r"none\.parquet: no such file"):
        read(tmp_path / "none.parquet")
    with pytest.raises(MatrixFileError, match="a folder; give a file"):
        read(tmp_path)
    path = write_matrices(tmp_path)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(MatrixFileError, match=r"cut\.parquet: cut, damaged or not a parquet file"):
        read(cut)
    cut.write_bytes(b"")
    with pytest.raises(MatrixFileError, match="cut, damaged or not a parquet file"):
        read(cut)
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"question": ["x"]}), foreign)
    with pytest.raises(MatrixFileError, match="but not one of matrices of Relaxed Perplexity"):
        read(foreign)
    assert (files.is_matrix_file(path), files.is_matrix_file(foreign)) == (True, False)
    with pytest.raises(
        MatrixFileError, match=r"version 2; this version of lm_eval_healthcare .* reads version 1\. Update"
    ):
        read(rewritten(path, format_version=2))
    assert files.is_matrix_file(path)  # it is one, and who reads it says that it is too new
    with pytest.raises(MatrixFileError, match=r"what it says about itself cannot be read .*settings"):
        read(rewritten(write_matrices(tmp_path), settings=None))


def test_damaged_content_is_told_when_it_is_read(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    file = read(path)  # its description lies at the end
    with pytest.raises(MatrixFileError, match="cut, damaged"):
        list(file)


def test_missing_and_odd_columns_are_told(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    found = pq.read_table(path)
    odd = found.drop_columns(["log_p"]).set_column(0, "doc_id", pa.array(["a"] * 5))
    pq.write_table(odd, path)
    with pytest.raises(MatrixFileError, match="the columns doc_id, log_p are missing or of another kind"):
        read(path)


def test_scores_that_do_not_fit_the_prefixes_are_told(tmp_path: Path) -> None:
    path = write_matrices(tmp_path)
    found = pq.read_table(path)
    short = [values[:-1] for values in found["log_p"].to_pylist()]
    column = found.schema.get_field_index("log_p")
    pq.write_table(found.set_column(column, "log_p", pa.array(short, pa.list_(pa.float64()))), path)
    with pytest.raises(MatrixFileError, match="2 scores for 3 prefixes, document 0"):
        list(read(path))


def test_settings_of_later_versions_are_ignored(tmp_path: Path) -> None:
    path = rewritten(write_matrices(tmp_path), settings={**Settings(stride=2).as_dict(), "later": 1}, later="x")
    assert read(path).about.settings == Settings(stride=2)

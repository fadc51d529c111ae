"""The command `relaxed`: numbers by hand from `known_matrices`, in every format, and its errors."""

from __future__ import annotations

import csv
import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from known_matrices import (
    LOG,
    MODEL,
    SETTINGS,
    TASK,
    about,
    documents,
    first,
    write_answers,
    write_matrices,
    write_samples,
)
from lm_eval_healthcare.cli.main import main
from lm_eval_healthcare.cli.relaxed import COMBINE, chosen_readings
from lm_eval_healthcare.errors import UserError
from lm_eval_healthcare.relaxed_perplexity.estimator import COMBINATIONS, QUANTITIES
from lm_eval_healthcare.relaxed_perplexity.matrix_file import rows_of, write
from lm_eval_healthcare.scoring.relaxed import READINGS

Capture = pytest.CaptureFixture[str]
# must_have: log P_0 + log P_4 of both targets of document 0, then log P_0 of that of document 1; N = 6 + 8 and 3.
SUM = LOG(1 / 2 * 3 / 8 * 1 / 4 * 5 / 8)
WEIGHTED = LOG(1 / 2 * 7 / 32 * 1 / 4 * 13 / 32)


def relaxed(capsys: Capture, *arguments: Any) -> tuple[int, str, str]:
    code = main(["relaxed", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: Capture, *arguments: Any) -> Any:
    code, out, err = relaxed(capsys, *arguments, "--format", "json")
    assert code == 0, err
    return json.loads(out)


def row(content: Any, group: str = "must_have") -> Any:
    return next(one for one in content["rows"] if one["list"] == group)


def test_numbers_by_hand(tmp_path: Path, capsys: Capture) -> None:
    content = as_json(capsys, write_matrices(tmp_path, signature=f"impl|{SETTINGS.signature}"))
    found = row(content)
    readings = {name: one["value"] for name, one in found["readings"].items()}
    ratio = -(SUM - LOG(16)) / 17
    assert readings["log_relaxed_perplexity"] == pytest.approx(ratio)
    assert readings["relaxed_perplexity"] == pytest.approx(math.exp(ratio))
    assert readings["log_relaxed_perplexity_median"] == pytest.approx((-SUM / 14 + LOG(16) / 3) / 2)
    assert readings["relaxed_cross_entropy_sum"] == pytest.approx((-SUM / 2 + LOG(16)) / 2)
    assert readings["relaxed_cross_entropy_mean"] == pytest.approx((-SUM / 4 + LOG(16)) / 2)
    assert readings["relaxed_cross_entropy_any"] == pytest.approx((-LOG(7 / 8) + LOG(16)) / 2)
    assert found["readings"]["relaxed_cross_entropy_any"]["stderr"] == pytest.approx(abs(-LOG(7 / 8) - LOG(16)) / 2)
    assert (found["documents"], found["targets"], found["n_eff"], found["ended_early"]) == (2, 3, 2.0, 0.5)
    other = row(content, "nice_to_have")
    assert (other["documents"], other["documents_scored"], other["targets_scored"]) == (2, 1, 1)
    assert other["reasons"] == {"target_too_long": 1}
    assert other["readings"]["relaxed_perplexity"]["value"] == math.inf
    (source,) = content["sources"]
    assert (source["task"], source["model"], source["settings"]) == (TASK, MODEL, SETTINGS.as_dict())
    assert source["signature"] == f"impl|{SETTINGS.signature}"


def test_reducing_is_what_it_does(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    assert relaxed(capsys, path) == relaxed(capsys, "--reduce", path) == relaxed(capsys, tmp_path)


def test_every_source_has_the_same_numbers(tmp_path: Path, capsys: Capture) -> None:
    sources = [write_matrices(tmp_path / "a"), write_samples(tmp_path / "b"), write_answers(tmp_path / "c")]
    assert len({json.dumps(as_json(capsys, path)["rows"][0]["readings"]) for path in sources}) == 1
    code, out, err = relaxed(capsys, *sources)
    assert code == 0
    assert out.count(TASK) == 2  # one line for each list
    assert "shown once: numbers that lie there more than once (2 more times)" in err


@pytest.mark.parametrize(
    ("combine", "total"),
    [
        ("sum", SUM),
        ("averaged", LOG(1 / 2 * 3 / 16 * 1 / 4 * 5 / 16)),
        ("weighted", WEIGHTED),
        ("sampled", LOG(1 / 2 * 5 / 32 * 1 / 4 * 7 / 32)),
    ],
)
def test_combinations(tmp_path: Path, capsys: Capture, combine: str, total: float) -> None:
    content = as_json(capsys, write_matrices(tmp_path), "--combine", combine, "--reading", "log_relaxed_perplexity")
    assert row(content)["readings"] == {
        f"log_relaxed_perplexity{COMBINE[combine]}": {
            "value": pytest.approx(-(total - LOG(16)) / 17), "stderr": pytest.approx(
                math.sqrt(2 * sum((-s + (total - LOG(16)) / 17 * n) ** 2 for s, n in ((total, 14), (-LOG(16), 3)))) / 17
            )
        }
    }  # fmt: skip


def test_thinning(tmp_path: Path, capsys: Capture) -> None:
    """One prefix: a alone. Completions of 3 tokens, or every 8th position of 4: what a plain log-likelihood says."""
    path = write_matrices(tmp_path, signature=f"impl|{SETTINGS.signature}|chat:off")
    reading = ("--reading", "relaxed_cross_entropy_sum")
    one = as_json(capsys, path, "--keep", 1, *reading)
    assert row(one)["readings"]["relaxed_cross_entropy_sum"]["value"] == pytest.approx(
        (-LOG(1 / 2 * 1 / 4 * 1 / 4 * 1 / 2) / 2 + LOG(16)) / 2
    )
    assert one["sources"][0]["signature"] == f"impl|{replace(SETTINGS, keep=1).signature}|chat:off"
    for thin in (("--length", 3), ("--stride", 8)):
        found = row(as_json(capsys, path, *thin, *reading))
        assert found["readings"]["relaxed_cross_entropy_sum"]["value"] == pytest.approx((LOG(8) / 2 + LOG(16)) / 2)


def test_what_was_not_measured_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    for arguments, message in (
        (("--stride", 6), "--stride 6: measured every 4 tokens, so expected a multiple of that"),
        (("--length", 5), "--length 5: completions have 4 tokens, so expected at most that"),
        (("--keep", 3), "--keep 3: 2 prefixes of a position were scored, so expected at most that"),
    ):
        code, out, err = relaxed(capsys, path, *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert path.name in err
    with pytest.raises(SystemExit, match="2"):
        main(["relaxed", str(path), "--stride", "0"])
    assert "invalid whole number of 1 or more value: '0'" in capsys.readouterr().err


def test_csv(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    code, out, _ = relaxed(capsys, path, "--format", "csv", "--reading", "relaxed_cross_entropy_any")
    assert code == 0
    one, two = csv.DictReader(out.splitlines())
    assert (one["source"], one["task"], one["list"], one["documents"], one["targets"]) == (
        str(path), TASK, "must_have", "2", "3",
    )  # fmt: skip
    assert float(one["relaxed_cross_entropy_any"]) == pytest.approx((-LOG(7 / 8) + LOG(16)) / 2)
    assert float(one["relaxed_cross_entropy_any_stderr"]) == pytest.approx((LOG(7 / 8) + LOG(16)) / 2)
    assert (two["relaxed_cross_entropy_any"], two["unscored"]) == ("inf", "1 target_too_long")


def test_per_document(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    arguments = (path, "--per", "document", "--reading", "relaxed_perplexity,relaxed_cross_entropy_sum")
    _, out, _ = relaxed(capsys, *arguments, "--format", "csv")
    found = {(one["list"], one["doc_id"]): one for one in csv.DictReader(out.splitlines())}
    assert list(found) == [("must_have", "0"), ("must_have", "1"), ("nice_to_have", "0"), ("nice_to_have", "1")]
    one = found["must_have", "0"]
    assert float(one["relaxed_perplexity"]) == pytest.approx(math.exp(-SUM / 14))
    assert float(one["relaxed_cross_entropy_sum"]) == pytest.approx(-SUM / 2)
    assert "relaxed_perplexity_stderr" not in one
    assert (one["n_eff"], one["ended_early"], found["must_have", "1"]["ended_early"]) == ("4.0", "0.0", "1.0")
    assert (found["nice_to_have", "0"]["relaxed_perplexity"], found["nice_to_have", "0"]["unscored"]) == (
        "nan", "1 target_too_long",
    )  # fmt: skip
    _, table, _ = relaxed(capsys, *arguments)
    assert f"{math.exp(-SUM / 14):.4f}" in table
    assert row(as_json(capsys, *arguments))["readings"]["relaxed_cross_entropy_sum"].keys() == {"value"}


def test_table_and_markdown(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    value, error = (-LOG(7 / 8) + LOG(16)) / 2, (LOG(7 / 8) + LOG(16)) / 2
    _, out, _ = relaxed(capsys, path, "--reading", "relaxed_cross_entropy_any", "log_relaxed_perplexity_median")
    heading, _, line = out.splitlines()[:3]
    assert heading.split("  ")[0] == "task"
    assert "CE any" in heading
    assert "median log RP" in heading
    assert f"{value:.4f} ± {error:.4f}" in line
    assert "50%" in line
    assert f"CE any: relaxed_cross_entropy_any, {QUANTITIES['relaxed_cross_entropy_any']}" in out
    assert "1 of 2" in out.splitlines()[3]
    _, out, _ = relaxed(capsys, path, "--reading", "relaxed_cross_entropy_any", "--format", "markdown")
    lines = out.splitlines()
    assert lines[0].startswith("| task | list | documents | targets | relaxed_cross_entropy_any |")
    assert lines[2].startswith(f"| {TASK} | must_have | 2 | 3 | {value:.4f} ± {error:.4f} |")
    assert len({line.count("|") for line in lines}) == 1


def test_models_are_told_apart(tmp_path: Path, capsys: Capture) -> None:
    write_matrices(tmp_path / "a")
    other = [replace(documents()[0], matrix=replace(first(), seed=99))]
    write(tmp_path / "b" / "x.parquet", rows_of(other), about(model="org/other"))
    _, out, _ = relaxed(capsys, tmp_path)
    assert out.split()[0] == "model"
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["org/model"] * 2 + ["org/other"] * 2


def test_output_and_figure(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    path, written, drawn = write_matrices(tmp_path), tmp_path / "new" / "x.csv", tmp_path / "new" / "x.svg"
    _, printed, _ = relaxed(capsys, path, "--format", "csv")
    code, out, err = relaxed(capsys, path, "--format", "csv", "--output", written, "--figure", drawn)
    assert (code, out) == (0, "")
    assert f"written: {written}" in err
    assert f"figure: {drawn}" in err
    assert written.read_text() == printed
    assert "<svg" in drawn.read_text()
    assert sorted(file.name for file in written.parent.iterdir()) == ["x.csv", "x.svg"]
    (tmp_path / "file").write_text("")
    code, _, err = relaxed(capsys, path, "--output", tmp_path / "file" / "x.csv")
    assert (code, "cannot be written" in err) == (2, True)
    code, _, err = relaxed(capsys, path, "--figure", tmp_path / "x.pdf")
    assert (code, "expected a name that ends in .png or .svg" in err) == (2, True)


def test_errors(tmp_path: Path, capsys: Capture) -> None:
    path = write_matrices(tmp_path)
    for arguments, message in (
        ((), "no PATH given; give a .parquet file of matrices, or a folder of results"),
        ((tmp_path / "none.parquet",), "none.parquet: no such file"),
        ((path, "--reading", "relaxed_perplexitty"), "Did you mean relaxed_perplexity?"),
        (("--reading", "relaxed_perplexity", path), "a PATH goes before --reading"),
    ):
        code, out, err = relaxed(capsys, *arguments)
        assert (code, out) == (2, "")
        assert message in err
    (tmp_path / "empty").mkdir()
    code, out, err = relaxed(capsys, tmp_path / "empty")
    assert (code, out) == (1, "")
    assert "no matrices of Relaxed Perplexity there" in err


def test_a_file_that_is_damaged_inside(tmp_path: Path, capsys: Capture) -> None:
    write_matrices(tmp_path)
    broken = write_matrices(tmp_path / "b", task="medtext_relaxed_perplexity")
    content = bytearray(broken.read_bytes())
    content[4:400] = b"\xff" * 396
    broken.write_bytes(content)
    code, out, err = relaxed(capsys, tmp_path)
    assert code == 1
    assert f"{broken}: cut, damaged" in err
    assert out.count(TASK) == 2


def test_readings() -> None:
    assert set(COMBINE.values()) == set(COMBINATIONS)
    assert chosen_readings(["all"], "") == list(READINGS)
    assert chosen_readings(["relaxed_perplexity+relaxed_nats_per_byte_sampled,relaxed_perplexity"], "_weighted") == [
        "relaxed_perplexity_weighted", "relaxed_nats_per_byte_sampled",
    ]  # fmt: skip
    assert all(name.endswith(("_averaged", "_averaged_median")) for name in chosen_readings([], "_averaged"))
    with pytest.raises(UserError, match="--reading n_eff: no such reading"):
        chosen_readings(["n_eff"], "")


def test_help_names_every_reading(cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    done = cli("relaxed", "--help")
    assert done.returncode == 0
    assert all(f"{quantity}," in done.stdout.replace(";", ",") for quantity in QUANTITIES)
    found = cli("relaxed", str(write_matrices(tmp_path)))
    assert (found.returncode, found.stderr) == (0, "")
    assert TASK in found.stdout

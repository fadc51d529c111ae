"""`enable` and `disable` in a throw-away virtual environment, for a normal and an editable install of the pack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from lm_eval_healthcare import tasks_path
from lm_eval_healthcare.data.catalogue import catalogue
from lm_eval_healthcare.harness import stubs
from support import ROOT, child_environment, results_of

pytestmark = pytest.mark.slow


class Environment:
    """A virtual environment with its own lm-eval and pack; everything else is seen through from the outer one."""

    def __init__(self, folder: Path, *install: str) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        self.site = Path(
            self.call("python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout.strip()
        )
        outer = Path(sysconfig.get_paths()["purelib"])
        for name in ("lm_eval", *[p.name for p in outer.glob("lm_eval-*.dist-info")]):
            shutil.copytree(outer / name, self.site / name, ignore=_other_tasks)
        (self.site / "outer.pth").write_text(f"{outer}\n", encoding="utf-8")
        lm_eval = self.bin / "lm_eval"
        lm_eval.write_text(f"#!{self.bin / 'python'}\nfrom lm_eval.__main__ import cli_evaluate\ncli_evaluate()\n")
        lm_eval.chmod(0o755)
        done = self.call("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *install)
        assert done.returncode == 0, done.stderr

    def call(self, program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        environment = child_environment(**env)
        environment["PYTHONPATH"] = str(ROOT / "tests" / "nosocket") if program != "python" else ""
        return subprocess.run(
            [str(self.bin / program), *arguments], capture_output=True, text=True, env=environment, timeout=600,
            cwd=self.folder,
        )  # fmt: skip

    def doctor(self) -> dict[str, Any]:
        done = self.call("lm-eval-healthcare", "doctor", "--format", "json")
        return json.loads(done.stdout)


def _other_tasks(folder: str, names: list[str]) -> list[str]:
    """What of the harness is not copied: folders of tasks none of which has the name of one of the pack's.

    The harness reads every one of its 14,000 task files at each start; without these it starts in a second.
    """
    if Path(folder).parts[-2:] != ("lm_eval", "tasks"):
        return []
    ours = {entry.name for entry in catalogue(tasks_path())}
    return [name for name in names if (Path(folder) / name).is_dir() and not ours & _task_names(Path(folder) / name)]


def _task_names(folder: Path) -> set[str]:
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in folder.rglob("*.yaml"))
    return {
        match[1].strip("\"' ") for text in texts for match in re.finditer(r"^\"?task\"?: *(.+)$", text, re.MULTILINE)
    }


def make_environment(folder: Path, kind: str) -> Environment:
    pytest.importorskip("hatchling", reason="builds the pack without a network")
    copy = folder / "clone"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "out", "quickstart-out", "*.egg-info"))
    arguments = [str(copy)] if kind == "normal" else ["-e", str(copy)]
    made = Environment(folder / "venv", *arguments)
    if kind == "normal":
        shutil.rmtree(copy)
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A normal install."""
    return make_environment(tmp_path_factory.mktemp("normal"), "normal")


@pytest.mark.long
def test_an_editable_install(tmp_path: Path) -> None:
    made = make_environment(tmp_path, "editable")
    path = Path(made.call("lm-eval-healthcare", "path").stdout.strip())
    assert path == tmp_path / "clone" / "tasks"
    assert made.call("lm-eval-healthcare", "enable").returncode == 0
    arguments = ["--model", "dummy", "--tasks", "careqa_open,medtext", "--metadata", "data=sample,metrics=ngram"]
    done = made.call("lm_eval", *arguments, "--output_path", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path / "out")["versions"] == {"careqa_open": 2.0, "medtext": 2.0}
    assert made.call("lm-eval-healthcare", "disable").returncode == 0
    done = made.call("lm_eval", *arguments)
    assert "Error loading evaluation metrics" in done.stderr, "the harness's own version is back"


def tags_of(environment: Environment) -> dict[str, list[str]]:
    """Every tag of the environment's harness with its tasks."""
    code = (
        "import json; from lm_eval.tasks import TaskManager; t = TaskManager(); "
        "print(json.dumps({n: sorted(t.task_index[n].tags) for n in t.all_tags}))"
    )
    return json.loads(environment.call("python", "-c", code).stdout)


def test_the_unmodified_command_runs_the_pack(environment: Environment, tmp_path: Path) -> None:
    names = {entry.name for entry in catalogue(tasks_path())}
    path = Path(environment.call("lm-eval-healthcare", "path").stdout.strip())
    assert (path / "careqa" / "careqa_open.yaml").is_file()
    assert path.is_relative_to(environment.folder.parent)
    before = {task["name"]: task for task in environment.doctor()["tasks"]}
    tags = tags_of(environment)
    assert set(before) == names
    assert before["careqa_open"]["owner"] == "harness"
    assert before["healthcare_mcqa"]["owner"] == "nobody"

    for _ in range(2):  # idempotent
        assert environment.call("lm-eval-healthcare", "enable").returncode == 0
    after = environment.doctor()
    assert after["problems"] == []
    # Groups such as `mmlu` are made of tags: the pack's tasks must stay in those of the tasks they replace.
    enabled = tags_of(environment)
    assert {name: set(members) <= set(enabled[name]) for name, members in tags.items()} == dict.fromkeys(tags, True)
    assert "mmlu_anatomy" in enabled["mmlu_stem_tasks"]
    assert {task["owner"] for task in after["tasks"]} == {"pack"}
    assert all(stubs.STUB_FOLDER in task["file"] for task in after["tasks"])

    done = environment.call(
        "lm_eval", "--model", "dummy", "--tasks", "careqa_open,medtext", "--metadata", "data=sample,metrics=ngram",
        "--output_path", str(tmp_path), "--log_samples",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = results_of(tmp_path)
    assert results["versions"] == {"careqa_open": 2.0, "medtext": 2.0}
    assert results["results"]["careqa_open"]["rougeL_coverage,none"] == 1.0
    assert list((tmp_path / "answers").iterdir()), "the plain command's output path is found too"
    assert "lm-eval-healthcare score" in done.stderr
    assert environment.call("lm_eval", "validate", "--tasks", "healthcare_mcqa").returncode == 0

    for expected in ("the harness's own tasks are back", "nothing to do"):
        assert expected in environment.call("lm-eval-healthcare", "disable").stdout
    assert {t["name"]: t["file"] for t in environment.doctor()["tasks"]} == {n: t["file"] for n, t in before.items()}
    done = environment.call("lm_eval", "--model", "dummy", "--tasks", "careqa_open")
    assert done.returncode != 0  # the harness's own version does not even import without a network
    assert "Error loading evaluation metrics" in done.stderr


def test_include_path_without_enable(environment: Environment, tmp_path: Path) -> None:
    path = environment.call("lm-eval-healthcare", "path").stdout.strip()
    done = environment.call(
        "lm_eval", "run", "--model", "dummy", "--tasks", "careqa_es", "--include_path", path,
        "--metadata", "data=sample", "--output_path", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path)["results"]["careqa_es"]["acc_coverage,none"] == 1.0


@pytest.mark.long
def test_stubs_of_a_pack_that_is_gone_do_no_harm(environment: Environment) -> None:
    assert environment.call("lm-eval-healthcare", "enable").returncode == 0
    folder = environment.site / "lm_eval" / "tasks" / stubs.STUB_FOLDER
    stub = folder / "careqa_open.yaml"
    stub.write_text(stub.read_text().replace("careqa_open.yaml", "moved_away.yaml"))
    found = environment.doctor()
    assert any("stale stubs (careqa_open)" in problem for problem in found["problems"])
    assert {t["name"]: t["owner"] for t in found["tasks"]}["careqa_open"] == "harness"
    (environment.site / "lm_eval" / "tasks" / ".healthcare-half").mkdir()
    assert environment.call("lm-eval-healthcare", "enable").returncode == 0
    assert environment.doctor()["problems"] == []
    assert not list((environment.site / "lm_eval" / "tasks").glob(".healthcare-*"))
    assert environment.call("lm-eval-healthcare", "disable").returncode == 0
    assert not folder.exists()


def test_a_folder_that_is_not_ours_is_left_alone(environment: Environment) -> None:
    folder = environment.site / "lm_eval" / "tasks" / stubs.STUB_FOLDER
    folder.mkdir()
    (folder / "somebody.yaml").write_text("task: somebody\n")
    for command in ("enable", "disable"):
        done = environment.call("lm-eval-healthcare", command)
        assert done.returncode == 2
        assert "was not written by this command" in done.stderr
    assert (folder / "somebody.yaml").is_file()
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_folder_that_is_not_writable(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = environment.site / "lm_eval" / "tasks"
    if os.geteuid() == 0:
        # root writes everywhere, so a file stands where the folder should be made
        monkeypatch.setattr(stubs, "stub_folder", lambda: Path("/proc/nowhere/_healthcare"))
        with pytest.raises(stubs.StubError, match=r"cannot write .*--include_path"):
            stubs.enable()
        return
    tasks.chmod(0o555)
    try:
        done = environment.call("lm-eval-healthcare", "enable")
    finally:
        tasks.chmod(0o755)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "--include_path" in done.stderr

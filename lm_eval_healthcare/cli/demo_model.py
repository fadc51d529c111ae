"""`lm-eval-healthcare demo-model`: a small real model as a folder, without a hub."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval_healthcare.sample.model import DTYPES, make_demo_model

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the type of the weights."""
    parser.add_argument("target", type=Path, metavar="TARGET", help="the folder to make; a complete one is kept")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="type of the weights (default: %(default)s)")
    parser.epilog = "example:\n  lm-eval-healthcare demo-model models/smollm2-135m-instruct"


def execute(args: argparse.Namespace) -> int:
    """Make the folder, with progress, and print it."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("lm_eval_healthcare").setLevel(logging.INFO)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(make_demo_model(args.target, args.dtype))
    return 0

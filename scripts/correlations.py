"""How benchmarks and metrics go together over models, from the harness's results files: `correlate` as a script.

Needs the package (`pip install .`, for pictures `pip install ".[figures]"`), and nothing of the harness or PyTorch.

Example:
    python scripts/correlations.py results -o correlations --method spearman --min-models 3
"""

import sys
from pathlib import Path

try:
    import lm_eval_healthcare  # noqa: F401
except ImportError:  # from a clone that is not installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lm_eval_healthcare.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["correlate", *sys.argv[1:]]))

"""A process that is killed while it scores has kept most of what it computed."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from support import child_environment
from tiny_encoders import WORDS, tiny_bert

pytest.importorskip("torch")
pytest.importorskip("transformers")

N = 450
CHILD = """
import json, sys
from lm_eval_healthcare.metrics.encoding import embed
from lm_eval_healthcare.metrics.encoding.encoder import Encoder
from lm_eval_healthcare.scoring.documents import score_documents
from lm_eval_healthcare.scoring.score_cache import ScoreCache

embed._SECONDS_OF_A_WAVE = 0.1  # of some 20 seconds; those of a large encoder take minutes
encode = Encoder.encode

def told(self, batch, layers):
    found = encode(self, batch, layers)
    print(self.texts, flush=True)
    return found

Encoder.encode = told
model, file, predictions, references = json.loads(sys.argv[1])
options = {"bert_score_model": model, "bert_score_layer": 4, "metrics_device": "cpu"}
with ScoreCache.open(file) as cache:
    score_documents(predictions, references, ["bert_score"], cache=cache, **options)
print("the end")
"""


def kept(cache: Path) -> int:
    """Scores in the file, none before it is made."""
    try:
        with closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as connection:
            return int(connection.execute("select count(*) from scores").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_after_kill_most_of_what_was_computed_is_kept(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path / "model", layers=4, hidden=384)
    cache = tmp_path / "scores.sqlite3"
    output = tmp_path / "output.txt"
    texts = [" ".join([*WORDS[n % 20 : n % 20 + 9], *str(n)]) for n in range(2 * N)]
    with output.open("w") as stream:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps([str(model), str(cache), texts[:N], texts[N:]])],
            stdout=stream, env=child_environment(OMP_NUM_THREADS="1"),
        )  # fmt: skip
        while kept(cache) < 60 and child.poll() is None:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
    told = output.read_text().split("\n")[:-1]
    assert "the end" not in told
    found = kept(cache)
    # What was encoded last is a wave that is not complete, and what half a second ago was not yet complete.
    assert 60 <= found < N
    assert found >= int(told[-1]) / 2 / 3

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_healthcare import metrics
from lm_eval_healthcare.metrics.encoding import device, encoder, release_all
from lm_eval_healthcare.metrics.encoding.encoder import Encoder, count_layers, load
from lm_eval_healthcare.metrics.settings import Compute
from tiny_encoders import TINY, minilm, tiny_bert, tiny_roberta

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CPU = Compute(device="cpu")
TEXTS = ["The patient has mild fever, no cough.", "hypertension", "el paciente tiene fiebre [SEP] leve " * 4, "..."]


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    encoder._warm.clear()
    yield
    encoder._warm.clear()


def expected(folder: Path, ids: np.ndarray, layer: int) -> Any:
    """One text through the whole model of plain transformers, without padding."""
    model = transformers.AutoModel.from_pretrained(folder).eval().float()
    with torch.no_grad():
        return model(torch.from_numpy(ids[None]), output_hidden_states=True).hidden_states[layer][0]


@pytest.mark.parametrize("kind", [*TINY, "minilm"])
def test_vectors_are_those_of_each_text_alone_in_the_whole_model(kind: str, tiny: Callable[[str], Path]) -> None:
    folder = minilm() if kind == "minilm" else tiny(kind)
    found = Encoder(folder, CPU)
    ids = [tokens.ids for tokens in found.tokenize(TEXTS)]
    assert len({len(one) for one in ids}) > 2
    together = found.encode(ids, [0, 1, 3])
    for row, one in enumerate(ids):
        for layer in (0, 1, 3):
            vectors = together[row][layer]
            assert vectors.shape == (len(one), found.width)
            assert vectors.dtype == torch.float32
            torch.testing.assert_close(vectors, expected(folder, one, layer), rtol=0, atol=5e-6)
            [alone] = found.encode([one], [layer])
            torch.testing.assert_close(vectors, alone[layer], rtol=0, atol=5e-6)
    assert found.texts == len(TEXTS) * 4
    assert found.seconds > 0


def test_a_pruned_model_gives_the_layer_as_its_last(tiny: Callable[[str], Path]) -> None:
    found = Encoder(tiny("bert"), CPU, depth=2)
    assert (found.n_layers, found.depth) == (3, 2)
    ids = found.tokenize(TEXTS)[0].ids
    torch.testing.assert_close(found.encode([ids], [2])[0][2], expected(tiny("bert"), ids, 2), rtol=0, atol=5e-6)


def t5(folder: Path) -> Path:
    """A tiny encoder-decoder whose encoder ends with a normalisation that is no layer of its own."""
    tiny_bert(folder)
    settings = transformers.T5Config(
        vocab_size=200, d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4, decoder_start_token_id=0
    )
    torch.manual_seed(0)
    model = transformers.T5Model(settings)
    with torch.no_grad():
        model.encoder.final_layer_norm.weight.mul_(torch.linspace(0.5, 2, 32))
    model.save_pretrained(folder)
    return folder


def test_each_layer_is_as_in_a_model_that_ends_there(tmp_path: Path) -> None:
    folder = t5(tmp_path / "t5")
    found = Encoder(folder, CPU)
    ids = found.tokenize(TEXTS)[0].ids
    together = found.encode([ids], [1, 3])[0]
    for layer in (1, 3):
        model = transformers.T5EncoderModel.from_pretrained(folder).eval()
        model.encoder.block = model.encoder.block[:layer]  # as bert-score prunes it
        with torch.no_grad():
            wanted = model(torch.from_numpy(ids[None])).last_hidden_state[0]
        torch.testing.assert_close(together[layer], wanted, rtol=0, atol=5e-6)
    # Without the normalisation at the end, layer 1 is another.
    with torch.no_grad():
        inner = transformers.T5EncoderModel.from_pretrained(folder).eval()(
            torch.from_numpy(ids[None]), output_hidden_states=True
        ).hidden_states[1][0]  # fmt: skip
    assert (together[1] - inner).abs().max() > 0.1


def test_an_albert_runs_its_one_layer_as_often_as_asked(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "albert")
    settings = transformers.AlbertConfig(
        vocab_size=200, embedding_size=16, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.AlbertModel(settings).save_pretrained(folder)
    found = Encoder(folder, CPU, depth=2)
    ids = found.tokenize(TEXTS)[0].ids
    for layers in ([2], [0, 1, 2]):
        for layer, vectors in found.encode([ids], layers)[0].items():
            torch.testing.assert_close(vectors, expected(folder, ids, layer), rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("kind", "stated", "limit"),
    [
        ("bert", 40, 40),
        ("bert", 1e30, 64),  # b13: a tokenizer without a limit
        ("bert", None, 64),
        ("bert", 1000, 64),
        ("roberta", 1e30, 64),  # 66 positions, of which the first two are never used
        ("distilbert", 1e30, 64),
        ("rembert", 1e30, 64),
    ],
)
def test_the_limit_is_what_tokenizer_and_positions_allow(
    kind: str, stated: float | None, limit: int, tmp_path: Path
) -> None:
    folder = TINY[kind](tmp_path / kind)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text("utf-8"))
    settings.pop("model_max_length")
    file.write_text(json.dumps(settings | ({"model_max_length": stated} if stated else {})), encoding="utf-8")
    found = Encoder(folder, CPU)
    assert found.limit == limit
    [tokens] = found.tokenize(["fever " * 100])
    assert len(tokens) == limit
    assert found.encode([tokens.ids], [3])[0][3].isfinite().all()


def test_windows_cover_a_long_text_without_gap_or_overlap(tmp_path: Path) -> None:
    found = Encoder(tiny_bert(tmp_path / "tiny", positions=8), CPU)
    text = "the patient has mild fever and a dry cough no pain in chest"  # 13 words of one piece
    [tokens] = found.tokenize([text], "windows")
    assert (len(tokens), tokens.truncated) == (15, False)
    pieces = [[tokens.vocabulary.pieces[number] for number in ids] for ids in found.windows(tokens)]
    assert pieces == [
        ["[CLS]", "the", "patient", "has", "mild", "fever", "and", "[SEP]"],
        ["[CLS]", "a", "dry", "cough", "no", "pain", "in", "[SEP]"],
        ["[CLS]", "chest", "[SEP]"],
    ]
    vectors = [part[3] for part in found.encode(found.windows(tokens), [3])]
    joined = found.join(vectors)
    assert joined.shape == (15, 32)
    assert torch.equal(joined[:7], vectors[0][:7])
    assert torch.equal(joined[7:13], vectors[1][1:7])
    assert torch.equal(joined[13:], vectors[2][1:])
    [short] = found.tokenize(["fever"], "windows")
    assert found.windows(short) == [short.ids]
    assert found.join([vectors[2]]) is vectors[2]


def test_windows_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "MOST_WINDOWS", 3)
    found = Encoder(tiny_bert(tmp_path / "tiny", positions=8), CPU)
    [all_of_it, cut] = found.tokenize(["fever " * 18, "fever " * 19], "windows")
    assert (len(all_of_it), all_of_it.truncated) == (20, False)
    assert (len(cut), cut.truncated) == (20, True)


def test_a_text_is_tokenized_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Encoder(tiny_bert(tmp_path), CPU)
    encode, asked = model.tokenizer.encode, []

    def watched(texts: list[str], limit: int) -> Any:
        asked.extend(texts)
        return encode(texts, limit)

    monkeypatch.setattr(model.tokenizer, "encode", watched)
    first = model.tokenize(TEXTS)
    again = model.tokenize([TEXTS[2], "new", TEXTS[0], "new"])
    assert asked == [*TEXTS, "new"]
    assert again[0] is first[2]
    assert again[1] is again[3]
    assert len(model.tokenize(["fever " * 90, *TEXTS], "windows")[0]) > model.limit
    assert asked == [*TEXTS, "new", "fever " * 90, *TEXTS]  # cut elsewhere, so not the same
    monkeypatch.setattr(encoder, "_MOST_TOKENS_KEPT", 3)
    model.tokenize(["other"])
    model.tokenize(["other"])
    assert asked.count("other") == 2


def test_bfloat16_gives_float32_vectors_that_differ_a_little(tiny: Callable[[str], Path]) -> None:
    exact, rough = Encoder(tiny("bert"), CPU), Encoder(tiny("bert"), Compute(device="cpu", dtype="bfloat16"))
    ids = exact.tokenize(TEXTS)[0].ids
    one, other = exact.encode([ids], [3])[0][3], rough.encode([ids], [3])[0][3]
    assert other.dtype == torch.float32
    assert 1e-4 < (one - other).abs().max() < 0.1


def test_encoders_stay_warm(tiny: Callable[[str], Path]) -> None:
    first = load(tiny("bert"), CPU, depth=2)
    assert load(tiny("bert"), CPU, depth=1) is first
    assert load(tiny("bert"), Compute(device="cpu", batch_tokens=7), depth=2) is first
    assert load(tiny("bert"), Compute(device="cpu", dtype="bfloat16"), depth=2) is not first
    deeper = load(tiny("bert"), CPU, depth=3)
    assert deeper is not first
    assert load(tiny("bert"), CPU) is deeper
    load(tiny("roberta"), CPU)
    load(tiny("rembert"), CPU)
    again = load(tiny("bert"), CPU)
    assert again is not deeper
    release_all()
    assert load(tiny("bert"), CPU) is not again


def test_an_encoder_that_had_no_room_on_the_gpu_asks_again(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = Compute(device="auto")
    monkeypatch.setattr(device, "choose", lambda compute, needed: "cpu")
    found = load(tiny("bert"), auto)
    asked: list[int] = []
    monkeypatch.setattr(device, "choose", lambda compute, needed: asked.append(needed) or "meta")
    assert load(tiny("bert"), auto).device == "meta"
    # 16,384 tokens of 32 numbers, 4 bytes each, in 12 forms; and the weights.
    assert 16384 * 32 * 4 * 12 < asked[0] < 16384 * 32 * 4 * 12 + 1_000_000
    assert load(tiny("bert"), auto) is found
    assert len(asked) == 1


def test_room_for_vectors_is_asked_for_with_that_for_weights(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(device, "choose", lambda compute, needed: asked.append(needed) or "cpu")
    load(tiny("bert"), Compute(device="auto"), 2)
    release_all()
    metrics.score(["fever"], ["cough"], ["bert_score"], bert_score_model=str(tiny("bert")), bert_score_layer=2)
    # The vectors of one wave and those for later ones, 512 MiB, and the references' for later calls, 256 MiB.
    assert asked[-1] - asked[0] == 768 * 2**20


def test_the_work_of_a_token_is_two_operations_for_each_weight_of_the_layers(tmp_path: Path) -> None:
    # A layer of width 32: 4 of 32 x 32 and 2 of 32 x 64 with their biases, 2 norms of 2 x 32. A norm before.
    layer = 4 * (32 * 32 + 32) + 32 * 64 + 64 + 64 * 32 + 32 + 2 * 64
    found = Encoder(tiny_bert(tmp_path / "tiny"), CPU, depth=2)
    assert found.operations == 2 * (2 * layer + 64)


def test_a_move_that_fails_half_way_is_taken_back(tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "choose", lambda compute, needed: "cpu")
    auto, named = (load(tiny("bert"), Compute(device=asked)) for asked in ("auto", "cuda"))
    moves: list[str] = []

    def full(where: str) -> None:
        moves.append(where)
        if where in broken:
            raise torch.OutOfMemoryError("CUDA out of memory")

    for found in (auto, named):
        monkeypatch.setattr(found._model, "to", full)
    monkeypatch.setattr(device, "choose", lambda compute, needed: "cuda:0")
    broken = {"cuda:0"}
    assert load(tiny("bert"), auto.compute) is auto
    with pytest.raises(device.DeviceUnavailable, match="GPU 0 is out of memory"):
        load(tiny("bert"), named.compute)
    assert moves == ["cuda:0", "cpu"] * 2
    assert auto.device == named.device == "cpu"
    broken = {"cuda:0", "cpu"}
    with pytest.raises(torch.OutOfMemoryError):
        load(tiny("bert"), auto.compute)
    monkeypatch.setattr(device, "choose", lambda compute, needed: "cpu")
    assert load(tiny("bert"), auto.compute) is not auto  # half of that one may be on the GPU


def test_weights_that_are_missing_are_told(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "tiny", layers=2)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "num_hidden_layers": 3}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"tiny: 16 weights of a 'bert' model are missing, such as 'encoder\.layer\.2"):
        Encoder(folder, CPU)


def test_a_model_that_transformers_cannot_load_is_told(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "tiny")
    (folder / "config.json").write_text('{"model_type": "no-such-type"}')
    with pytest.raises(ValueError, match=r"tiny.*no-such-type"):
        Encoder(folder, CPU)


def test_loading_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tiny_roberta(tmp_path / "tiny")
    level = transformers.utils.logging.get_verbosity()
    Encoder(folder, CPU)
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.get_verbosity() == level


@pytest.mark.parametrize(
    ("configuration", "layers"),
    [
        ({"num_hidden_layers": 12}, 12),
        ({"n_layers": 6}, 6),
        ({"num_layers": 24, "num_decoder_layers": 2}, 24),
        ({"is_encoder_decoder": True, "encoder_layers": 12, "num_hidden_layers": 6}, 12),
        ({"num_hidden_layers": None}, None),
        ({}, None),
    ],
)
def test_layers_are_counted_without_loading(configuration: dict[str, Any], layers: int | None) -> None:
    assert count_layers(configuration) == layers

"""Which addresses are this machine, and what headers tell about waiting."""

from __future__ import annotations

import asyncio
import random
import re
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from lm_eval_healthcare.judge.backends.retries import LONGEST_WAIT, Pace, as_seconds, demanded_wait
from lm_eval_healthcare.judge.backends.server_address import ServerAddress
from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.near import is_loopback


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1", "https://127.0.0.1/v1", "http://127.255.0.9/v1", "http://[::1]:8000/v1",
        "http://localhost:8000/v1", "http://LocalHost/v1", "HTTP://localhost./v1", "http://[::ffff:127.0.0.1]/v1",
        "http://evil.com@127.0.0.1/v1", "http://name:pass@localhost/v1", "http://127.0.0.1#@evil.com/v1",
        "http://127.0.0.1?x=@evil.com", "http://[0:0:0:0:0:0:0:1]/v1",
    ],
)  # fmt: skip
def test_this_machine(url: str) -> None:
    assert is_loopback(url)
    assert ServerAddress(url).near


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.com", "http://localhost.evil.com", "http://127.0.0.1.evil.com", "http://127.0.0.1@evil.com/v1",
        "http://localhost:80@evil.com/v1", "http://evil.com#@127.0.0.1", "http://evil.com?@127.0.0.1/",
        "http://evil.com\\@127.0.0.1/", "http://127.0.0.1\\@evil.com/", "http://127.0.0.1\t.evil.com/",
        "http://127.0.0.1\n.evil.com/", "http://127.0.0.1 .evil.com/", "http://a@127.0.0.1@evil.com/",
        "http://evil.com@evil.com@127.0.0.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/",
        "http://017700000001/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.01/", "http://127.0.0.1./",
        "http://0.0.0.0:8000/v1", "http://[::]/", "http://[::ffff:8.8.8.8]/", "http://[::ffff:0:127.0.0.1]/",
        "http://[::1%25eth0]/", "http://[fe80::1]/", "http://%6c%6fcalhost/", "http://127.0.0.%31/",
        "http://loc\u0430lhost/", "http://127。0。0。1/", "http://①27.0.0.1/", "http://foo.localhost/",
        "http://localhost.localdomain/", "http://ip6-localhost/", "http://128.0.0.1/", "http://126.255.255.255/",
        "http://10.0.0.1", "http://192.168.0.1", "http://169.254.169.254/", "http://[::2]/", "http://localhost../",
        "localhost:8000/v1", "//127.0.0.1/v1", "ftp://127.0.0.1/", "file:///etc/passwd", "http:///v1", "", "http://",
        "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://[::1/", "http://localhost\u200b/",
    ],
)  # fmt: skip
def test_another_machine_or_not_clear(url: str) -> None:
    assert not is_loopback(url)


def test_what_the_http_library_connects_to() -> None:
    """The library reads the URLs that are built here with code of its own; for this machine both must agree."""
    yarl = pytest.importorskip("yarl")
    rng = random.Random(3)
    pieces = [
        "127.0.0.1",
        "localhost",
        "evil.com",
        "@",
        ":",
        "[::1]",
        "/",
        "#",
        "?",
        "80",
        ".",
        "a",
        "%31",
        "\\",
        "x:y@",
    ]
    near = 0
    for _ in range(20_000):
        url = "http://" + "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 6)))
        if not is_loopback(url):
            continue
        near += 1
        host = yarl.URL(ServerAddress(url).url("models")).host
        assert re.fullmatch(r"127\.0\.0\.\d+|localhost|::1", host.removesuffix(".")), url
    assert near > 500


def test_what_is_shown_and_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    address = ServerAddress("https://user:pa%3Ass@judge.example:8443/base/v1/?api-version=2024-10-01&code=c0de#part")
    assert address.shown == "https://judge.example:8443/base/v1"
    assert address.url("models") == "https://judge.example:8443/base/v1/models?api-version=2024-10-01&code=c0de"
    assert address.root_url("tokenize").startswith("https://judge.example:8443/base/tokenize?")
    assert address.headers["Authorization"] == "Basic dXNlcjpwYTpzcw=="  # printf user:pa:ss | base64
    assert address.hide("no pa:ss, pa%3Ass, c0de") == "no ***, ***, ***"
    assert ServerAddress("http://127.0.0.1/v1").headers["Authorization"] == "Bearer sk-environment"
    with pytest.raises(JudgeError, match="signs that no key has") as error:
        ServerAddress("http://127.0.0.1/v1", api_key="sk secret\r\nX: y")
    assert "secret" not in str(error.value)


def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert ServerAddress("https://judge.example/v1").proxy() == "http://proxy.example:3128"
    assert ServerAddress("http://judge.example/v1").proxy() is None
    assert ServerAddress("https://127.0.0.1/v1").proxy() is None
    monkeypatch.setenv("no_proxy", "judge.example")
    assert ServerAddress("https://judge.example/v1").proxy() is None
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("https_proxy", "socks5://user:secret@proxy.example")
    with pytest.raises(JudgeError, match="socks5 proxy") as error:
        ServerAddress("https://judge.example/v1").proxy()
    assert "secret" not in str(error.value)


NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2), ("0.5", 0.5), (" 7 ", 7), ("0", 0), ("-3", 0), ("6m0s", 360), ("1h2m3.5s", 3723.5), ("20ms", 0.02),
        ("1s", 1), ("1d", 86400), ("", None), ("soon", None), ("nan", None), ("inf", None), ("5 minutes", None),
        ("1s2", None), (str(int(NOW.timestamp()) + 30), 30), (format_datetime(NOW + timedelta(seconds=45)), 45),
        (format_datetime(NOW - timedelta(hours=1)), 0), ("2026-03-01T12:00:10Z", 10),
        ("2026-03-01T13:00:10+01:00", 10),
    ],
)  # fmt: skip
def test_a_wait_as_servers_write_it(text: str, seconds: float | None) -> None:
    assert as_seconds(text, NOW.timestamp()) == (None if seconds is None else pytest.approx(seconds))


def test_which_headers_count() -> None:
    assert demanded_wait({"Retry-After": "3"}, refused=True) == 3
    assert demanded_wait({"Retry-After": "3"}, refused=False) is None
    assert demanded_wait({"retry-after-ms": "250"}, refused=True) == 0.25
    reset = {"x-ratelimit-reset-requests": "9s", "x-ratelimit-reset-tokens": "4s"}
    assert demanded_wait(reset, refused=True) is None
    assert demanded_wait({**reset, "x-ratelimit-remaining-tokens": "0"}, refused=False) == 4
    assert demanded_wait({**reset, "x-ratelimit-remaining-requests": "12"}, refused=False) is None
    assert demanded_wait({}, refused=True) is None


def test_waits_grow_with_jitter_and_have_an_end() -> None:
    pace = Pace(8, 0.5, random.Random(1))
    for repeat, longest in ((1, 0.5), (2, 1), (3, 2), (4, 4), (30, LONGEST_WAIT / 2)):
        waits = [pace.wait_before(repeat) for _ in range(200)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
        assert len(set(waits)) > 150


def test_a_pause_has_an_end_and_limits_halve_once_for_those_that_were_under_way() -> None:
    async def used() -> list[int]:
        pace, now = Pace(8, 0.5, random.Random(1)), asyncio.get_running_loop().time()
        for _ in range(8):  # all eight are told the same
            pace.slower(now, now + 1)
        begun = []
        for _ in range(2):
            waiting = [asyncio.create_task(pace.turn()) for _ in range(20)]
            await asyncio.sleep(0.05)
            begun.append(sum(task.done() for task in waiting))
            for task in waiting:
                task.cancel()
            for _ in range(begun[-1]):
                pace.done()
            for _ in range(3):  # 4 + 4/4 + 4/5 + 4/5.8 = 6.49
                pace.faster()
        pace.pause(10**6, now)
        assert pace._paused_until == now + LONGEST_WAIT
        return begun

    assert asyncio.run(used()) == [4, 6]

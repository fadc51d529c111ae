"""A server's address: what is sent to it, and what may be shown of it."""

from __future__ import annotations

import base64
import os
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from lm_eval_healthcare.judge.errors import JudgeError
from lm_eval_healthcare.judge.near import HOST, is_loopback

DEFAULT_KEY = "OPENAI_API_KEY"
_ENDINGS = ("/chat/completions", "/completions", "/models")
_HIDDEN = "***"
_SHORTEST = 4
"""Signs; what is shorter, such as a `2` in a query, would be struck from every message."""


class ServerAddress:
    """A base URL taken apart, and the secrets that belong to it.

    Attributes:
        shown: Scheme, host, port and path: nothing secret.
        near: Whether it is this machine.
        headers: What goes with every request, `Authorization` among it; never shown.
        key_name: The environment variable of the key.
    """

    def __init__(self, base_url: str, api_key: str | None = None, api_key_env: str = DEFAULT_KEY) -> None:
        """Read the URL and the key.

        Args:
            base_url: As for OpenAI's own client, normally ending in `/v1`. A name and password before the host are sent
                as basic authentication, instead of the key; a query goes with every request.
            api_key: The key; None to read it from the environment.
            api_key_env: Name of the environment variable that holds the key. The default one may be unset.

        Raises:
            JudgeError: If the URL is none, or the variable is missing or holds what cannot be a key.
        """
        parts = _taken_apart(base_url)
        self.key_name = api_key_env
        self.near = is_loopback(base_url)
        path = parts.path.rstrip("/")
        for ending in _ENDINGS:
            path = path.removesuffix(ending)
        host = parts.netloc.rpartition("@")[2]
        self._parts = SplitResult(parts.scheme, host, path, parts.query, "")
        self.shown = urlunsplit((parts.scheme, host, path, "", ""))
        self.headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._secrets = {pair.partition("=")[2] for pair in parts.query.split("&")}
        self._authorise(parts, _checked(api_key, api_key_env))

    def _authorise(self, parts: SplitResult, key: str | None) -> None:
        if parts.username is not None or parts.password is not None:
            name, password = unquote(parts.username or ""), unquote(parts.password or "")
            pair = base64.b64encode(f"{name}:{password}".encode()).decode()
            self.headers["Authorization"] = f"Basic {pair}"
            self._secrets |= {parts.password or "", password, pair} | (set() if password else {name})
        elif key:
            self.headers["Authorization"] = f"Bearer {key}"
            self._secrets.add(key)

    @property
    def authorised(self) -> bool:
        """Whether a key or a password is sent."""
        return "Authorization" in self.headers

    @property
    def host(self) -> str:
        """Host name or address."""
        return self._parts.hostname or ""

    @property
    def has_version(self) -> bool:
        """Whether the path ends as it does on most servers."""
        return self._parts.path.endswith("/v1")

    def url(self, path: str) -> str:
        """Return the URL below the base, secrets included."""
        return urlunsplit(self._parts._replace(path=f"{self._parts.path}/{path}"))

    def root_url(self, path: str) -> str:
        """Return the URL beside `/v1`, where vLLM has its own endpoints."""
        return urlunsplit(self._parts._replace(path=f"{self._parts.path.removesuffix('/v1')}/{path}"))

    def hide(self, text: str) -> str:
        """Return a text, such as a server's message, without the secrets it may repeat."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN) if len(secret) >= _SHORTEST else text
        return text

    def proxy(self) -> str | None:
        """Return the proxy that the environment names for this server; none for this machine.

        Raises:
            JudgeError: If it is of a kind that cannot be used.
        """
        if self.near or proxy_bypass(self._parts.netloc):
            return None
        proxies = getproxies()
        proxy = proxies.get(self._parts.scheme) or proxies.get("all")
        if proxy is None:
            return None
        if "://" not in proxy:
            proxy = f"http://{proxy}"
        if urlsplit(proxy).scheme not in ("http", "https"):
            raise JudgeError(
                f"the environment names a {urlsplit(proxy).scheme} proxy for {self.shown}; only http and https proxies "
                "can be used: change the variable, or name the host in NO_PROXY"
            )
        return proxy


def _taken_apart(base_url: str) -> SplitResult:
    """Return the parts of a URL; what is wrong is told without showing it, as it may hold a password."""
    wrong = "expected a URL such as http://127.0.0.1:8000/v1"
    if not base_url.isprintable() or " " in base_url or "\\" in base_url:
        raise JudgeError(f"the judge's base URL holds a space, a backslash or an unprintable sign; {wrong}")
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise JudgeError(f"the judge's base URL has a host or port that is none; {wrong}") from None
    sound = parts.netloc.count("@") <= 1 and HOST.fullmatch(parts.netloc.rpartition("@")[2])
    if parts.scheme not in ("http", "https") or not host or not sound:
        raise JudgeError(f"the judge's base URL has no http or https host; {wrong}")
    return parts


def _checked(key: str | None, name: str) -> str | None:
    found = (os.environ.get(name, "") if key is None else key).strip()
    if not found:
        if key is not None or name == DEFAULT_KEY:
            return None
        raise JudgeError(f"the environment variable {name}, which should hold the judge's key, is not set; set it")
    if not found.isascii() or not found.isprintable() or " " in found:
        raise JudgeError(f"the judge's key (by default from {name}) holds signs that no key has; give the key only")
    return found

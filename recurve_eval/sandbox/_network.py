"""Which network a sandbox gives: none, all of it, named hosts through a proxy, or a network without content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recurve_eval.errors import ConfigError, UnknownName
from recurve_eval.sandbox._proxy import PORT, SOCKET, Proxy, parse_allowed

KINDS = ("none", "full", "allowlist", "offline_404")
PLACE = "/net"  # where the sandbox shows the proxy's socket and the relay
RELAY_NAME = "relay.py"
RELAY = Path(__file__).with_name("_relay.py")
_URL = f"http://127.0.0.1:{PORT}"


@dataclass(frozen=True, slots=True)
class Network:
    """``kind`` is one of ``KINDS``; ``allow`` names host:port for ``allowlist``. Raises ConfigError on a wrong one."""

    kind: str
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("network", self.kind, KINDS, "sandbox.network")
        if bool(self.allow) != (self.kind == "allowlist"):
            raise ConfigError("sandbox.allow names hosts exactly where sandbox.network=allowlist")
        parse_allowed(self.allow)

    @classmethod
    def of(cls, kind: str, allow: Sequence[str]) -> Network:
        return cls(kind, tuple(allow))

    @property
    def proxied(self) -> bool:
        return self.kind in ("allowlist", "offline_404")

    @property
    def attested(self) -> str:
        return f"allowlist: {', '.join(sorted(self.allow))}" if self.allow else self.kind

    def proxy(self, directory: Path) -> Proxy | None:
        """A running proxy in ``directory``, where this kind has one."""
        if not self.proxied:
            return None
        return Proxy(directory, parse_allowed(self.allow), 404 if self.kind == "offline_404" else 403)

    def environment(self) -> dict[str, str]:
        """What tells programs of the proxy; the names in use differ from program to program."""
        if not self.proxied:
            return {}
        both = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _URL)
        return both | {"NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1", "NODE_USE_ENV_PROXY": "1"}

    def command(self, interpreter: str, argv: Sequence[str]) -> list[str]:
        """The command with the relay before it, where there is a proxy."""
        if not self.proxied:
            return list(argv)
        return [interpreter, "-I", "-S", f"{PLACE}/{RELAY_NAME}", f"{PLACE}/{SOCKET}", *argv]

"""A supervisor is told where the daemon stands."""

import secrets
import signal
import socket
from pathlib import Path

import pytest

from orchestrator.daemon.notify import notify
from tests.daemon.process import daemon
from tests.daemon.test_daemon_process import SLOW


def test_nobody_wants_to_know() -> None:
    """Without an address, with a wrong one, or with one where nobody listens, nothing is sent and nothing fails."""
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": "relative"})
    assert not notify("READY=1", {"NOTIFY_SOCKET": "/nowhere/at/all"})


def test_an_abstract_address() -> None:
    """An address that begins with @ is in the abstract namespace."""
    name = f"headrace-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        assert notify("READY=1", {"NOTIFY_SOCKET": f"@{name}"})
        assert listening.recv(64) == b"READY=1"


def test_a_daemon_says_when_it_serves_and_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready comes once the surface is up, stopping with the first signal."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with daemon(tmp_path, SLOW) as (process, _):
            assert listening.recv(64) == b"READY=1"
            process.signal(signal.SIGTERM)
            assert listening.recv(64) == b"STOPPING=1"
            assert process.end() == 0

"""A server's process from start to reaped, shown on small stand-ins that keep the real protocol."""

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.backends.local.process import Launch, run_server
from orchestrator.backends.local.restarts import RestartPolicy, Restarts
from orchestrator.backends.local.tail import Tail

ROOT = Path(__file__).parents[2]

READY = """
import json, os, sys, time
settings = json.loads(sys.stdin.readline())
print(json.dumps({"address": "%s %d" % (settings["greeting"], os.getpid())}), flush=True)
"""


def launch(script: str, *, start_timeout: float = 10.0, stop_grace: float = 5.0) -> Launch:
    return Launch(
        command=(sys.executable, "-S", "-E", "-c", script),
        settings={"greeting": "pid"},
        environment={"HEADRACE_TEST": "1"},
        start_timeout=start_timeout,
        stop_grace=stop_grace,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def run_until_ready(script: str, *, stop_grace: float = 5.0) -> tuple[int, float]:
    """Starts a server and cancels it once it is ready; the pid it answered and how long stopping took."""
    addresses: list[str] = []
    began = 0.0
    async with trio.open_nursery() as nursery:

        def ready(address: str, pid: int) -> None:
            nonlocal began
            began = time.monotonic()
            addresses.append(address)
            nursery.cancel_scope.cancel()

        nursery.start_soon(run_server, launch(script, stop_grace=stop_grace), Tail(), ready)
    (address,) = addresses
    return int(address.removeprefix("pid ")), time.monotonic() - began


async def test_a_server_is_ready_then_stopped_and_reaped() -> None:
    """The server reads its settings from stdin and answers once; cancelling ends it with TERM and reaps it."""
    pid, took = await run_until_ready(READY + "time.sleep(60)")
    assert not alive(pid)
    assert took < 5


async def test_a_deaf_server_is_killed_after_grace() -> None:
    """A server that ignores TERM is killed once its grace is over."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY
    pid, took = await run_until_ready(deaf + "time.sleep(60)", stop_grace=0.2)
    assert not alive(pid)
    assert 0.2 <= took < 5


async def test_exit_before_ready_is_told() -> None:
    """A server that dies while loading is reported with its exit code, and its last words are kept."""
    tail = Tail()
    script = "import sys; print('no such model', file=sys.stderr); sys.exit(3)"
    end = await run_server(launch(script), tail, lambda address, pid: None)
    assert end == "exited with code 3 before it was ready"
    assert tail.last(8) == "  no such model"


async def test_a_crash_after_ready_is_told() -> None:
    """A server that dies while serving is reported with its signal."""
    end = await run_server(launch(READY + "os.kill(os.getpid(), 9)"), Tail(), lambda address, pid: None)
    assert end == "was ended by signal 9"


async def test_start_timeout() -> None:
    """A server that does not get ready in time is stopped, and the time allowed is named."""
    script = "import os, sys, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(60)"
    tail = Tail()
    end = await run_server(launch(script, start_timeout=0.5), tail, lambda address, pid: None)
    assert end == "was not ready within 0.5 s"
    assert not alive(int(tail.last(1)))


async def test_a_wrong_answer_is_told() -> None:
    """A server that answers something else than its address is stopped and its answer shown."""
    script = "import time; print('Serving HTTP on port 80', flush=True); time.sleep(60)"
    end = await run_server(launch(script), Tail(), lambda address, pid: None)
    assert end == "answered b'Serving HTTP on port 80' instead of its address"


async def test_a_missing_command_is_an_os_error() -> None:
    """A command that cannot be started raises what the system says."""
    with pytest.raises(FileNotFoundError):
        await run_server(
            Launch(command=("/nonexistent",), settings={}, environment={}, start_timeout=1, stop_grace=1),
            Tail(),
            lambda address, pid: None,
        )


async def test_a_talkative_server_never_blocks_and_its_tail_is_bounded() -> None:
    """A server that prints megabytes, in endless lines too, runs on; only the last lines stay."""
    script = "import sys\nsys.stderr.write('x' * 3_000_000 + '\\n' + 'line\\n' * 100_000 + 'end')\nsys.exit(1)"
    tail = Tail()
    end = await run_server(launch(script), tail, lambda address, pid: None)
    assert end.startswith("exited with code 1")
    assert tail.last(2) == "  line\n  end"
    assert tail.last(1000).count("\n") < 30


def test_no_orphan_when_the_parent_is_killed() -> None:
    """SIGKILL of the parent ends the server: the real one's watch on stdin is the only thing that can."""
    server = textwrap.dedent("""
        import os, sys
        sys.path.insert(0, ".")
        from orchestrator.backends.local import server as local_server
        class Server:
            listening_address = str(os.getpid())
        local_server._load = lambda settings: Server()
        local_server.main()
    """)
    parent = textwrap.dedent("""
        import sys, trio
        sys.path.insert(0, ".")
        from orchestrator.backends.local.process import Launch, run_server
        from orchestrator.backends.local.tail import Tail
        command = (sys.executable, "-c", sys.argv[1])
        launch = Launch(command=command, settings={}, environment={}, start_timeout=30, stop_grace=1)
        trio.run(run_server, launch, Tail(), lambda address, pid: print(pid, flush=True))
    """)
    command = [sys.executable, "-c", parent, server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            pid = int(process.stdout.readline())
            assert alive(pid)
        finally:
            process.kill()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline and not _is_zombie(pid):
        time.sleep(0.01)
    assert not alive(pid) or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """An orphan that ended waits for whatever took it over to reap it, which in a container may be never."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_restart_delays_double_and_then_give_up() -> None:
    """Crashes close together wait longer each time, and the policy gives up at its number."""
    policy = RestartPolicy(first_delay=1, longest_delay=3, jitter=0, window=60, give_up_after=5)
    restarts = Restarts(policy, random.Random(1))
    assert [restarts.crashed(now) for now in (0, 1, 2, 3, 4)] == [1, 2, 3, 3, None]
    assert restarts.total == 5


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 9))
def test_restart_gives_up_exactly_when_the_window_is_full(gaps: list[float], allowed: int, seed: int) -> None:
    """Giving up happens at the first crash that completes `give_up_after` within the window, never otherwise."""
    policy = RestartPolicy(give_up_after=allowed)
    restarts = Restarts(policy, random.Random(seed))
    now, times = 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        delay = restarts.crashed(now)
        full = sum(at > now - policy.window for at in times) >= allowed
        assert (delay is None) == full
        if delay is None:
            return
        assert policy.first_delay <= delay <= policy.longest_delay * (1 + policy.jitter)

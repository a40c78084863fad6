"""Commands that are cut off: TERM, grace and KILL for all of the group, and what is known afterwards."""

from pathlib import Path

import trio

from agents.events import RunEnded
from agents.execute import Outcome
from agents.journal import MemoryJournal
from agents.loop import AgentRun
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from orchestrator.tools.command import CommandTool
from orchestrator.tools.process import KILL_SECONDS, LINGER
from tests.tools.commands import alive, call, gone, program, written

HEEDS = """
import os, signal, sys, time
def leave(*_):
    print("tidied up", flush=True)
    os._exit({code})
signal.signal(signal.SIGTERM, leave)
open({path!r}, "w").write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""

IGNORES = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
open({path!r}, "w").write(f"{{os.getpid()}} {{child.pid}}\\n")
time.sleep(600)
"""


async def cut_off(tool: CommandTool, path: Path) -> tuple[Outcome | None, list[int]]:
    """Calls the tool and cancels the call once its process runs; the outcome, if there is one, and process ids."""
    outcome: Outcome | None = None
    scope = trio.CancelScope()

    async def one() -> None:
        nonlocal outcome
        with scope:
            outcome = await call(tool)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            pids = [int(pid) for pid in (await written(path)).split()]
            scope.cancel()
    return outcome, pids


async def test_a_process_that_heeds_term_and_is_done_has_answered(tmp_path: Path) -> None:
    """One that ends with 0 within its grace has an outcome, though it was cut off."""
    path = tmp_path / "pid"
    outcome, (pid,) = await cut_off(program(HEEDS.format(code=0, path=str(path)), grace=20), path)
    assert outcome == Outcome("ok", "tidied up\n")
    assert not alive(pid)


async def test_a_process_that_was_cut_off_is_of_unknown_effect(tmp_path: Path) -> None:
    """One that ends with anything else says nothing of what it did: the cancellation goes on."""
    path = tmp_path / "pid"
    outcome, (pid,) = await cut_off(program(HEEDS.format(code=143, path=str(path)), grace=20), path)
    assert outcome is None
    assert not alive(pid)


async def test_a_process_that_ignores_term_is_killed_with_its_children(tmp_path: Path) -> None:
    """After its grace nothing of the group is left, whatever it does about signals."""
    path = tmp_path / "pid"
    outcome, pids = await cut_off(program(IGNORES.format(path=str(path)), grace=0.05), path)
    assert outcome is None
    with trio.fail_after(20):
        for pid in pids:
            await gone(pid)


async def test_children_have_the_grace_as_well(tmp_path: Path) -> None:
    """A shell that dies of TERM at once does not take the grace from the program that it started."""
    path, done = tmp_path / "pid", tmp_path / "done"
    source = tmp_path / "work.py"
    source.write_text(
        "import os, signal, sys, time\n"
        "def leave(*_):\n"
        "    time.sleep(1.2)\n"
        f"    open({str(done)!r}, 'w').write('tidied up\\n')\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        f"open({str(path)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    tool = CommandTool("shell", ["sh", "-c", f"python3 -S {source}; echo never"], grace=20)
    outcome, _ = await cut_off(tool, path)
    assert outcome is None
    assert await written(done) == "tidied up"


async def test_a_process_that_stands_still_is_ended(tmp_path: Path) -> None:
    """A stopped process is woken to hear of its end."""
    path = tmp_path / "pid"
    source = HEEDS.format(code=0, path=str(path)).replace("time.sleep(600)", "os.kill(os.getpid(), signal.SIGSTOP)")
    outcome, (pid,) = await cut_off(program(source, grace=20), path)
    assert outcome == Outcome("ok", "tidied up\n")
    assert not alive(pid)


async def test_a_timeout_goes_down_the_ladder(tmp_path: Path) -> None:
    """A call over its tool's timeout is ended; only a repeatable tool's effect is not in doubt."""
    for read_only, finish in ((False, "unknown_effect"), (True, "timeout")):
        path = tmp_path / finish
        source = IGNORES.format(path=str(path))
        with trio.fail_after(30):
            outcome = await call(program(source, timeout=0.4, grace=0.01, read_only=read_only))
        assert outcome.finish == finish
        assert "longer than 0.4 s" in outcome.content
        if path.exists():
            for pid in path.read_text().split():
                await gone(int(pid))


async def test_a_call_cancelled_before_its_process_runs_starts_none(tmp_path: Path) -> None:
    """Cancelled at its first checkpoint, nothing is started."""
    path = tmp_path / "pid"
    with trio.CancelScope() as scope:
        scope.cancel()
        await call(program(f"open({str(path)!r}, 'w')"))
    assert scope.cancelled_caught
    assert not path.exists()


async def test_a_run_waits_for_the_whole_ladder(tmp_path: Path) -> None:
    """A run whose command must be killed ends when its process is gone: quiescent, its call's effect unknown."""
    path = tmp_path / "pid"
    tool = program(IGNORES.format(path=str(path)), grace=0.01)
    assert tool.patience > tool.grace + KILL_SECONDS + 2 * LINGER
    agent = AgentSpec(name="agent", model="scripted", tools=(tool,))
    journal = MemoryJournal()
    run = AgentRun(agent, "x", model=ScriptedModel(in_turn(ask("program"), say("never"))), journal=journal)
    await run.create()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.drive)
            pids = [int(pid) for pid in (await written(path)).split()]
            run.cancel()
    ended = journal.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.quiescent, len(ended.unknown_effects)) == ("cancelled", True, 1)
    with trio.fail_after(20):
        for pid in pids:
            await gone(pid)

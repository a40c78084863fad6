"""Commands as tools: what they are given, what their answer is, and what is told of a failure."""

import json
import os
import signal
from pathlib import Path

import pytest
import trio

from agents.arguments import BadArguments, InvalidTool
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from orchestrator.tools.command import CommandTool
from orchestrator.tools.output import MOST_KEPT, MOST_TOLD
from orchestrator.tools.process import LINGER
from tests.tools.commands import MemoryBlobs, call, context, gone, program

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"


async def test_arguments_come_as_json_and_stdout_is_the_answer() -> None:
    """The process reads one line of JSON with the defaults filled in, and its output goes to the model as it is."""
    tool = program(ECHO, parameters={"city": "string", "days": {"type": "integer", "default": 3}})
    outcome = await call(tool, {"city": "Zürich \n \x00 😀"})
    assert (outcome.finish, json.loads(outcome.content)) == ("ok", {"city": "Zürich \n \x00 😀", "days": 3})
    assert outcome.content.count("\n") == 1


async def test_a_command_is_an_agents_tool() -> None:
    """A run calls it like any other tool, and the model reads its answer."""
    tool = program(ECHO, parameters={"city": "string"})
    agent = AgentSpec(name="agent", model="scripted", tools=(tool,))
    model = ScriptedModel(in_turn(ask("program", {"city": "Basel"}), say("done")))
    result = await run_agent(agent, "x", model=model, journal=MemoryJournal())
    assert [m.content for m in result.messages if m.role == "tool"] == ['{"city":"Basel"}\n']


async def test_its_environment_is_what_was_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It gets its folder, its variables, PATH, HOME and LANG, which call it is, and nothing else of the daemon's."""
    monkeypatch.setenv("SECRET_OF_THE_DAEMON", "hunter2")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("HOME", "/home/someone")
    source = "import os, json; print(json.dumps([os.getcwd(), dict(os.environ)]))"
    tool = program(source, folder=tmp_path, environment={"CITY": "Bern", "HOME": "/nowhere"})
    folder, environment = json.loads((await call(tool)).content)
    assert Path(folder) == tmp_path
    environment.pop("LC_CTYPE", None)  # which Python sets for itself
    assert environment == {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "LANG": "C.UTF-8",
        "CITY": "Bern",
        "HEADRACE_RUN": "run",
        "HEADRACE_CALL": "call-1",
        "HEADRACE_KEY": "run/1/0",
        "HEADRACE_GENERATION": "7",
    }


async def test_a_failure_says_how_it_ended_and_what_it_said() -> None:
    """Another exit code than 0 is an error with both outputs in it, not an unknown effect."""
    source = "import sys; print('half done'); print('no such city', file=sys.stderr); sys.exit(3)"
    outcome = await call(program(source))
    assert outcome.finish == "error"
    assert outcome.content == "program ended with exit code 3.\nstderr:\nno such city\n\nstdout:\nhalf done\n"


async def test_a_crash_names_its_signal() -> None:
    """A process that dies of a signal nobody here sent is an error which says so."""
    outcome = await call(program("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert (outcome.finish, outcome.content) == ("error", "program ended with signal SIGSEGV.")
    outcome = await call(program(f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})"))
    assert outcome.content == f"program ended with signal {signal.SIGRTMIN + 3}."


async def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """A missing program, folder or right is told by its name."""
    (tmp_path / "plain").write_text("no program")
    for command, folder, told in (
        (["no-such-program"], None, "no-such-program"),
        ([str(tmp_path / "plain")], None, "Permission denied"),
        (["true"], tmp_path / "nowhere", "nowhere"),
        (["true", "a\0b"], None, "null byte"),
    ):
        outcome = await call(CommandTool("tool", command, folder=folder))
        assert outcome.finish == "error"
        assert outcome.content.startswith("tool could not be started: ")
        assert told in outcome.content


async def test_a_program_that_does_not_read_is_not_in_trouble() -> None:
    """Arguments larger than a pipe for a program that never looks at them hold nothing up."""
    tool = program("print('as you like')", parameters={"text": "string"})
    assert (await call(tool, {"text": "x" * 1_000_000})).content == "as you like\n"


async def test_a_long_output_is_told_in_part_and_kept_whole() -> None:
    """The model reads the beginning and the end, and which blob has everything."""
    blobs = MemoryBlobs()
    source = "import sys; sys.stdout.write('begin' + 'm' * 200_000 + 'end')"
    outcome = await call(program(source, blobs=blobs))
    assert outcome.finish == "ok"
    (digest,) = blobs.kept
    assert blobs.kept[digest] == b"begin" + b"m" * 200_000 + b"end"
    assert outcome.content.startswith("beginm")
    assert outcome.content.endswith("mend")
    assert f"[{200_008 - MOST_TOLD} of its 200008 bytes are left out here; all of them are in blob {digest}]" in (
        outcome.content
    )
    assert len(outcome.content) < MOST_TOLD + 300


async def test_an_endless_output_is_kept_in_bounds() -> None:
    """No more than 16 MiB are kept, however much comes; the end is still told, and the program is never held up."""
    blobs = MemoryBlobs()
    source = (
        "import sys\nfor _ in range(20): sys.stderr.write('m' * 1_048_576)\nsys.stderr.write('at last')\nsys.exit(1)"
    )
    outcome = await call(program(source, blobs=blobs))
    assert outcome.finish == "error"
    assert [len(data) for data in blobs.kept.values()] == [MOST_KEPT]
    assert outcome.content.endswith("at last")
    assert f"the first {MOST_KEPT} of them are in blob" in outcome.content


@pytest.mark.parametrize(("blobs", "told"), [(None, "nothing keeps them"), (MemoryBlobs(OSError("full")), "full")])
async def test_an_output_that_nobody_keeps_says_so(blobs: MemoryBlobs | None, told: str) -> None:
    """Without blobs, or with ones that fail, the answer is the shortened text and why there is no more."""
    outcome = await call(program("print('x' * 100_000)", blobs=blobs))
    assert outcome.finish == "ok"
    assert told in outcome.content


async def test_bytes_that_are_no_text_are_replaced() -> None:
    """An output that is not UTF-8 is an answer all the same."""
    outcome = await call(program("import sys; sys.stdout.buffer.write(b'caf\\xe9 \\xff')"))
    assert (outcome.finish, outcome.content) == ("ok", "caf\ufffd \ufffd")


async def test_a_process_left_behind_is_ended_with_its_call() -> None:
    """A background process that holds the output does not hold the call, nor does it outlive it."""
    source = "import subprocess, sys\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)"
    began = trio.current_time()
    outcome = await call(program(source))
    assert outcome.finish == "ok"
    assert trio.current_time() - began < LINGER + 20
    with trio.fail_after(20):
        await gone(int(outcome.content))


async def test_last_words_of_a_child_are_heard() -> None:
    """What a child of the command still writes right after it ended belongs to the answer."""
    outcome = await call(CommandTool("shell", ["sh", "-c", "(sleep 0.05; echo late) & echo early"]))
    assert (outcome.finish, outcome.content) == ("ok", "early\nlate\n")


def test_arguments_are_strict() -> None:
    """No string becomes a number, nothing unknown is dropped, bounds and enums hold; each reason is said."""
    tool = program(
        ECHO,
        parameters={
            "from": {"type": "string", "enum": ["Bern", "Basel"], "description": "Where it begins."},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3},
            "tags": {"type": "array", "items": "string", "default": []},
            "note": {"type": "string", "required": False, "max_length": 5},
        },
    )
    assert tool.decode('{"from": "Bern"}') == {"from": "Bern", "days": 3, "tags": []}
    assert tool.decode('{"from": "Bern", "note": "short"}')["note"] == "short"
    for arguments in (
        "{}",
        '{"from": "Chur"}',
        '{"from": "Bern", "days": "3"}',
        '{"from": "Bern", "days": 8}',
        '{"from": "Bern", "days": true}',
        '{"from": "Bern", "tags": "a"}',
        '{"from": "Bern", "note": "too long"}',
        '{"from": "Bern", "more": 1}',
        '{"from": "Ber',
    ):
        with pytest.raises(BadArguments, match="bad arguments for program"):
            tool.decode(arguments)
    schema = tool.spec.parameters
    assert schema["required"] == ["from"]
    assert schema["properties"]["from"] == {"enum": ["Basel", "Bern"], "description": "Where it begins."}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"city": "text"}, "parameter city: Invalid enum value 'text'"),
        ({"city": {"kind": "string"}}, "parameter city: Object contains unknown field `kind`"),
        ({"city-name": "string"}, "'city-name' is no name for a parameter"),
        ({"_city": "string"}, "'_city' is no name for a parameter"),
        ({"days": {"type": "integer", "default": "3"}}, "parameter days: its default does not fit"),
        ({"days": {"type": "integer", "maximum": 2, "default": 3}}, "parameter days: its default does not fit"),
        ({"days": {"type": "number", "enum": [1]}}, "parameter days: an enum has"),
        ({"days": {"type": "integer", "enum": ["one"]}}, "parameter days: an enum has"),
        ({"city": {"type": "string", "minimum": 1}}, "parameter city:"),
        ({"city": {"type": "string", "pattern": "("}}, "parameter city:"),
    ],
)
def test_nonsense_parameters_are_refused(parameters: dict[str, object], problem: str) -> None:
    """What a configuration gets wrong is said with the parameter's name, before any call."""
    with pytest.raises(InvalidTool) as caught:
        program(ECHO, parameters=parameters)
    assert "tool program" in caught.value.message
    assert problem in caught.value.message


def test_a_command_has_a_program() -> None:
    """An empty command is no tool."""
    for command in ([], [""]):
        with pytest.raises(InvalidTool, match="begins with the program"):
            CommandTool("tool", command)


async def test_a_call_id_of_any_kind_can_be_told() -> None:
    """Ids are written by models, and a NUL in one does not keep a process from starting."""
    told = context()
    told.call = "a\0b"
    tool = program("import os; print(os.environ['HEADRACE_CALL'])")
    made = tool.bind({}, told)()
    assert await made == "ab\n"  # type: ignore[misc]

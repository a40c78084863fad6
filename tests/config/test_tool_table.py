"""`[tools.NAME]`: one of five things each, with the settings of its kind, and all that is wrong told by its key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agents.amounts import Limits
from agents.approval_rule import ApprovalRule
from agents.delegate import DEFAULT_DEPTH, AgentTool
from agents.person import PersonTool
from agents.tools import BadArguments, BaseTool
from orchestrator.config.catalogue import build_catalogue
from orchestrator.config.decode import decode_table
from orchestrator.config.mcp_servers import mcp_servers
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config
from orchestrator.config.summary import summarise
from orchestrator.tools.command import CommandTool
from tests.config.test_config_build import TODAY

ADDRESS = "https://tools.example/mcp"


def document(tools: Mapping[str, Any], *used: str) -> dict[str, Any]:
    return {"backends": {"one": {"kind": "simulated"}}, "agents": {"a": {"tools": list(used)}}, "tools": tools}


def config(tools: Mapping[str, Any], *used: str, folder: Path = Path("/nowhere")) -> Config:
    return structs.replace(decode_table(document(tools, *used), "test.toml"), source=str(folder / "headrace.toml"))


def problems(tools: Mapping[str, Any], *used: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        decode_table(document(tools, *used), "test.toml")
    return {problem.path: problem.message for problem in caught.value.problems}


def tool(table: Mapping[str, Any], **environ: str) -> BaseTool:
    return build_catalogue(config({"t": table}, "t"), TODAY, environ=environ).agents["a"].tools[0]


@pytest.mark.parametrize(
    ("table", "path", "words"),
    [
        ({}, "tools.t", "needs one of function, command, mcp, agent, ask"),
        ({"timeout": 3}, "tools.t", "says not what it is"),
        ({"function": "a:b", "command": ["x"]}, "tools.t.command", "give this or function, not both"),
        ({"mcp": ADDRESS, "ask": True}, "tools.t.ask", "give this or mcp, not both"),
        ({"function": "json.loads"}, "tools.t.function", "package.module:name"),
        ({"command": "deploy --now"}, "tools.t.command", "must be an array, not text"),
        ({"command": []}, "tools.t.command", "must begin with a program"),
        ({"command": [" "]}, "tools.t.command", "must begin with a program"),
        ({"mcp": "files-server"}, "tools.t.mcp", "must be an address as https://host/path"),
        ({"mcp": "https://me:hunter22@tools.example/"}, "tools.t.mcp", "without user and password"),
        ({"mcp": []}, "tools.t.mcp", "must begin with a program"),
        ({"mcp": 3}, "tools.t.mcp", "must be text or an array"),
        ({"agent": "b"}, "tools.t.agent", "there is no agent 'b'; there are: a"),
        ({"ask": False}, "tools.t.ask", "can only be true"),
        ({"ask": "why?"}, "tools.t.ask", "must be true or false"),
        ({"url": ADDRESS, "mcp": ADDRESS}, "tools.t.url", "is written as `mcp ="),
        ({"mcp": ADDRESS, "api_key": "hunter22"}, "tools.t.api_key", "keys do not belong in this file"),
        ({"mcp": ADDRESS, "api_key_env": "hunter-22"}, "tools.t.api_key_env", "not the key itself"),
        ({"mcp": ADDRESS, "api_key_env": "A", "api_key_file": "b"}, "tools.t.api_key_file", "not both"),
        ({"mcp": ADDRESS, "env": {"A": "b"}}, "tools.t.env", "is for programs"),
        ({"mcp": ["x"], "headers": {"A": "b"}}, "tools.t.headers", "is for addresses"),
        ({"command": ["x"], "env": {"A B": "c"}}, "tools.t.env", "names of environment variables"),
        ({"command": ["x"], "pass_env": ["A=c"]}, "tools.t.pass_env", "names of environment variables"),
        ({"command": ["x"], "read_only": ["x"]}, "tools.t.read_only", "must be true or false"),
        ({"function": "a:b", "parameters": {"x": "string"}}, "tools.t.parameters", "is for tools with command, and"),
        ({"mcp": ADDRESS, "description": "x"}, "tools.t.description", "this one has mcp"),
        ({"agent": "a", "read_only": True}, "tools.t.read_only", "this one has agent"),
        ({"ask": True, "approval": "always"}, "tools.t.approval", "this one has ask"),
        ({"ask": True, "timeout": 3}, "tools.t.timeout", "this one has ask"),
        ({"command": ["x"], "depth": 2}, "tools.t.depth", "is for tools with agent"),
        ({"command": ["x"], "approval": "allways"}, "tools.t.approval", "did you mean"),
        ({"command": ["x"], "approval": "a >"}, "tools.t.approval", "neither never, nor always, nor a rule"),
        ({"command": ["x"], "approval": "open('x')"}, "tools.t.approval", "has no place in a rule"),
        ({"command": ["x"], "expires_in": 3}, "tools.t.expires_in", "approval is not asked for here"),
        ({"command": ["x"], "approval": "always", "expires_in": 0}, "tools.t.expires_in", "must be above 0"),
        ({"command": ["x"], "aproval": "always"}, "tools.t.aproval", "did you mean approval?"),
        ({"agent": "a", "budget": {"tokens": 0}}, "tools.t.budget.tokens", "must be at least 1"),
    ],
)
def test_what_a_table_cannot_say_is_told_at_its_key(table: dict[str, Any], path: str, words: str) -> None:
    """Each senseless table has one problem, at the key that is wrong, and no message quotes what may be a secret."""
    ((where, message),) = problems({"t": table}).items()
    assert where == path
    assert words in message
    assert "hunter" not in message


def test_a_command_has_its_settings_environment_and_folder() -> None:
    """A program becomes a tool with a strict schema, a rule, and only the variables that are passed on."""
    table = {
        "command": ["./deploy.sh"],
        "description": "Deploys.",
        "parameters": {"service": "string", "replicas": {"type": "integer", "default": 2}},
        "timeout": 5,
        "grace": 1,
        "idempotent": True,
        "approval": "replicas > 5",
        "expires_in": 60,
        "cwd": "tools",
        "env": {"REGION": "eu"},
        "pass_env": ["TOKEN"],
    }
    made = tool(table, TOKEN="hunter22")
    assert isinstance(made, CommandTool)
    assert (made.name, made.kind, made.spec.description) == ("t", "command", "Deploys.")
    assert (made.timeout, made.grace, made.repeatable, made.expires_in) == (5, 1, True, 60)
    assert isinstance(made.approval, ApprovalRule)
    assert made.why_ask(made.decode('{"service": "web", "replicas": 6}')) == "replicas > 5"
    assert made.why_ask(made.decode('{"service": "web"}')) == ""
    with pytest.raises(BadArguments):
        made.decode('{"service": 3}')
    assert "hunter" not in repr(made)


@pytest.mark.parametrize(
    ("table", "path", "words"),
    [
        ({"command": ["x"], "pass_env": ["TOKEN"]}, "tools.t.pass_env", "TOKEN is not set"),
        ({"command": ["x"], "parameters": {"a": "strin"}}, "tools.t.parameters", "strin"),
        ({"command": ["x"], "approval": "b > 1", "parameters": {"a": "integer"}}, "tools.t.approval", "it takes a"),
        ({"function": "tests.config.documents:lookup", "approval": "wrod == 1"}, "tools.t.approval", "it takes word"),
    ],
)
def test_what_is_only_seen_when_a_tool_is_made_is_told_at_its_key(table: dict[str, Any], path: str, words: str) -> None:
    """Variables that are not set, parameters that are none, and rules over what a tool does not take."""
    with pytest.raises(ConfigError) as caught:
        tool(table)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.message


def test_a_function_that_is_a_tool_keeps_its_own_approval_unless_the_table_says_otherwise() -> None:
    """The operator's word goes before the author's, and nothing said is not "never"."""
    function = "tests.config.test_tool_table:guarded"
    assert tool({"function": function}).approval == "always"
    assert tool({"function": function}).grace == 2
    assert tool({"function": function}).expires_in == 30
    assert tool({"function": function, "approval": "never", "grace": 1}).approval == "never"
    assert tool({"function": function, "read_only": False}).read_only is False


def _guarded() -> BaseTool:
    from agents.tools import Tool

    def act(x: int) -> int:
        """Acts."""
        return x

    return Tool(act, approval="always", expires_in=30, grace=2, read_only=True)


guarded = _guarded()


def test_people_are_a_tool() -> None:
    """`ask = true` makes a tool that takes a question and options, and waits as long as is said."""
    made = tool({"ask": True, "description": "Asks the boss.", "expires_in": 60})
    assert isinstance(made, PersonTool)
    assert (made.kind, made.spec.description, made.expires_in) == ("person", "Asks the boss.", 60)
    assert made.decode('{"question": "Why?", "options": ["a"]}') == {"question": "Why?", "options": ("a",)}
    for text in ("{}", '{"question": " "}', '{"question": "Why?", "options": [""]}'):
        with pytest.raises(BadArguments):
            made.decode(text)


def test_agents_are_tools_with_a_budget_of_their_own() -> None:
    """`agent = "..."` makes a tool that delegates within bounds; money on a model without a price is refused."""
    budget = {"rounds": 4, "timeout": 9}
    made = tool(
        {"agent": "a", "description": "Helps.", "budget": budget, "width": 2, "timeout": 5, "approval": "always"}
    )
    assert isinstance(made, AgentTool)
    assert (made.agent, made.kind, made.spec.description, made.timeout) == ("a", "agent", "Helps.", 5)
    assert (made.limits, made.depth, made.width) == (Limits(rounds=4, timeout=9), DEFAULT_DEPTH, 2)
    assert made.why_ask({"task": "x"}) == "always"
    ((path, message),) = problems({"t": {"agent": "a", "budget": {"dollars": 1}}}).items()
    assert path == "tools.t.budget.dollars"
    assert "money cannot be limited, since model 'simulated' has no price" in message


def test_servers_are_asked_when_a_run_needs_them() -> None:
    """What an agent names of them is kept in its order, whole servers and single tools; the rest is made at once."""
    tools = {
        "look": {"function": "tests.config.documents:lookup"},
        "files": {"mcp": ["files-server"]},
        "far": {"mcp": ADDRESS},
        "helper": {"agent": "a"},
    }
    catalogue = build_catalogue(config(tools, "far__get", "look", "files", "helper"), TODAY)
    assert [made.name for made in catalogue.agents["a"].tools] == ["look", "helper"]
    assert catalogue.elsewhere == {"a": ("far__get", "files")}


def test_names_of_servers_and_of_their_tools_are_told_apart() -> None:
    """A name that could be a server's tool, a server's name that could be split, and a tool given twice: refused."""
    server = {"mcp": ADDRESS}
    look = {"function": "tests.config.documents:lookup"}
    assert problems({"far": server, "far__get": look}) == {
        "tools.far__get": "is a name for a tool of the MCP server 'far'"
    }
    assert list(problems({"far__off": server})) == ["tools.far__off"]
    assert list(problems({"x" * 33: server})) == [f"tools.{'x' * 33}"]
    assert list(problems({"far": server}, "far", "far__get")) == ["agents.a.tools[1]"]
    assert problems({"far": server}, "fra__get") == {"agents.a.tools[0]": "there is no tool 'fra__get'; there are: far"}
    assert config({"a": look, "a__b": look}, "a", "a__b").agents["a"].tools == ("a", "a__b")


def test_servers_have_their_settings_and_keys(tmp_path: Path) -> None:
    """A program gets its environment and folder, an address its headers and key; nothing shows them."""
    (tmp_path / "far.key").write_text("hunter22\n")
    tools = {
        "files": {"mcp": ["files-server", "/srv"], "env": {"A": "b"}, "pass_env": ["TOKEN"], "only": ["read"]},
        "far": {"mcp": ADDRESS, "headers": {"X-A": "b"}, "api_key_file": "far.key", "read_only": ["get"], "timeout": 9},
    }
    files, far = mcp_servers(config(tools, folder=tmp_path), {"TOKEN": "hunter33"})
    assert (files.name, files.command, files.cwd) == ("files", ("files-server", "/srv"), str(tmp_path))
    assert (files.env, files.only) == ({"TOKEN": "hunter33", "A": "b"}, ("read",))
    assert (far.url, far.timeout, far.read_only) == (ADDRESS, 9, ("get",))
    assert far.headers == {"X-A": "b", "Authorization": "Bearer hunter22"}
    assert "hunter" not in f"{files!r} {far!r}"


def test_what_servers_lack_is_told_all_at_once(tmp_path: Path) -> None:
    """Variables that are not set and key files that are not there are told by their keys."""
    tools = {
        "files": {"mcp": ["files-server"], "pass_env": ["TOKEN"]},
        "far": {"mcp": ADDRESS, "api_key_file": "far.key"},
        "off": {"mcp": ADDRESS, "api_key_env": "KEY"},
    }
    with pytest.raises(ConfigError) as caught:
        mcp_servers(config(tools, folder=tmp_path), {})
    assert [problem.path for problem in caught.value.problems] == [
        "tools.files.pass_env",
        "tools.far.api_key_file",
        "tools.off.api_key_env",
    ]


def test_the_summary_says_what_each_tool_is_and_who_is_asked() -> None:
    """Kind, what it runs and its approval; a server of which an agent uses one tool is in use."""
    tools = {
        "deploy": {"command": ["./deploy.sh", "--token"], "approval": "always"},
        "far": {"mcp": ADDRESS},
        "people": {"ask": True},
    }
    view = summarise(config(tools, "far__get"))
    shown = {name: (made.kind, made.what, made.approval) for name, made in view.tools.items()}
    assert shown == {
        "deploy": ("command", "./deploy.sh", "always"),
        "far": ("mcp", ADDRESS, "never"),
        "people": ("ask", "people", "never"),
    }
    assert [note for note in view.notes if "tool" in note] == [
        "tool deploy belongs to no agent",
        "tool people belongs to no agent",
    ]

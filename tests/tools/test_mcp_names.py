"""What tools of MCP servers are called, and what their configs refuse."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from orchestrator.tools.mcp_config import McpConfig
from orchestrator.tools.mcp_names import local_name, local_names

SERVERS = st.from_regex(r"[a-zA-Z0-9-]{1,5}(_[a-zA-Z0-9-]{1,5}){0,4}", fullmatch=True)


def test_plain_names_stay_as_they_are() -> None:
    """Server and tool can be read off the name."""
    assert local_names("files", ["read", "a.b"]) == {"files__read": "read", local_name("files", "a.b"): "a.b"}
    assert local_name("files", "a.b") == f"files__a_b_{local_name('files', 'a.b')[-8:]}"


@given(SERVERS, st.lists(st.text(min_size=1, max_size=128) | st.sampled_from(["a.b", "a_b", "a/b"]), unique=True))
def test_names_are_unique_and_providers_take_them(server: str, tools: list[str]) -> None:
    """Every tool has a name of its own, whatever its server calls it."""
    names = local_names(server, tools)
    assert sorted(names.values()) == sorted(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


@given(SERVERS, SERVERS, st.text("ab_", min_size=1, max_size=5), st.text("ab_", min_size=1, max_size=5))
def test_tools_of_two_servers_never_share_a_name(one: str, other: str, tool: str, another: str) -> None:
    """The first double underscore ends the server's name, since none has one inside or at its end."""
    if one != other:
        McpConfig(name=one, url="http://127.0.0.1/")
        assert local_name(one, tool) != local_name(other, another)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "a__b", "command": ("x",)}, "single _ between them"),
        ({"name": "a_", "command": ("x",)}, "single _ between them"),
        ({"name": "a" * 33, "command": ("x",)}, "at most 32"),
        ({"name": "a"}, "either a command or a url"),
        ({"name": "a", "command": ("x",), "url": "http://x"}, "either a command or a url"),
        ({"name": "a", "url": "ftp://x"}, "must begin with http"),
        ({"name": "a", "command": ("x",), "timeout": 0}, "more than 0 seconds"),
        ({"name": "a", "command": ("x",), "concurrency": 0}, "at least 1"),
    ],
)
def test_configs_that_make_no_sense_are_refused(options: dict[str, Any], reason: str) -> None:
    """Each says which field is wrong and what would be right."""
    with pytest.raises(InvalidLimits, match=re.escape(reason)):
        McpConfig(**options)

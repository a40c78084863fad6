"""What a reload would change: every difference is found, and what cannot change live is told apart."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.config.decode import decode_table
from orchestrator.config.difference import Difference, difference
from orchestrator.config.problems import ConfigError, show_path
from orchestrator.config.schema import Config
from tests.config.documents import FULL, at, keys

FULL_CONFIG = decode_table(FULL, "test.toml")
EVERY_KEY = sorted(keys(FULL), key=repr)


def edited(path: tuple[str | int, ...], value: object) -> Config:
    """The full configuration with another value at a path; None takes the key away."""
    document: dict[str, Any] = copy.deepcopy(FULL)
    table = at(document, path[:-1])
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return decode_table(document, "test.toml")


def told(found: Difference) -> tuple[list[str], list[str]]:
    return [str(change) for change in found.live], [str(change) for change in found.restart]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("backends", "api", "rpm"), 30, "backends.api.rpm: 60 -> 30"),
        (("backends", "api", "endpoints", "a", "rpm"), None, "backends.api.endpoints.a.rpm: 30 -> not set"),
        (("backends", "api", "limits", 0, "amount"), 4, "backends.api.limits[0].amount: 5 -> 4"),
        (("backends", "api", "in_flight", "calls"), 4, "backends.api.in_flight.calls: 9 -> 4"),
        (("backends", "own", "concurrency"), 2, "backends.own.concurrency: 3 -> 2"),
        (("backends", "api", "retry", "attempts"), 9, "backends.api.retry.attempts: 2 -> 9"),
        (("backends", "api", "fair", "weights", "acme"), 5, "backends.api.fair.weights.acme: 2 -> 5"),
        (("tenants", "acme", "weight"), 1.5, "tenants.acme.weight: 3 -> 1.5"),
        (("tenants", "new"), {"weight": 2}, "tenants.new: not set -> {weight = 2}"),
        (("tenants", "acme"), None, None),
        (("models", "gpt-4.1 mini", "price", "output"), 5, 'models."gpt-4.1 mini".price.output: 4 -> 5'),
        (("models", "small", "backends"), ["own"], None),
        (("models", "new"), {"backends": ["own"]}, 'models.new: not set -> {backends = ["own"]}'),
        (("agents", "writer", "budget", "tokens"), 9, "agents.writer.budget.tokens: 500 -> 9"),
        (("agents", "writer", "system"), "Be.", 'agents.writer.system: "Be brief." -> "Be."'),
        (("tools", "lookup", "timeout"), 6, "tools.lookup.timeout: 5 -> 6"),
        (("tools", "deploy", "env", "REGION"), "us", 'tools.deploy.env.REGION: "***" -> "***"'),
        (("tools", "people"), {"ask": True}, "tools.people.expires_in: 3600 -> not set"),
        (("daemon", "admission", "calls"), 30, "daemon.admission.calls: 20 -> 30"),
        (("daemon", "keep_ended_runs"), 5, "daemon.keep_ended_runs: 0 -> 5"),
    ],
)
def test_what_can_change_live(path: tuple[str | int, ...], value: object, words: str | None) -> None:
    """Limits, tenants, models, prices, agents, tools and bounds on runs change live, and are told in words."""
    if path == ("models", "small", "backends"):
        old, new = (decode_table(_small(backends), "test.toml") for backends in (["api", "own"], ["own", "api"]))
        live, restart = told(difference(old, new))
        words = 'models.small.backends: ["api", "own"] -> ["own", "api"]'
    else:
        live, restart = told(difference(FULL_CONFIG, edited(path, value)))
    assert restart == []
    assert len(live) == 1
    assert words is None or live == [words]


def _small(backends: list[str]) -> dict[str, Any]:
    return {**FULL, "models": {**FULL["models"], "small": {**FULL["models"]["small"], "backends": backends}}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("daemon", "port"), 1),
        (("daemon", "host"), "127.0.0.2"),
        (("daemon", "data_dir"), "elsewhere"),
        (("daemon", "log"), "text"),
        (("daemon", "log_level"), "info"),
        (("backends", "new"), {"kind": "simulated"}),
        (("backends", "api", "base_url"), "http://localhost:3/v1"),
        (("backends", "api", "api_key_env"), "OTHER"),
        (("backends", "api", "clocks", "connect"), 3),
        (("backends", "api", "endpoints", "c"), {}),
        (("backends", "api", "endpoints", "a"), None),
        (("backends", "api", "endpoints", "b", "base_url"), "http://localhost:3/v1"),
        (("backends", "api", "endpoints", "a", "ca_file"), None),
        (("backends", "api", "fair", "order"), "las"),
        (("backends", "own", "slots"), 2),
        (("backends", "own", "weights"), "other.gguf"),
        (("backends", "fake", "seed"), 1),
        (("tools", "files", "only"), ["read"]),
        (("tools", "files", "mcp"), ["other-server"]),
        (("tools", "files"), None),
        (("tools", "new"), {"mcp": "https://tools.example/mcp"}),
    ],
)
def test_what_needs_a_restart(path: tuple[str | int, ...], value: object) -> None:
    """Addresses, keys, clocks, backends, endpoints and MCP servers need a restart."""
    found = difference(FULL_CONFIG, edited(path, value))
    assert found.live == []
    assert [change.path for change in found.restart] == [show_path(path)]


def test_a_model_on_a_new_backend_needs_the_restart_that_the_backend_needs() -> None:
    """Changes that lead calls to a backend that is not there yet are no live changes."""
    document = copy.deepcopy(FULL)
    document["backends"]["new"] = {"kind": "simulated"}
    document["models"]["new"] = {"backends": ["new"]}
    document["models"]["*"]["backends"] = ["fake", "new"]
    found = difference(FULL_CONFIG, decode_table(document, "test.toml"))
    assert found.live == []
    assert [change.path for change in found.restart] == ["backends.new", 'models."*".backends', "models.new"]


def test_a_backend_of_another_kind_is_one_change() -> None:
    """A backend that changes its kind is told whole, and needs a restart."""
    found = difference(FULL_CONFIG, edited(("backends", "fake"), {"kind": "openai", "rpm": 3}))
    (change,) = found.restart
    assert change.path == "backends.fake"
    assert change.after == '{kind = "openai", rpm = 3}'


def test_headers_are_never_shown() -> None:
    """A header that changes, and one in a backend that is new, are told without their values."""
    changed = edited(("backends", "api", "headers"), {"x-project": "red", "x-token": "hunter22"})
    new = edited(("backends", "new"), {"kind": "openai", "headers": {"x-token": "hunter22"}})
    told_of = [str(change) for config in (changed, new) for change in difference(FULL_CONFIG, config).restart]
    assert len(told_of) == 3
    assert not any(word in text for text in told_of for word in ("blue", "red", "hunter22"))


def test_where_the_file_lies_is_no_difference() -> None:
    """The same content from another place is the same configuration."""
    moved = decode_table(FULL, "elsewhere.toml")
    assert not difference(FULL_CONFIG, moved)


@given(st.sets(st.sampled_from(EVERY_KEY), max_size=4), st.sets(st.sampled_from(EVERY_KEY), max_size=4))
def test_differences_are_exactly_what_differs(one: set[tuple[str, ...]], two: set[tuple[str, ...]]) -> None:
    """Nothing differs from itself; of two configurations the same paths differ both ways, none if they are equal."""
    old, new = (_without(left_out) for left_out in (one, two))
    assert not difference(old, old)
    there, back = difference(old, new), difference(new, old)
    assert bool(there) == (old != new)
    ways = [{(change.path, change.before, change.after) for change in [*d.live, *d.restart]} for d in (there, back)]
    assert ways[0] == {(path, after, before) for path, before, after in ways[1]}
    assert all(before != after or '"***"' in before or "…" in before for _, before, after in ways[0])


def _without(left_out: set[tuple[str, ...]]) -> Config:
    document: dict[str, Any] = copy.deepcopy(FULL)
    for path in left_out:
        try:
            at(document, path[:-1]).pop(path[-1], None)
        except (KeyError, IndexError):
            continue
    try:
        return decode_table(document, "test.toml")
    except ConfigError:
        assume(False)
        raise

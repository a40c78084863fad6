"""Backends of kind anthropic in the configuration file."""

from typing import Any

import pytest
from msgspec import structs

from agents.errors import InvalidLimits
from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.config.build import anthropic_config, build_backends
from orchestrator.config.decode import decode_table
from orchestrator.config.difference import difference
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config
from orchestrator.config.summary import summarise
from orchestrator.policy.limits import LimitSpec

KEY = "sk-ant-0123456789abcdef"


def config_of(**keys: Any) -> Config:
    config = decode_table({"backends": {"claude": {"kind": "anthropic", **keys}}}, "test.toml")
    return structs.replace(config, source="/etc/headrace/headrace.toml")


def test_its_usual_address_and_key_need_no_word() -> None:
    """Without a key of the table the endpoint is Anthropic's own, with the usual variable for the key."""
    (plan,) = build_backends(config_of(), {"ANTHROPIC_API_KEY": KEY})
    (endpoint,) = plan.endpoints
    backend = endpoint.backend
    assert isinstance(backend, AnthropicBackend)
    assert (backend.name, str(backend.urls["messages"])) == ("claude", "https://api.anthropic.com/v1/messages")
    assert str(backend.urls["count_tokens"]) == "https://api.anthropic.com/v1/messages/count_tokens"
    assert backend.headers["x-api-key"] == KEY
    assert backend.headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in backend.headers
    assert backend.capabilities().dialects == {"messages", "count_tokens"}
    assert KEY not in repr(backend) + repr(backend.config) + repr(backend.connect())


def test_a_key_that_is_not_there_is_a_problem_at_its_place() -> None:
    """The variable is named, and nothing of what it might hold."""
    with pytest.raises(ConfigError) as caught:
        build_backends(config_of(), {})
    assert [str(problem) for problem in caught.value.problems] == [
        "backends.claude.api_key_env: the environment variable ANTHROPIC_API_KEY is unset or empty"
    ]


def test_another_address_needs_no_key() -> None:
    """A server of somebody else's that speaks the dialect is not sent Anthropic's key; `/v1` is not said twice."""
    for base in ("http://localhost:9", "http://localhost:9/v1", "http://localhost:9/v1/"):
        (plan,) = build_backends(config_of(base_url=base), {"ANTHROPIC_API_KEY": KEY})
        backend = plan.endpoints[0].backend
        assert isinstance(backend, AnthropicBackend)
        assert str(backend.urls["messages"]) == "http://localhost:9/v1/messages"
        assert "x-api-key" not in backend.headers


def test_endpoints_have_what_their_backend_says_unless_they_say_otherwise() -> None:
    """Address, version, features and bound are the backend's, the key is the endpoint's."""
    config = config_of(
        base_url="https://claude.example",
        api_key_env="ONE",
        beta=["b-1", "b-2"],
        version="2099-01-01",
        default_max_tokens=77,
        models={"*": "claude-x"},
        headers={"x-project": "blue"},
        endpoints={"a": {"api_key_file": "a.key", "beta": ["b-3"]}, "b": {"api_key_env": "TWO", "rpm": 5}},
    )
    a, b = anthropic_config(config, "claude", "a"), anthropic_config(config, "claude", "b")
    assert (a.api_key_env, a.api_key_file, a.beta) == (None, "/etc/headrace/a.key", ("b-3",))
    assert (b.api_key_env, b.api_key_file, b.beta) == ("TWO", None, ("b-1", "b-2"))
    assert (a.version, b.base_url, a.default_max_tokens) == ("2099-01-01", "https://claude.example", 77)
    backend = AnthropicBackend(b, environ={"TWO": KEY})
    assert backend.headers["anthropic-beta"] == "b-1,b-2"
    assert backend.headers["x-project"] == "blue"


def test_its_limits_count_as_anthropic_counts() -> None:
    """Short forms leave out cached input and count output as it is produced; what is said in full stands."""
    limits = [{"kind": "input_tokens", "amount": 9, "per": "day"}]
    keys = {"rpm": 1, "input_tpm": 2, "output_tpm": 3, "limits": limits}
    config = config_of(base_url="http://localhost:9", **keys)
    (plan,) = build_backends(config, {})
    assert set(plan.endpoints[0].limits) == {
        LimitSpec("requests", 1),
        LimitSpec("input_tokens", 2, cached_free=True),
        LimitSpec("output_tokens", 3, counted="as_produced"),
        LimitSpec("input_tokens", 9, 86400.0),
    }
    (plan,) = build_backends(config_of(base_url="http://localhost:9", output_tpm=3, counted="at_admission"), {})
    assert plan.endpoints[0].limits == (LimitSpec("output_tokens", 3, counted="at_admission"),)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"api_key": KEY}, "keys do not belong in this file"),
        ({"base_url": "claude.example"}, "must look like https://host"),
        ({"null_content": "keep"}, "unknown key"),
        ({"beta": "b-1"}, "must be an array"),
        ({"api_key_env": KEY}, "must be the name of an environment variable"),
    ],
)
def test_what_makes_no_sense_is_refused_without_showing_a_key(keys: dict[str, Any], said: str) -> None:
    """Each problem says what is wrong with which key, and quotes no value that may be a secret."""
    with pytest.raises(ConfigError) as caught:
        config_of(**keys)
    text = str(caught.value)
    assert said in text
    assert f"backends.claude.{next(iter(keys))}" in text
    assert KEY not in text


@pytest.mark.parametrize(
    "keys", [{"version": "a\nb"}, {"beta": ("",)}, {"beta": ("b\r\nx: 1",)}, {"headers": {"x": "ü"}}]
)
def test_headers_that_cannot_be_sent_are_refused(keys: dict[str, Any]) -> None:
    """What would break a header is a problem of the configuration."""
    with pytest.raises(InvalidLimits, match=next(iter(keys))):
        AnthropicBackend(AnthropicConfig(name="test", **keys))


def test_people_see_its_address_and_what_a_reload_can_change() -> None:
    """The summary shows kind and address; a limit changes live, the version needs a restart."""
    old, new = config_of(rpm=1), config_of(rpm=2, version="2099-01-01")
    (shown,) = summarise(old).backends
    assert (shown.kind, shown.endpoints[0].address) == ("anthropic", "https://api.anthropic.com")
    found = difference(old, new)
    assert [change.path for change in found.live] == ["backends.claude.rpm"]
    assert [change.path for change in found.restart] == ["backends.claude.version"]

"""From a configuration to what the daemon runs: policies, adapters, the catalogue."""

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agents.errors import UnknownModel
from agents.messages import Message
from agents.money import Price
from agents.port import Priority
from agents.tools import Tool
from orchestrator.backend_choice import FIRST_TOKENS, KV_FILL
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.backends.simulated.backend import SimulatedBackend
from orchestrator.catalogue import Target
from orchestrator.config.build import BackendPlan, build_backends, build_catalogue, policy_of, server_config
from orchestrator.config.decode import decode_table, decode_text, load
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config
from orchestrator.owner import Owner
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from tests.config.documents import FULL

TODAY = datetime.date(2026, 6, 1)


def one(kind: str, **keys: Any) -> Config:
    return decode_table({"backends": {"one": {"kind": kind, **keys}}}, "test.toml")


def plan(config: Config, environ: dict[str, str] | None = None) -> BackendPlan:
    (found,) = build_backends(config, environ or {})
    return found


def test_short_forms_are_limits() -> None:
    """Each short form is the limit that its name says, counted as the backend says; a limit's own word goes first."""
    keys = dict.fromkeys(("rpm", "tpm", "input_tpm", "output_tpm", "rpd", "tpd"), 7)
    own = {"kind": "output_tokens", "amount": 2, "per": 1, "counted": "as_produced"}
    (endpoint,) = plan(one("simulated", **keys, counted="at_admission", limits=[own])).endpoints
    assert endpoint.limits == (
        LimitSpec("output_tokens", 2, 1.0, "as_produced"),
        LimitSpec("requests", 7, 60.0, "at_admission"),
        LimitSpec("total_tokens", 7, 60.0, "at_admission"),
        LimitSpec("input_tokens", 7, 60.0, "at_admission"),
        LimitSpec("output_tokens", 7, 60.0, "at_admission"),
        LimitSpec("requests", 7, 86400.0, "at_admission"),
        LimitSpec("total_tokens", 7, 86400.0, "at_admission"),
    )


def test_endpoints_have_what_their_backend_says_unless_they_say_otherwise() -> None:
    """Limits, concurrency, address and key are taken key by key; another way to the key replaces the first."""
    config = decode_table(FULL, "test.toml")
    config = structs.replace(config, source="/etc/headrace/headrace.toml")
    limits = policy_of(config, "api").endpoints
    assert [spec.amount for spec in limits["a"].limits if spec.per == 60.0] == [30, 1000.5]
    assert limits["a"].concurrency == ConcurrencyConfig(fixed=7)
    assert {spec.counted for spec in limits["b"].limits if spec.per == 60.0} == {"reconciled"}
    assert limits["b"].concurrency == ConcurrencyConfig(initial=2, at_most=4)
    a, b = server_config(config, "api", "a"), server_config(config, "api", "b")
    assert (a.base_url, a.api_key_env, a.api_key_file) == ("https://api.example.com/v1", None, "/etc/headrace/a.key")
    assert (b.base_url, b.api_key_env, b.api_key_file) == ("http://localhost:9/v1", "API_KEY", None)
    assert a.headers == b.headers == {"x-project": "blue"}
    assert a.ca_file == "/etc/headrace/ca.pem"


def test_a_plan_is_what_an_owner_is_made_from() -> None:
    """One endpoint has the backend's name; policy, clocks and tenants are the file's, admission is the daemon's."""
    config = decode_table(
        {
            "daemon": {"admission": {"calls": 5}},
            "backends": {"one": {"kind": "simulated", "clocks": {"connect": 3}, "retry": {"attempts": 2}}},
            "tenants": {"acme": {"weight": 3, "rpm": 4, "in_flight": {"calls": 2}, "highest_priority": "batch"}},
        },
        "test.toml",
    )
    found = plan(config)
    assert [endpoint.name for endpoint in found.endpoints] == ["one"]
    dispatch = found.owner.dispatch
    assert (found.owner.name, found.owner.clocks.connect, dispatch.retry.attempts, dispatch.admission.calls) == (
        "one",
        3,
        2,
        5,
    )
    acme = dispatch.tenants["acme"]
    assert (acme.weight, acme.limits, acme.in_flight) == (3, (LimitSpec("requests", 4),), InFlightSpec(calls=2))
    assert acme.highest_priority is Priority.BATCH
    assert policy_of(config, "one").dispatch == dispatch
    Owner(found.owner, found.endpoints)


def test_a_local_engine_keeps_its_queue_outside() -> None:
    """Without a word it gets exactly its slots, a bound on tokens in flight and headroom; words go first."""
    (endpoint,) = plan(one("local", slots=4, context=100)).endpoints
    assert isinstance(endpoint.backend, LocalBackend)
    assert (endpoint.backend.config.slots, endpoint.backend.name) == (4, "one")
    assert endpoint.concurrency.fixed == 4
    assert endpoint.in_flight == InFlightSpec(tokens=KV_FILL * 400, first_token=FIRST_TOKENS)
    assert endpoint.headroom == HeadroomConfig()
    keys = {"concurrency": 9, "in_flight": {"first_token": 2}, "headroom": False}
    (endpoint,) = plan(one("local", slots=4, context=100, **keys)).endpoints
    assert (endpoint.concurrency.fixed, endpoint.headroom) == (4, None)
    assert endpoint.in_flight == InFlightSpec(tokens=KV_FILL * 400, first_token=2)
    (endpoint,) = plan(one("local", slots=4, concurrency={"at_most": 100})).endpoints
    assert endpoint.concurrency == ConcurrencyConfig(initial=4, at_most=4)


def test_the_simulated_provider_enforces_what_the_owner_is_told() -> None:
    """The provider has the owner's limits, unless it is told others; its speed is a factor."""
    (endpoint,) = plan(one("simulated", rpm=5, tpm=9, counted="at_admission", speed=10)).endpoints
    assert isinstance(endpoint.backend, SimulatedBackend)
    config = endpoint.backend.provider.config
    assert [(limit.kind, limit.amount, limit.counted) for limit in config.limits] == [
        ("requests", 5, "at_admission"),
        ("total_tokens", 9, "at_admission"),
    ]
    assert (config.latency.first_token, config.latency.output_rate) == (0.025, 600)
    (endpoint,) = plan(one("simulated", rpm=5, enforces=[{"kind": "requests", "amount": 4}])).endpoints
    assert isinstance(endpoint.backend, SimulatedBackend)
    assert [limit.amount for limit in endpoint.backend.provider.config.limits] == [4]


def test_a_script_speaks_for_a_simulated_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a function in a file beside the configuration; where there is none, the key is named."""
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "speaker_for_build.py").write_text(
        "from agents.scripted import say\nNUMBER = 1\ndef answer(messages):\n    return say(messages[0].content * 2)\n"
    )
    found = structs.replace(one("simulated", script="speaker_for_build:answer"), source=str(tmp_path / "headrace.toml"))
    (endpoint,) = build_backends(found)[0].endpoints
    assert isinstance(endpoint.backend, SimulatedBackend)
    script = endpoint.backend.provider.script
    assert script is not None
    assert script((Message("user", "ha"),)) == Message("assistant", "haha")
    for name, problem in (
        ("speaker_for_build:answers", "in module 'speaker_for_build' there is no name 'answers'"),
        ("speaker_for_build:NUMBER", "speaker_for_build:NUMBER is no function"),
        ("nobody_at_all:answer", "there is no module 'nobody_at_all'"),
    ):
        wrong = structs.replace(one("simulated", script=name), source=str(tmp_path / "headrace.toml"))
        with pytest.raises(ConfigError, match=problem) as raised:
            build_backends(wrong)
        assert raised.value.problems[0].path == "backends.one.script"
    with pytest.raises(ConfigError, match="must look like"):
        one("simulated", script="speaker_for_build.py")


def test_the_usual_address_has_the_usual_key() -> None:
    """Without an address it is OpenAI's, with its usual variable; another address gets no key that nobody named."""
    found = server_config(one("openai"), "one", "one")
    assert (found.base_url, found.api_key_env) == ("https://api.openai.com/v1", "OPENAI_API_KEY")
    assert server_config(one("openai", base_url="http://localhost:1/v1"), "one", "one").api_key_env is None
    assert server_config(one("openai", api_key_file="/k"), "one", "one").api_key_env is None


def test_keys_that_are_not_there_are_all_told(tmp_path: Path) -> None:
    """Every key that is missing is told at the key that names it, where it stands in the file."""
    endpoints = {"a": {}, "b": {"api_key_env": "B"}, "c": {"api_key_file": "c"}}
    document = {
        "backends": {
            "many": {"kind": "openai", "api_key_env": "MANY", "endpoints": endpoints},
            "one": {"kind": "openai", "headers": {"x": "\u00e9"}},
        },
        "models": {"*": {"backends": ["many"]}},
    }
    config = structs.replace(decode_table(document, "test.toml"), source=str(tmp_path / "headrace.toml"))
    with pytest.raises(ConfigError) as caught:
        build_backends(config, {"OPENAI_API_KEY": "k"})
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert found == {
        "backends.many.api_key_env": "the environment variable MANY is unset or empty",
        "backends.many.endpoints.b.api_key_env": "the environment variable B is unset or empty",
        "backends.many.endpoints.c.api_key_file": f"cannot read {tmp_path}/c: No such file or directory",
        "backends.one.headers.'x'": "names and values must be printable ASCII",
    }


def test_adapters_are_made_and_hold_the_key(tmp_path: Path) -> None:
    """A key file beside the configuration is found from anywhere, and the key is not in the adapter's repr."""
    (tmp_path / "one.key").write_text("k-123\n")
    file = tmp_path / "headrace.toml"
    file.write_text('[backends.one]\nkind = "openai"\napi_key_file = "one.key"\n')
    (endpoint,) = plan(load(file)).endpoints
    assert isinstance(endpoint.backend, OpenAIBackend)
    assert endpoint.backend.headers["authorization"] == "Bearer k-123"
    assert "k-123" not in repr(endpoint)


# The catalogue


def catalogue_of(text: str) -> Any:
    return build_catalogue(decode_text(text, "test.toml"), TODAY)


SIMULATED = '[backends.one]\nkind = "simulated"\n'


def test_an_only_backend_serves_every_model() -> None:
    """Without models the only backend serves any name, and a simulated one is the default model itself."""
    catalogue = catalogue_of(SIMULATED)
    assert catalogue.targets("anything") == [Target("one", "anything")]
    assert catalogue.targets("") == [Target("one", "simulated")]
    assert catalogue_of('[backends.one]\nkind = "openai"\n').default_model == ""


def test_models_lead_to_backends_by_their_own_names() -> None:
    """Order is the file's; the name there is one for all, one by backend, the model's own, or what was asked for."""
    config = decode_table({**FULL, "tools": {}, "agents": {}}, "test.toml")
    catalogue = build_catalogue(config, TODAY)
    assert catalogue.targets("small") == (Target("api", "small"), Target("own", "smollm"))
    assert catalogue.targets("gpt-4.1 mini") == (Target("api", "mini"),)
    assert catalogue.targets("other") == [Target("fake", "other")]


def test_the_only_model_is_the_default() -> None:
    """One named model is the default without being said; of several none is."""
    named = '[models.{}]\nbackends = ["one"]\n'
    assert catalogue_of(SIMULATED + named.format("small")).default_model == "small"
    several = catalogue_of(SIMULATED + named.format("small") + named.format("large"))
    with pytest.raises(UnknownModel):
        several.targets("")


def test_prices_are_those_of_the_day() -> None:
    """Of dated prices the newest not after the day holds; models without a price of their own have that of any."""
    config = decode_table(FULL, "test.toml")
    prices = build_catalogue(config, TODAY).prices
    assert prices.price("small") == Price(250_000, 1_000_000, 100_000, 300_000)
    assert build_catalogue(config, datetime.date(2026, 2, 1)).prices.price("small") == Price(500_000, 2_000_000)
    assert prices.price("other") is None
    any_price = catalogue_of(
        f'{SIMULATED}[models."*"]\nbackends = ["one"]\nprice = {{ input = 1, output = 2 }}\n'
    ).prices
    assert any_price.price("whatever") == Price(1_000_000, 2_000_000)


def test_an_agent_is_what_its_table_says() -> None:
    """Every key of an agent arrives in its spec, the default model and dollars as micro-dollars among them."""
    writer = build_catalogue(decode_table(FULL, "test.toml"), TODAY).agents["writer"]
    assert (writer.model, writer.system, writer.max_tokens, writer.stop) == ("small", "Be brief.", 64, ("END",))
    assert (writer.limits.rounds, writer.limits.micro_dollars, writer.limits.timeout) == (3, 50_000, 60)
    assert [message.role for message in writer.demonstration] == ["user", "assistant"]
    assert (writer.on_tool_error, writer.tool_concurrency, writer.tool_choice) == ("stop", 2, "auto")
    assert (writer.response_format, writer.extra, writer.seed) == ({"type": "text"}, {"user": "me"}, 7)
    assert (writer.compact_at, writer.compact_keep) == (9000, 6)


def test_tenants_have_their_priorities() -> None:
    """What a tenant asks for is held to its highest priority, what it does not ask for is its default."""
    catalogue = build_catalogue(decode_table(FULL, "test.toml"), TODAY)
    assert catalogue.priority("acme", None) is Priority.BATCH
    assert catalogue.priority("acme", Priority.INTERACTIVE) is Priority.STANDARD


# Tools


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Path]:
    """A folder whose modules are forgotten afterwards."""
    before = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = before[1]
    for name in set(sys.modules) - before[0]:
        del sys.modules[name]


def with_tool(folder: Path, function: str, **keys: object) -> Config:
    document = {
        "backends": {"one": {"kind": "simulated"}},
        "agents": {"a": {"tools": ["t"]}},
        "tools": {"t": {"function": function, **keys}},
    }
    return structs.replace(decode_table(document, "test.toml"), source=str(folder / "headrace.toml"))


def tool_of(config: Config) -> Tool:
    return build_catalogue(config, TODAY).agents["a"].tools[0]


def test_functions_beside_the_file_are_tools(beside: Path) -> None:
    """A function in a module beside the configuration becomes a tool with the table's name and settings."""
    (beside / "beside_one.py").write_text('def count(text: str) -> int:\n    """Counts."""\n    return len(text)\n')
    tool = tool_of(with_tool(beside, "beside_one:count", timeout=3, concurrency=2, read_only=True, grace=0))
    assert (tool.name, tool.spec.description, tool.timeout, tool.read_only, tool.grace) == ("t", "Counts.", 3, True, 0)
    assert tool.limiter is not None
    assert tool.limiter.total_tokens == 2
    assert tool.decode('{"text": "x"}') == {"text": "x"}


def test_a_file_beside_the_configuration_hides_no_installed_module(beside: Path) -> None:
    """An installed module is found before one of the same name beside the file."""
    (beside / "orchestrator.py").write_text("raise RuntimeError\n")
    (beside / "colorsys.py").write_text("raise RuntimeError\n")
    config = with_tool(beside, "colorsys:rgb_to_hls")
    with pytest.raises(ConfigError, match="has no type"):
        build_catalogue(config, TODAY)


def test_a_decorated_tool_keeps_what_the_table_does_not_say(beside: Path) -> None:
    """A function that is a tool already brings its own description and settings, the table's go first."""
    (beside / "beside_two.py").write_text(
        "from agents.tools import tool\n"
        '@tool(description="Own.", timeout=9, concurrency=3, idempotent=True)\n'
        "def act(x: int) -> int:\n    return x\n"
    )
    tool = tool_of(with_tool(beside, "beside_two:act", timeout=2))
    assert (tool.name, tool.spec.description, tool.timeout, tool.idempotent) == ("t", "Own.", 2, True)
    assert tool.limiter is not None
    assert tool.limiter.total_tokens == 3


@pytest.mark.parametrize(
    ("source", "function", "message"),
    [
        ("", "nowhere_at_all:f", "there is no module 'nowhere_at_all', neither installed nor in"),
        ("import nowhere_at_all", "beside_bad:f", "'beside_bad' cannot be imported: No module named 'nowhere_at_all'"),
        ("1 / 0", "beside_bad:f", "'beside_bad' cannot be imported: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "beside_bad:f", "'beside_bad' cannot be imported: SystemExit: 3"),
        ("def fetch(x: int): ...", "beside_bad:fecth", "there is no name 'fecth'; did you mean 'fetch'?"),
        ("f = 3", "beside_bad:f", "beside_bad:f is no function"),
        ("def f(x): ...", "beside_bad:f", "tool t: parameter x has no type"),
    ],
)
def test_what_is_no_tool_is_told(beside: Path, source: str, function: str, message: str) -> None:
    """A module or function that cannot be had is told at the tool's key, whatever happens while it is imported."""
    (beside / "beside_bad.py").write_text(source)
    with pytest.raises(ConfigError) as caught:
        build_catalogue(with_tool(beside, function), TODAY)
    (problem,) = caught.value.problems
    assert problem.path == "tools.t.function"
    assert message in problem.message

"""Decoding: what is right becomes structs, what is wrong is told, all of it, with its path."""

import copy
import datetime
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agents.errors import HeadraceError
from orchestrator.backends.openai.backend import OpenAIConfig
from orchestrator.config.backend_tables import OpenAITable, ServerKeys, SimulatedTable
from orchestrator.config.build import build_backends
from orchestrator.config.decode import decode_table, decode_text, load
from orchestrator.config.kinds import slots_of
from orchestrator.config.policy import policy_of
from orchestrator.config.problems import ConfigError, Problem, show_path
from orchestrator.config.schema import Config
from orchestrator.config.words import keys_of
from orchestrator.owner_config import check_limits
from tests.config.documents import FULL, at, keys, toml

EVERY_KEY = sorted(keys(FULL), key=repr)
MEANINGS = {path[-1] for path in EVERY_KEY}


def problems(document: str | dict[str, Any]) -> dict[str, str]:
    """What is wrong with it, by path."""
    with pytest.raises(ConfigError) as caught:
        decode_text(document, "test.toml") if isinstance(document, str) else decode_table(document, "test.toml")
    return {problem.path: problem.message for problem in caught.value.problems}


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The full document with another value at a path."""
    document = copy.deepcopy(FULL)
    at(document, path[:-1])[path[-1]] = value
    return document


def simulated(**keys: object) -> dict[str, Any]:
    return {"backends": {"one": {"kind": "simulated", **keys}}}


def test_everything_there_is_can_be_said_at_once() -> None:
    """The document that uses every kind of key decodes, and its values arrive where they belong."""
    config = decode_text(toml(FULL), "test.toml")
    api, fake = config.backends["api"], config.backends["fake"]
    assert isinstance(api, OpenAITable)
    assert isinstance(fake, SimulatedTable)
    assert (api.rpm, api.server.base_url, api.endpoints["a"].rpm) == (60.0, "https://api.example.com/v1", 30.0)
    assert api.clocks.whole == math.inf
    assert (fake.provider.latency.arrival, fake.provider.faults[0].status) == ((0.0, 0.5), 529)
    assert [price.since for price in config.models["small"].prices] == [None, datetime.date(2026, 3, 1)]
    assert config.agents["writer"].budget.limits().micro_dollars == 50_000
    assert config.tenants["other"].specs()[0].name == "total_tokens/hour"


@given(st.sampled_from(EVERY_KEY), st.integers(0, 60), st.sampled_from(["drop", "double", "add", "upper", "dash"]))
def test_a_misspelt_key_is_told_with_its_path(path: tuple[str | int, ...], place: int, edit: str) -> None:
    """Whatever key of the document is misspelt, the problem names its full path."""
    key = str(path[-1])
    place %= len(key)
    wrong = {
        "drop": key[:place] + key[place + 1 :],
        "double": key[: place + 1] + key[place:],
        "add": key[:place] + "z" + key[place:],
        "upper": key[:place] + key[place].upper() + key[place + 1 :],
        "dash": key.replace("_", "-"),
    }[edit]
    assume(wrong not in MEANINGS)
    document = copy.deepcopy(FULL)
    table = at(document, path[:-1])
    items = [(wrong if name == key else name, value) for name, value in table.items()]
    table.clear()
    table.update(items)
    found = problems(toml(document))
    assert show_path((*path[:-1], wrong)) in found or (path[-1] == "kind" and show_path(path) in found)


@pytest.mark.parametrize(
    ("path", "wrong", "right"),
    [
        (("daemon",), "prot", "port"),
        (("backends", "api", "endpoints", "a"), "rmp", "rpm"),
        (("backends", "own"), "context_size", "context"),
        (("backends", "fake", "latency"), "first_tokens", "first_token"),
        (("agents", "writer", "budget"), "dollar", "dollars"),
        (("tenants", "acme"), "wieght", "weight"),
    ],
)
def test_the_nearest_key_is_offered(path: tuple[str, ...], wrong: str, right: str) -> None:
    """An unknown key is answered with the one that was probably meant, also where tables of two rooms are one."""
    assert problems(changed((*path, wrong), 1))[show_path((*path, wrong))] == f"unknown key; did you mean {right}?"


def test_where_no_key_is_near_all_are_named() -> None:
    """A key that resembles none is answered with all that are valid there."""
    assert problems(changed(("tenants", "acme", "zzzz"), 1))["tenants.acme.zzzz"].startswith(
        "unknown key; valid here: rpm,"
    )


VALUES = st.one_of(
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.just(datetime.date(2026, 1, 1)),
    st.just(datetime.datetime(2026, 1, 1)),
    st.lists(st.integers(-3, 3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(-1, 1), max_size=2),
    st.sampled_from(["local", "api", "fake", "http://[", "https://u:p@host/v1", "*", "a:b"]),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(EVERY_KEY), VALUES), min_size=1, max_size=3))
def test_any_value_anywhere_is_taken_or_told(edits: list[tuple[tuple[str | int, ...], Any]]) -> None:
    """Whatever is written where, the document is usable or the problems are told; nothing else is ever raised."""
    document = copy.deepcopy(FULL)
    for path, value in edits:
        try:
            at(document, path[:-1])[path[-1]] = value
        except (KeyError, TypeError, IndexError):
            assume(False)
    try:
        config = decode_table(document, "test.toml")
    except ConfigError as error:
        assert error.problems  # noqa: PT017
        return
    for backend in config.backends:
        policy = policy_of(config, backend)
        check_limits(policy.dispatch, policy.endpoints)
    try:
        build_backends(config, {"API_KEY": "k"})
    except ConfigError as error:
        assert all(problem.path.startswith("backends.") for problem in error.problems)  # noqa: PT017


def document_of(table: object) -> Any:
    """A struct back as a document; what is not said is left out."""
    if hasattr(table, "__struct_config__"):
        tag = table.__struct_config__.tag
        said = {key: document_of(value) for key, value in keys_of(table).items() if value is not None}  # type: ignore[arg-type]
        return {**({} if tag is None else {"kind": tag}), **said}
    if isinstance(table, dict):
        return {key: document_of(value) for key, value in table.items()}
    return [document_of(item) for item in table] if isinstance(table, list | tuple) else table


@given(st.sets(st.sampled_from(EVERY_KEY), max_size=12))
def test_a_configuration_survives_being_written_and_read_again(left_out: set[tuple[str | int, ...]]) -> None:
    """A configuration written out as TOML is read as the same configuration, whichever keys are said."""
    document = copy.deepcopy(FULL)
    for path in left_out:
        try:
            at(document, path[:-1]).pop(path[-1], None)
        except (KeyError, IndexError):
            continue
    try:
        config = decode_table(document, "test.toml")
    except ConfigError:
        assume(False)
        raise
    assert decode_text(toml(document_of(config)), "again.toml") == config


def test_all_problems_are_told_at_once() -> None:
    """Problems in different tables, and several in one, are told together, dangling names among them."""
    document = changed(("backends", "api", "rpm"), -3)
    document["backends"]["api"]["tpm"] = math.nan
    document["backends"]["own"]["slots"] = 0
    document["daemon"]["port"] = "8700"
    document["models"]["small"]["backends"] = ["apj"]
    document["agents"]["writer"]["tools"] = ["lookpu"]
    del document["tools"]["lookup"]["function"]
    found = problems(document)
    assert found.pop("models.small.name.own")
    assert found == {
        "daemon.port": "must be a whole number, not text",
        "backends.api.rpm": "must be above 0, not -3",
        "backends.api.tpm": "must be a number, not NaN",
        "backends.own.slots": "must be at least 1",
        "tools.lookup": "says not what it is; it needs one of function, command, mcp, agent, ask",
        "models.small.backends[0]": "there is no backend 'apj'; did you mean 'api'?",
        "agents.writer.tools[0]": "there is no tool 'lookpu'; did you mean 'lookup'?",
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("backends", "api", "limits", 0, "amount"), math.inf),
        (("backends", "api", "limits", 0, "amount"), -1),
        (("backends", "api", "in_flight", "calls"), 0),
        (("backends", "api", "concurrency", "initial"), 0),
        (("backends", "api", "concurrency"), 0),
        (("backends", "api", "breaker", "wait"), -1),
        (("backends", "api", "clocks", "silence"), 0),
        (("backends", "api", "retry", "attempts"), 0),
        (("backends", "api", "fair", "weights", "acme"), -1),
        (("backends", "api", "token_weights", "w_out"), -1),
        (("backends", "api", "headroom", "kept"), 2),
        (("backends", "api", "endpoints", "a", "rpm"), 0),
        (("backends", "fake", "latency", "first_token"), -1),
        (("backends", "fake", "speed"), math.inf),
        (("daemon", "drain_seconds"), math.nan),
        (("daemon", "idle_seconds"), 0),
        (("daemon", "admission", "calls"), -1),
        (("models", "gpt-4.1 mini", "price", "input"), -1),
        (("models", "gpt-4.1 mini", "price", "output"), math.inf),
        (("agents", "writer", "budget", "dollars"), -0.01),
        (("agents", "writer", "budget", "dollars"), 0.00000001),
        (("agents", "writer", "temperature"), math.nan),
        (("tools", "lookup", "timeout"), 0),
        (("tools", "lookup", "function"), "json.loads"),
        (("tenants", "acme", "weight"), 0),
        (("tenants", "acme", "weight"), math.inf),
        (("tenants", "other", "in_flight", "calls"), -2),
    ],
)
def test_a_senseless_number_is_told_at_its_own_key(path: tuple[str | int, ...], value: object) -> None:
    """Whichever room owns a number, the path in the message is the path in the file, and nothing else is blamed."""
    assert list(problems(changed(path, value))) == [show_path(path)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[daemon]\nport = = 1\n", "line 2, column 8: not valid TOML: invalid value"),
        ("[a]\n[a]\n", "line 2, column 3: not valid TOML: cannot declare a twice"),
        ("a = [", "line 1: not valid TOML: invalid value"),
        ("a = " + "[" * 5000, "tables or arrays are nested too deeply"),
    ],
)
def test_broken_toml_is_told_with_its_place(text: str, message: str) -> None:
    """A syntax error names line and column."""
    assert problems(text) == {"": message}


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are each one clear message that names the file."""
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "bytes.toml").write_bytes(b"[daemon]\n# \xff\n")
    for name, message in (
        ("missing.toml", "no such file or directory"),
        ("folder.toml", "is a directory"),
        ("bytes.toml", "line 2 is not UTF-8"),
    ):
        with pytest.raises(ConfigError, match=f"{name}: .*{message}"):
            load(tmp_path / name)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    """A file saved with a byte order mark is read like any other, and knows where it lies."""
    file = tmp_path / "headrace.toml"
    file.write_bytes(b"\xef\xbb\xbf" + toml(simulated()).encode())
    assert load(file).source == str(file)


@pytest.mark.parametrize("path", [("backends", "api"), ("backends", "api", "endpoints", "a")])
def test_a_key_in_the_file_is_refused_and_not_shown(path: tuple[str, ...]) -> None:
    """A literal key is refused, the message names both ways out and not the key."""
    with pytest.raises(ConfigError) as caught:
        decode_table(changed((*path, "api_key"), "sk-secret"), "test.toml")
    assert caught.value.problems[0].path == show_path((*path, "api_key"))
    assert "api_key_env" in caught.value.message
    assert "api_key_file" in caught.value.message
    assert "sk-secret" not in caught.value.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("base_url", "https://user:hunter22@host/v1"),
        ("api_key_env", "sk-hunter22"),
        ("headers", ["hunter22"]),
        ("max_tokens", "hunter22"),
    ],
)
def test_no_message_quotes_what_may_be_a_secret(key: str, value: object) -> None:
    """A password in an address, and a secret in the wrong place, are told of without being shown."""
    with pytest.raises(ConfigError) as caught:
        decode_table(changed(("backends", "api", key), value), "test.toml")
    assert [problem.path for problem in caught.value.problems] == [f"backends.api.{key}"]
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize("kind", ["anthropical", "OpenAI", 3, ["openai"]])
def test_an_unknown_kind_names_the_kinds(kind: object) -> None:
    """A backend of a kind that there is not is answered with those that there are."""
    message = problems({"backends": {"one": {"kind": kind}}})["backends.one.kind"]
    assert message.startswith('must be one of "openai", "anthropic", "local", "simulated", not ')


def test_a_backend_without_a_kind_is_told() -> None:
    """The kind is asked for."""
    assert "is missing" in problems({"backends": {"one": {"rpm": 3}}})["backends.one.kind"]


def test_the_same_limit_twice_is_told() -> None:
    """Two keys for one limit are refused, within a table and between a backend and its endpoint."""
    twice = simulated(rpm=3, limits=[{"kind": "requests", "amount": 4}])
    assert problems(twice) == {"backends.one.rpm": "requests/min is given already, by limits[0]"}
    between = {
        "backends": {
            "one": {"kind": "openai", "rpm": 3, "endpoints": {"b.c": {"limits": twice["backends"]["one"]["limits"]}}}
        }
    }
    assert list(problems(between)) == ['backends.one.endpoints."b.c".rpm']


def test_names_that_lead_nowhere_are_told() -> None:
    """Agents, the default model and money limits are followed to what they need."""
    document = simulated() | {
        "daemon": {"default_model": "smal"},
        "models": {"small": {"backends": ["one", "one"]}},
        "agents": {"a": {"model": "smalll", "tools": ["t"]}, "b": {"model": "small", "budget": {"dollars": 1}}},
    }
    assert problems(document) == {
        "daemon.default_model": "there is no model 'smal'; did you mean 'small'?",
        "models.small.backends[1]": "backend 'one' is given twice",
        "agents.a.model": "there is no model 'smalll'; did you mean 'small'?",
        "agents.a.tools[0]": "there is no tool 't'; there are: none",
        "agents.b.budget.dollars": "money cannot be limited, since model 'small' has no price; "
        'give it one in [models."small"]',
    }


def test_what_must_be_there_is_asked_for() -> None:
    """No backend, several without models, and an agent without any model are each told with what to write."""
    assert "a daemon needs one" in problems("")["backends"]
    two = {"backends": {"one": {"kind": "simulated"}, "two": {"kind": "openai"}}}
    assert problems(two)["models"].endswith("[models.\"*\"] with backends = ['one', 'two']")
    lost = {"backends": {"one": {"kind": "openai"}}, "agents": {"a": {}}}
    assert "daemon.default_model" in problems(lost)["agents.a.model"]


@pytest.mark.parametrize("table", ["backends", "agents", "tenants"])
def test_names_are_fit_for_labels_and_urls(table: str) -> None:
    """A name that could not stand in a label or an address is refused, with its path quoted as TOML has it."""
    document = copy.deepcopy(FULL)
    document[table]["a/b"] = copy.deepcopy(next(iter(document[table].values())))
    assert "letters, digits" in problems(document)[f'{table}."a/b"']


def test_an_endpoint_can_be_told_all_that_its_adapter_can() -> None:
    """Each setting of the adapter has its key, except the name, which is the table's, and the key itself."""
    assert set(ServerKeys.__struct_fields__) == set(OpenAIConfig.__struct_fields__) - {"name", "api_key"}


def test_hidden_fields_are_not_for_files() -> None:
    """Where the file lies cannot be said in the file."""
    assert "source" not in slots_of(Config)
    assert problems({**simulated(), "source": "x"})["source"].startswith("unknown key")


def test_the_error_says_how_many_and_where() -> None:
    """One problem is one line with the file's name; several are counted, a line each."""
    one, two = (Problem(path, "wrong") for path in ("a.b", "a.c"))
    assert isinstance(ConfigError([one]), HeadraceError)
    assert ConfigError([one], "f.toml").message == "f.toml: a.b: wrong"
    assert ConfigError([one, two], "f.toml").message == "f.toml: 2 problems\n  a.b: wrong\n  a.c: wrong"

"""Documents for tests of the configuration: one that uses everything, TOML text of a document, and its keys."""

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]

FULL: dict[str, Any] = {
    "daemon": {
        "host": "127.0.0.1",
        "port": 8701,
        "data_dir": "state",
        "drain_seconds": 5.5,
        "max_live_runs": 100,
        "runs_per_tenant": 50,
        "keep_ended_runs": 0,
        "job_workers": 8,
        "default_model": "small",
        "log": "json",
        "log_level": "debug",
        "max_body_bytes": 1024,
        "tenant_labels": 3,
        "allowed_hosts": ["models.example"],
        "connections": 64,
        "idle_seconds": 5,
        "admission": {"tenant_calls": 10, "tenant_bytes": 1000, "calls": 20, "bytes": 2000, "retry_after_at_least": 2},
    },
    "backends": {
        "api": {
            "kind": "openai",
            "base_url": "https://api.example.com/v1",
            "api_key_env": "API_KEY",
            "headers": {"x-project": "blue"},
            "models": {"small": "small-2025"},
            "null_content": "keep",
            "include_usage": False,
            "max_tokens": 900,
            "max_tokens_field": "max_completion_tokens",
            "reasoning_field": "reasoning",
            "reports_cached": True,
            "max_line_bytes": 100_000,
            "keepalive_seconds": 3,
            "grace_seconds": 0.5,
            "rpm": 60,
            "tpm": 1000.5,
            "counted": "at_admission",
            "limits": [
                {"kind": "output_tokens", "amount": 5, "per": "day", "counted": "as_produced"},
                {"kind": "requests", "amount": 2, "per": 1.5, "burst_seconds": 1, "cached_free": True},
            ],
            "in_flight": {"calls": 9, "tokens": 5000.0, "first_token": 2},
            "concurrency": {"initial": 2, "at_least": 1, "at_most": 4},
            "breaker": {"failures": 2, "wait": 0.5, "wait_at_most": 8, "fault_wait": 3},
            "headroom": {"at_share": 2, "newcomer_seconds": 4, "kept": 0.5},
            "clocks": {"connect": 1, "silence": 2.5, "whole": float("inf")},
            "retry": {"attempts": 2, "base": 0.1, "factor": 3, "cap": 5, "jitter": 0.2, "obey_at_most": 60},
            "fair": {"minimum_share": 0.1, "credit_calls": 1, "order": "fifo", "weights": {"acme": 2}},
            "token_weights": {"w_in": 1, "w_cached": 0, "w_out": 4},
            "default_max_tokens": 100,
            "sticky_seconds": 0,
            "endpoints": {
                "a": {"api_key_file": "a.key", "rpm": 30, "concurrency": 7, "ca_file": "ca.pem"},
                "b": {"base_url": "http://localhost:9/v1", "counted": "reconciled", "headroom": False},
            },
        },
        "own": {
            "kind": "local",
            "weights": "model.gguf",
            "token_weights": {"w_out": 3},
            "slots": 4,
            "context": 512,
            "prompt_cache_mib": 16,
            "restart": {"first_delay": 0.1, "give_up_after": 2},
            "rpd": 1000,
            "concurrency": 3,
        },
        "fake": {
            "kind": "simulated",
            "input_tpm": 100,
            "output_tpm": 50,
            "tpd": 5000,
            "speed": 10,
            "seed": 4,
            "latency": {"first_token": 0.1, "arrival": [0, 0.5]},
            "length": {"tokens": 20},
            "faults": [{"fault": "status", "status": 529, "nth": [1, 2]}],
            "enforces": [{"kind": "requests", "amount": 5, "algorithm": "fixed_window"}],
        },
    },
    "models": {
        "small": {
            "backends": ["api", "own"],
            "name": {"own": "smollm"},
            "price": [
                {"input": 0.5, "output": 2, "source": "the price list"},
                {"input": 0.25, "output": 1, "cached": 0.1, "cache_write": 0.3, "since": datetime.date(2026, 3, 1)},
            ],
        },
        "gpt-4.1 mini": {"backends": ["api"], "name": "mini", "price": {"input": 1, "output": 4}},
        "*": {"backends": ["fake"]},
    },
    "agents": {
        "writer": {
            "system": "Be brief.",
            "tools": ["lookup"],
            "budget": {"rounds": 3, "tool_calls": 0, "tokens": 500, "dollars": 0.05, "timeout": 60},
            "demonstration": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
            "max_tokens": 64,
            "temperature": 0.5,
            "seed": 7,
            "stop": ["END"],
            "tool_choice": "auto",
            "response_format": {"type": "text"},
            "on_tool_error": "stop",
            "tool_concurrency": 2,
            "extra": {"user": "me"},
            "compact_at": 9000,
            "compact_keep": 6,
        },
        "any": {"model": "whatever"},
    },
    "tools": {
        "lookup": {
            "function": "tests.config.documents:lookup",
            "description": "Looks up.",
            "timeout": 5,
            "concurrency": 2,
            "idempotent": True,
            "read_only": True,
            "grace": 1,
            "approval": 'word != "x"',
            "expires_in": 60,
        },
        "deploy": {
            "command": ["./deploy.sh", "--json"],
            "parameters": {"service": "string"},
            "cwd": "tools",
            "env": {"REGION": "eu"},
            "pass_env": ["PATH"],
        },
        "files": {
            "mcp": ["files-server", "/srv"],
            "env": {"TOKEN": "hidden"},
            "only": ["read", "list"],
            "read_only": ["read"],
            "start_timeout": 5,
        },
        "far": {"mcp": "https://tools.example/mcp", "headers": {"X-Key": "hidden"}, "api_key_file": "far.key"},
        "any": {"agent": "any", "budget": {"rounds": 2}, "depth": 2, "width": 3},
        "people": {"ask": True, "expires_in": 3600},
    },
    "tenants": {
        "acme": {"weight": 3, "highest_priority": "standard", "default_priority": "batch", "rpm": 5},
        "other": {"in_flight": {"calls": 2}, "limits": [{"kind": "total_tokens", "amount": 10, "per": "hour"}]},
    },
}


def lookup(word: str) -> str:
    """Looks a word up."""
    return word


NAMES = {
    "backends",
    "models",
    "agents",
    "tools",
    "tenants",
    "endpoints",
    "headers",
    "extra",
    "response_format",
    "name",
    "env",
    "parameters",
}
"""Tables whose keys are names of the user's own, as are those of a `weights` below `fair`."""


def keys(document: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """The paths of all keys that have a meaning."""
    for key, value in document.items():
        here = (*path, key)
        named = bool(path) and (path[-1] in NAMES or path[-2:] == ("fair", "weights"))
        if not named:
            yield here
        if isinstance(value, dict):
            yield from keys(value, here)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, dict):
                    yield from keys(item, (*here, place))


def at(document: Any, path: Path) -> Any:
    """What is at a path."""
    for part in path:
        document = document[part]
    return document


def toml(document: Mapping[str, Any]) -> str:
    """The document as TOML, each table of the first level on one line."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in document.items())


def _key(key: str) -> str:
    return json.dumps(key)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else str(value)

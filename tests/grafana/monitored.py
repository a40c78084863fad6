"""Real daemons under load, and a real Prometheus that scrapes them with the shipped configuration."""

import json
import os
import shutil
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from orchestrator.dashboards.shipped import ROOT, SOURCE
from tests.daemon.process import daemon, run, started

SECONDS = 30
"""How long the load lasts: enough for alerts' conditions to be met, and each rate to have its samples."""

SCRAPE = 1
DEADLINE = 30
REFUSALS = (400, 402, 403, 429, 502, 503, 504)
"""A budget, a full queue, a deadline, a fault of the provider: meant, and counted."""

_MCP = ROOT / "tests" / "tools" / "mcp_process.py"

CONFIG = f"""
[backends.sim]
kind = "simulated"
script = "tests.grafana.grafana_agents:script"
speed = 20
rpm = 600
tpm = 400_000
enforces = [{{ kind = "requests", amount = 300, window = 2 }}]
faults = [
  {{ fault = "status", status = 503, nth = {list(range(4, 400, 23))} }},
  {{ fault = "status", status = 400, nth = {list(range(9, 400, 23))} }},
  {{ fault = "no_usage", nth = {list(range(6, 400, 11))} }},
]
retry = {{ base = 0.1, throttled_base = 0.2, cap = 2.0 }}

[backends.gone]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"

[models.lost]
backends = ["gone"]
price = {{ input = 0, output = 0 }}

[models.small]
backends = ["sim"]
price = {{ input = 0.4, output = 1.6 }}
max_output = 100

[agents.clerk]
model = "small"
max_tokens = 100
tools = ["lookup", "send", "hang", "box"]

[agents.hasty]
model = "small"
max_tokens = 100
tools = ["lookup"]
budget = {{ rounds = 1 }}

[tools.lookup]
function = "tests.grafana.grafana_agents:lookup"

[tools.send]
function = "tests.grafana.grafana_agents:send"
approval = "always"

[tools.hang]
function = "tests.grafana.grafana_agents:hang"
timeout = 120

[tools.box]
mcp = ["{sys.executable}", "{_MCP}", "stdio"]

[tenants.web]
weight = 3

[tenants.nightly]
rpm = 120

[tenants.lab]
budget = {{ tokens = 12_000, per = "day" }}
"""

POOLED = """
[backends.sim]
kind = "simulated"

[pool]
kind = "workers"

[agents.clerk]
"""


class Monitored(Struct, frozen=True):
    """A Prometheus that has scraped from `begin` to `end` (Unix time), and the last metrics of each daemon."""

    url: str
    begin: float
    end: float
    exposed: tuple[str, ...]

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API. Raises with its own words for what it refuses."""
        return _api(self.url, path, query)

    def instant(self, expr: str) -> list[Any]:
        """The series of an expression at the end."""
        return list(self.get("query", query=expr, time=str(self.end))["result"])

    def over_time(self, expr: str) -> list[Any]:
        """The series of an expression through all the time."""
        asked = {"start": str(self.begin), "end": str(self.end), "step": "1"}
        return list(self.get("query_range", query=expr, **asked)["result"])


def program(name: str) -> str:
    """A program of Debian's package `prometheus`. Without it nothing can be tested, which in CI is a failure."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"there is no {name}; install Debian's package prometheus")
        pytest.skip(f"there is no {name}; Debian's package prometheus has it")
    return found


@contextmanager
def monitored(folder: Path, rules: Sequence[Path]) -> Iterator[Monitored]:
    """Everything is started and has worked for a while; Prometheus runs inside the block. `rules` are further ones."""
    prometheus = program("prometheus")
    with ExitStack() as stack:
        homes = [folder / name for name in ("main", "pooled")]
        urls = []
        for home, config in zip(homes, (CONFIG, POOLED), strict=True):
            home.mkdir()
            urls.append(stack.enter_context(daemon(home, config))[1])
        url = stack.enter_context(_prometheus(prometheus, folder, urls, rules))
        begin = time.time()
        _until(lambda: len(_api(url, "query", {"query": "headrace_build_info"})["result"]) == len(urls))
        _work(urls[0], urls[1], homes[0], begin + SECONDS)
        end = time.time()
        exposed = tuple(_text(f"{one}/metrics") for one in urls)
        yield Monitored(url, begin, end, exposed)


@contextmanager
def _prometheus(program: str, folder: Path, urls: Sequence[str], rules: Sequence[Path]) -> Iterator[str]:
    config = yaml.safe_load((SOURCE / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": f"{SCRAPE}s", "evaluation_interval": f"{SCRAPE}s"}
    config["rule_files"] = [str(SOURCE / name) for name in config["rule_files"]] + [str(path) for path in rules]
    static = config["scrape_configs"][0]["static_configs"]
    labels = static[0]["labels"]
    static[:] = [
        {
            "targets": [url.removeprefix("http://")],
            "labels": {name: f"{value}-{place}" for name, value in labels.items()},
        }
        for place, url in enumerate(urls)
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = _free_port()
    options = (
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with started(*options, cwd=folder, program=[program]) as process:
        process.hear("Server is ready to receive web requests")
        yield f"http://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _work(url: str, pooled: str, home: Path, until: float) -> None:
    """Everything that makes numbers: runs with tools, people, a budget that is used up, calls of programs, a job."""
    (home / "lines.txt").write_text("\n".join(f"subject {number}" for number in range(200)))
    job = (
        "-i",
        "lines.txt",
        "--input-format",
        "lines",
        "--prompt",
        "say {text}",
        "--model",
        "small",
        "--priority",
        "standard",
    )
    done = run("job", "start", "--tenant", "nightly", *job, "--workers", "60", "--detach", cwd=home, url=url)
    assert done.returncode == 0, done.stderr
    _start(pooled, "say something")
    for task in ("hang 60", "send Oslo", "box 1"):
        _start(url, task, tenant="web")
    number = 0
    while time.time() < until:
        number += 1
        _start(url, f"lookup {number}", tenant="web")
        _start(url, f"lookup {number}", tenant="web", priority="interactive", who={"agent": "hasty"})
        if number % 2:
            _start(url, f"say {number}", tenant="lab")
        for tenant in ("web", "lab"):
            _chat(url, tenant, "small")
        _chat(url, "web", "lost")
        _text(f"{url}/")
        time.sleep(0.3)


def _start(url: str, task: str, **more: Any) -> None:
    _post(f"{url}/api/runs", {"task": task, "who": {"agent": "clerk"}, **more})


def _chat(url: str, tenant: str, model: str) -> None:
    """A program's call with little patience; many are refused, which is meant."""
    asked = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "say it"}]}
    headers = {"X-Headrace-Tenant": tenant, "X-Headrace-Deadline": "0.2"}
    _post(f"{url}/v1/chat/completions", asked, headers)


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
    data, type_ = json.dumps(body).encode(), {"content-type": "application/json"}
    try:
        _text(urllib.request.Request(url, data, {**type_, **(headers or {})}))
    except urllib.error.HTTPError as error:
        if error.code not in REFUSALS:
            pytest.fail(f"{url}: {error.code}: {error.read().decode()}")


def _text(url: "str | urllib.request.Request") -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
        return str(answer.read().decode())


def _api(url: str, path: str, query: Mapping[str, str]) -> Any:
    try:
        text = _text(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
    except urllib.error.HTTPError as error:
        pytest.fail(f"{query}: {json.loads(error.read())['error']}")
    return json.loads(text)["data"]


def _until(true: Any) -> None:
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline, "Prometheus has not scraped the daemons"
        time.sleep(0.1)

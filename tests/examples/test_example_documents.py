"""The library of `examples/documents`: its job before a real daemon that is killed on the way."""

import json
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.backend_tables import LocalTable
from orchestrator.config.decode import load
from tests.daemon.process import SECONDS, Process, run, started

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents"
TEXTS = {
    "kettle": "License: MPL-2.0\nunder the MPL-2.0 or MIT",
    "lamp": "Licensed under Apache-2.0.",
    "spoon": "Do as you please.",
}
SAYS = {"kettle": "The licence is MPL-2.0.", "lamp": "The licence is Apache-2.0.", "spoon": "It names no licence."}
ITEMS, ENOUGH = 24, 20


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The example, with a faster model and fewer documents."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("[!a-z]*"))
    names = [f"{name}-{number}" for number in range(ITEMS // len(TEXTS)) for name in TEXTS]
    for name in names:
        (tmp_path / name).write_text(TEXTS[name.partition("-")[0]])
    (tmp_path / "documents.txt").write_text("".join(f"{tmp_path / name}\n" for name in names))
    edit(tmp_path / "headrace.toml", r'(?m)^kind = "simulated"$', 'kind = "simulated"\nspeed = 8')
    edit(tmp_path / "job.toml", r"(?m)^count = \d+$", f"count = {ENOUGH}")
    edit(tmp_path / "job.toml", r"(?m)^workers = \d+$", "workers = 4")
    return tmp_path


def edit(path: Path, pattern: str, text: str) -> None:
    changed, times = re.subn(pattern, text, path.read_text())
    assert times == 1
    path.write_text(changed)


@contextmanager
def serving(library: Path, port: int = 0) -> Iterator[tuple[Process, str]]:
    with started("serve", "--config", "headrace.toml", "--port", str(port), cwd=library) as process:
        yield process, process.hear(r"serves (http://\S+?),")[1]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_library_s_job_survives_its_daemon(library: Path) -> None:
    """Killed while documents are borrowed, the job is done all the same: nothing twice, enough answers, one sum."""
    with (
        serving(library) as (first, url),
        started("job", "start", "job.toml", cwd=library, HEADRACE_URL=url) as client,
    ):
        until(lambda: len(lines(library / "loans.jsonl")) >= 6)
        first.signal(signal.SIGKILL)
        first.end()
        assert len(lines(library / "loans.jsonl")) < ENOUGH
        with serving(library, port=int(url.rpartition(":")[2])):
            assert client.end() == 0, client.said
            job = re.search(r"job (\S+) is with the daemon", client.said)
            assert job is not None
            shown = run("job", "show", job[1], cwd=library, url=url)
        answer = client.out.splitlines()[0]

    loans, results = lines(library / "loans.jsonl"), lines(library / "licences.jsonl")
    assert max(Counter(loan["call"] for loan in loans).values()) == 1
    assert max(Counter(loan["document"] for loan in loans).values()) == 1
    assert len({result["ordinal"] for result in results}) == len(results) <= ITEMS
    done = [result for result in results if result["state"] == "done"]
    assert len(done) >= ENOUGH
    names = [Path(line).name.partition("-")[0] for line in (library / "documents.txt").read_text().splitlines()]
    certain = [result for result in done if result["value"] == SAYS[names[result["ordinal"] - 1]]]
    # a loan that was under way when the daemon was killed is not made again, and its reader is told so
    assert len(done) - len(certain) <= 4
    assert re.fullmatch(rf"Of {len(loans)} documents: \d+ .*\.", answer)
    assert answer in shown.stdout + shown.stderr


def test_the_library_serves_the_local_model_with_one_line_less(library: Path) -> None:
    """What the file says about the local model holds: a kind in place of two lines, and all else as it is."""
    edit(library / "headrace.toml", r'(?m)^kind = "simulated"\nspeed = 8\nscript = .*$', 'kind = "local"')
    config = load(library / "headrace.toml")
    (backend,) = config.backends.values()
    assert isinstance(backend, LocalTable)

"""`[pool]` as people write it."""

import pytest

from orchestrator.config.decode import decode_text
from orchestrator.config.difference import difference
from orchestrator.config.problems import ConfigError
from orchestrator.config.reader import Reader
from orchestrator.config.tool_table import ToolTable
from orchestrator.config.tool_text import tool_tables

BASE = '[backends.sim]\nkind = "simulated"\n'


def test_runs_are_driven_here_if_nothing_is_said():
    """Without the table the pool is the daemon itself."""
    assert decode_text(BASE, "x").pool.kind == "local"


def test_a_pool_on_a_cluster_has_its_own_keys():
    """All of them together are taken as they are."""
    text = f'{BASE}[pool]\nkind = "ray"\naddress = "ray://head:10001"\nworkers = 4\nruns = 8\ncpus = 1.0\n'
    pool = decode_text(f'{text}url = "http://head:8700"\nkey_env = "KEY"\npatience = 60.0\n', "x").pool
    assert (pool.workers, pool.runs, pool.cpus, pool.url, pool.key_env, pool.patience) == (
        4,
        8,
        1.0,
        "http://head:8700",
        "KEY",
        60.0,
    )


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ('kind = "rai"', 'pool.kind: must be one of "local", "ray", "workers"'),
        ("workers = 3", "pool.workers: is for a pool on a Ray cluster"),
        ('kind = "workers"\ncpus = 2', "pool.cpus: is for a pool on a Ray cluster"),
        ("lease_seconds = 5", "pool.lease_seconds: is for worker processes"),
        ('kind = "workers"\nlease_seconds = 0', "pool.lease_seconds: must be at least 1"),
        ('kind = "ray"\nurl = "http://u:secret@head"', "pool.url: must be an address as http://host:port"),
        ('kind = "ray"\nkey_env = "a b"', "pool.key_env: must be the name of an environment variable"),
        ('kind = "ray"\nkey_env = "A"\nkey_file = "b"', "pool.key_file: give it or key_env, not both"),
        ('kind = "ray"\n[daemon]\nhost = "0.0.0.0"', "pool.url: is missing: the daemon listens on 0.0.0.0"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(keys, problem):
    """Each mistake has a sentence of its own, and no password is in it."""
    with pytest.raises(ConfigError) as refused:
        decode_text(f"{BASE}[pool]\n{keys}\n", "x")
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)


def test_another_pool_needs_a_restart():
    """Where runs are driven does not change under them."""
    old, new = (decode_text(f'{BASE}[pool]\nkind = "{kind}"\n', "x") for kind in ("local", "workers"))
    [change] = difference(old, new).restart
    assert change.path == "pool.kind"


def test_tools_are_told_as_the_file_has_them():
    """What a worker reads of a table is the table, and its digest changes with it."""
    text = BASE + '[agents.a]\ntools = ["pay"]\n[tools.run]\ncommand = ["sh", "-c", "true"]\ntimeout = 3\n'
    text += '[tools.run.parameters]\ncity = "string"\n[tools.pay]\nagent = "a"\n[tools.pay.budget]\ntokens = 7\n'
    tools = decode_text(text, "x").tools
    told = tool_tables(tools)
    reader = Reader()
    assert {name: reader.read(table, ToolTable) for name, table in told.tools.items()} == tools
    assert reader.problems == []
    assert told.digest == tool_tables(tools).digest != tool_tables({}).digest

from pathlib import Path

import pytest
from msgspec import structs

from agents.errors import InvalidLimits
from orchestrator.config.decode import decode_text
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config
from orchestrator.config.store_table import StoreTable
from orchestrator.daemon.stores import dsn_of

ADDRESS = "postgresql://me:secret@db.example/headrace"


def config(keys: str, where: Path = Path("headrace.toml")) -> Config:
    text = f'[backends.s]\nkind = "simulated"\n[store]\nkind = "postgres"\n{keys}\n'
    return structs.replace(decode_text(text, str(where)), source=str(where))


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"dsn_env": "HEADRACE_POSTGRES"}, "kind"),
        ({"kind": "postgres", "dsn_env": "A", "dsn_file": "b"}, "dsn_file"),
        ({"kind": "postgres", "dsn_env": ADDRESS}, "dsn_env"),
    ],
)
def test_a_store_table_that_makes_no_sense_is_refused_by_its_key(keys: dict[str, str], field: str) -> None:
    """What is wrong with a store is said by the key that is wrong, and an address is never quoted."""
    with pytest.raises(InvalidLimits) as refused:
        StoreTable(**keys)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert "secret" not in str(refused.value)


def test_a_databases_address_comes_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    """The usual variable is read, or the one that is named, or a file beside the configuration."""
    (tmp_path / "address").write_text(ADDRESS + "\n")
    assert dsn_of(config(""), {"HEADRACE_POSTGRES": ADDRESS}) == ADDRESS
    assert dsn_of(config('dsn_env = "OTHER"'), {"OTHER": ADDRESS}) == ADDRESS
    assert dsn_of(config('dsn_file = "address"', tmp_path / "headrace.toml"), {}) == ADDRESS


def test_an_address_that_is_not_there_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """A variable that is not set, or a file that cannot be read, is named."""
    with pytest.raises(ConfigError, match="HEADRACE_POSTGRES"):
        dsn_of(config(""), {})
    with pytest.raises(ConfigError, match="nowhere"):
        dsn_of(config('dsn_file = "nowhere"', tmp_path / "headrace.toml"), {})

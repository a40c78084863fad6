"""From TOML to a `Config`, or to everything that is wrong with it."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from orchestrator.config.policy import check_policies
from orchestrator.config.problems import ConfigError, Problem
from orchestrator.config.reader import Reader
from orchestrator.config.references import check_document
from orchestrator.config.schema import Config

MAX_BYTES: Final = 16 * 1024 * 1024
_PLACE: Final = re.compile(r" \((?:at line (\d+), column (\d+)|at end of document)\)$")

_KEYS: Final = re.compile(r"\((?:'[^']*',? ?)+\)")
_KEY: Final = re.compile(r"'([^']*)'")


def load(path: Path, *, daemon: Mapping[str, Any] | None = None) -> Config:
    """The configuration in a file; the keys of `daemon` go before those of its `[daemon]`. Raises `ConfigError`."""
    return structs.replace(decode_text(read_text(path), str(path), daemon=daemon), source=str(path.absolute()))


def read_text(path: Path) -> str:
    """The text of a file of configuration. Raises `ConfigError`."""
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem("", f"cannot read it: {(error.strerror or str(error)).lower()}")], where) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([Problem("", f"is larger than {MAX_BYTES // 1024**2} MiB")], where)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem("", f"line {line} is not UTF-8")], where) from None


def decode_text(text: str, where: str, *, daemon: Mapping[str, Any] | None = None) -> Config:
    """The configuration in a TOML document; `where` names it in messages, `daemon` is as for `load`.

    Raises `ConfigError`.
    """
    table = parse(text, where)
    own = table.get("daemon", {})
    if daemon and isinstance(own, dict):
        table["daemon"] = {**own, **daemon}
    return decode_table(table, where)


def parse(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML document; `where` names it in messages. Raises `ConfigError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem("", _syntax(str(error), text))], where) from None
    except RecursionError:
        raise ConfigError([Problem("", "tables or arrays are nested too deeply")], where) from None


def decode_table(table: Mapping[str, Any], where: str) -> Config:
    """The configuration in a parsed document. Raises `ConfigError`."""
    reader = Reader()
    config = reader.read(table, Config)
    check_document(table, reader.wrong)
    if config is not None:
        check_policies(config, reader.problems.append)
    if config is None or reader.problems:
        raise ConfigError(reader.problems, where)
    return config


def _syntax(message: str, text: str) -> str:
    """tomllib's message with its place in front."""
    found = _PLACE.search(message)
    if found is None:
        return f"not valid TOML: {message}"
    line = found[1] or text.count("\n") + 1
    column = f", column {found[2]}" if found[2] else ""
    words = _KEYS.sub(lambda keys: ".".join(_KEY.findall(keys[0])), message[: found.start()])
    return f"line {line}{column}: not valid TOML: {words[:1].lower()}{words[1:]}"

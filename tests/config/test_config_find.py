"""Where the configuration is looked for."""

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.config.find import beside, data_dir, find_config, places, require_config
from orchestrator.config.flags import Flags, config_from_flags
from orchestrator.config.problems import ConfigError


def test_the_search_goes_from_near_to_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option goes before the environment, that before the working directory, and that before the home folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path)}
    home = tmp_path / "xdg" / "headrace" / "headrace.toml"
    assert find_config(None, environ) in (None, Path("/etc/headrace/headrace.toml"))
    home.parent.mkdir(parents=True)
    home.touch()
    assert find_config(None, environ) == home
    Path("headrace.toml").touch()
    assert find_config(None, environ) == Path("headrace.toml")
    environ["HEADRACE_CONFIG"] = "not-there.toml"
    assert find_config(None, environ) == Path("not-there.toml")
    assert find_config(Path("given.toml"), environ) == Path("given.toml")


def test_where_there_is_none_all_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names every place, and the command that writes one."""
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative/is/ignored"}
    monkeypatch.setattr("orchestrator.config.find.places", lambda _: places(environ)[:2])
    with pytest.raises(ConfigError) as caught:
        require_config(None, environ)
    for words in ("--config", "$HEADRACE_CONFIG", f"headrace.toml, {tmp_path}/.config/headrace/headrace.toml", "init"):
        assert words in caught.value.message


def test_data_lies_in_the_home_folder_unless_said(tmp_path: Path) -> None:
    """The data folder is the file's word, relative to the file, or the usual place for state."""
    config = config_from_flags(Flags(upstream="simulated"))
    assert data_dir(config, {"HOME": "/home/me"}) == Path("/home/me/.local/state/headrace")
    assert data_dir(config, {"HOME": "/home/me", "XDG_STATE_HOME": "/state"}) == Path("/state/headrace")
    said = structs.replace(
        config_from_flags(Flags(upstream="simulated", daemon={"data_dir": "x"})), source=f"{tmp_path}/h.toml"
    )
    assert data_dir(said, {}) == tmp_path / "x"
    assert beside(said, "/abs") == Path("/abs")
    assert beside(said, "~/y") == Path.home() / "y"

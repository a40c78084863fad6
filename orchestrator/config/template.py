"""The configuration that a newcomer starts from."""

from importlib.resources import files


def template() -> str:
    """A commented configuration that works as it is."""
    return files("orchestrator.config").joinpath("template.toml").read_text("utf-8")

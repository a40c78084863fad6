"""What `headrace simulate` makes of its options, and what it says of its dialects."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from orchestrator.backends.simulated.backend import SimConfig, SimLimit
from orchestrator.cli import simulate
from orchestrator.cli.app import app


def test_limits_apart_and_both_base_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input and output limits are Anthropic's kind; the announcement has a base URL for either SDK."""
    configs = []

    async def run(config: SimConfig, host: str, port: int, on_listening: Callable[[str], None]) -> None:
        configs.append(config)
        on_listening("http://127.0.0.1:8099/v1")

    monkeypatch.setattr(simulate, "run_simulator", run)
    result = CliRunner().invoke(app, ["simulate", "--itpm", "1000", "--otpm", "200", "--prefix-cache", "5"])
    assert result.exit_code == 0
    assert configs[0].limits == (
        SimLimit(kind="input_tokens", amount=1000, counted="reconciled", free_cached=True),
        SimLimit(kind="output_tokens", amount=200, counted="as_produced"),
    )
    assert configs[0].prefix_cache == 5
    assert "OpenAI's clients: http://127.0.0.1:8099/v1; for Anthropic's: http://127.0.0.1:8099\n" in result.output


def test_the_help_names_the_dialects() -> None:
    """Whoever asks for help reads which resources there are."""
    text = " ".join(CliRunner().invoke(app, ["simulate", "--help"]).output.split())
    assert all(path in text for path in ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/messages"))

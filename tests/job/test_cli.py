"""The command line in-process: each wrong use gives one clear message and the right exit code."""

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agents.errors import HeadraceError
from orchestrator.cli.app import app


def start(*arguments: str | Path, prompt: str = "Say {text}") -> Result:
    command = ["job", "start", "--embedded", "--quiet", "--speed", "5000", "--prompt", prompt]
    return CliRunner().invoke(app, [*command, *(str(argument) for argument in arguments)])


def message(result: Result) -> str:
    """The one message of a command that started nothing."""
    if isinstance(result.exception, HeadraceError):
        return result.exception.message
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0].removeprefix("headrace: ")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "one", "n": 1}\n{"text": "two", "n": 2}\n{"text": "three", "n": 3}\n')
    return path


def test_a_job_over_json_lines_ends_well(three: Path, tmp_path: Path) -> None:
    """Every line becomes one done row, in order where that was asked for, and the summary is one JSON object."""
    out = tmp_path / "out.jsonl"
    result = start("-i", three, "-o", out, "--ordered", "--json", "--price-input", "1", "--price-output", "2.5")
    assert result.exit_code == 0, result.output
    assert [row["ordinal"] for row in rows(out)] == [1, 2, 3]
    assert all(row["state"] == "done" and row["usage"]["output"] > 0 for row in rows(out))
    assert "Say three" in rows(out)[2]["value"]
    summary = json.loads(result.stdout)
    assert (summary["done"], summary["failed"], summary["exit_code"]) == (3, 0, 0)
    tokens = summary["tokens"]
    assert summary["cost_dollars"] == pytest.approx(tokens["input"] * 1e-6 + tokens["output"] * 2.5e-6, abs=1e-6)


def test_a_bad_line_is_one_failed_row(three: Path, tmp_path: Path) -> None:
    """A line of invalid JSON and one that is not UTF-8 cost exit code 1, two messages and nothing else."""
    three.write_bytes(three.read_bytes() + b'{"text": oops}\n{"text": "\xff"}\n{"text": "six"}\n')
    out = tmp_path / "out.jsonl"
    result = start("-i", three, "-o", out)
    assert result.exit_code == 1
    assert f"failed: {three}:4:10: not valid JSON: expecting value" in result.stderr
    assert f"failed: {three}:5: not UTF-8 at byte offset " in result.stderr
    assert sorted(row["ordinal"] for row in rows(out) if row["state"] == "done") == [1, 2, 3, 6]


def test_answers_cut_off_name_the_option(three: Path, tmp_path: Path) -> None:
    """An answer at its output limit is a failed item that keeps its text, and the message says what to raise."""
    out = tmp_path / "out.jsonl"
    result = start("-i", three, "-o", out, "--max-tokens", "3")
    assert result.exit_code == 1
    assert all(row["reason"] == "output_limit" and row["value"] for row in rows(out))
    assert result.stderr.splitlines()[-1] == "headrace: 3 answers were cut off; --max-tokens allows 3"


def test_without_a_daemon_there_are_two_ways_out(three: Path) -> None:
    """`job start` alone says that no daemon is there, and names both ways out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it, and nobody answers
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(app, ["job", "start", "-i", str(three), "--prompt", "{text}", "--url", url])
    assert result.exit_code == 3
    assert message(result).startswith(f"there is no daemon at {url} (connection refused)")
    assert "`headrace serve`" in message(result)
    assert "--embedded" in message(result)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the input is empty: it has no items"),
        (b"{bad\n", "in.jsonl:1:2: not valid JSON"),
        (b"\xff\xfe{\n", "in.jsonl:1: not UTF-8 at byte offset 0 (it looks like UTF-16)"),
        (b"a,b\n" * 100, "none of the first 20 items can be read; the first: "),
        (b'{"title": "t"}\n', "the prompt names {text}, but the item's fields are: title"),
    ],
)
def test_an_unusable_input_starts_nothing(tmp_path: Path, content: bytes, expected: str) -> None:
    """Empty, unreadable and unfitting inputs are one message and exit code 2, and no output is made."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    out = tmp_path / "out.jsonl"
    result = start("-i", path, "-o", out)
    assert result.exit_code == 2
    assert expected in message(result)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-i", "nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        (["--backend", "openai"], "the openai backend needs the model's name"),
        (["--backend", "openai", "--model", "m", "--base-url", "ftp://x"], "--base-url: "),
        (
            ["--backend", "openai", "--model", "m", "--api-key-env", "NO_SUCH_KEY"],
            "--api-key-env: the environment variable NO_SUCH_KEY is unset or empty",
        ),
        (["--base-url", "http://x"], "the simulated backend has none"),
        (["--rpm", "0"], "requests"),
        (["--tpm", "nan"], "total_tokens"),
        (["--concurrency", "0"], "concurrency"),
        (["--workers", "0"], "--workers: at least 1"),
        (["--retries", "-1"], "--retries"),
        (["--temperature", "nan"], "--temperature"),
        (["--max-tokens", "0"], "max_tokens"),
        (["--price-input", "1"], "give both or neither"),
        (["-o", "/nowhere/out.jsonl"], "/nowhere/out.jsonl: no such folder"),
    ],
)
def test_nonsense_is_refused_by_name(three: Path, arguments: list[str], expected: str) -> None:
    """Whatever makes no sense is named before anything starts, with exit code 2."""
    inputs = [] if arguments[0] == "-i" else ["-i", str(three)]
    result = start(*inputs, *arguments)
    assert result.exit_code == 2 or isinstance(result.exception, HeadraceError)
    assert expected in message(result)


def test_a_prompt_is_needed_and_checked(three: Path, tmp_path: Path) -> None:
    """No prompt, a faulty one, and one from a file that is not there."""
    result = CliRunner().invoke(app, ["job", "start", "--embedded", "-i", str(three)])
    assert (result.exit_code, message(result)[:15]) == (2, "give the prompt")
    assert "line 1, column 5: a single {" in message(start("-i", three, prompt="Say {text"))
    prompt = tmp_path / "prompt.txt"
    out = tmp_path / "out.jsonl"
    command = ["job", "start", "--embedded", "--quiet", "--ordered", "-i", str(three), "-o", str(out)]
    command += ["--prompt-file", str(prompt)]
    assert "no such file" in message(CliRunner().invoke(app, command))
    prompt.write_text("Number {n}\n")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert "Number 3" in rows(out)[2]["value"]


def test_results_that_exist_are_kept(three: Path, tmp_path: Path) -> None:
    """An output with content is refused; with --overwrite it is replaced."""
    out = tmp_path / "out.jsonl"
    out.write_text("paid for\n")
    result = start("-i", three, "-o", out)
    assert (result.exit_code, out.read_text()) == (2, "paid for\n")
    assert start("-i", three, "-o", out, "--overwrite").exit_code == 0
    assert len(rows(out)) == 3


def test_an_output_inside_the_input_folder_is_no_input(tmp_path: Path) -> None:
    """A job over a folder leaves its own output out."""
    (tmp_path / "a.txt").write_text("text a")
    out = tmp_path / "out.jsonl"
    assert start("-i", tmp_path, "-o", out).exit_code == 0
    assert len(rows(out)) == 1


def test_version_and_help() -> None:
    """The version is printed, and every command that help names has help of its own."""
    runner = CliRunner()
    assert runner.invoke(app, ["version"]).stdout.startswith("headrace")
    commands = runner.invoke(app, ["--help"]).stdout.partition("Commands:")[2]
    named = set(re.findall(r"^  (\w+)", commands, re.MULTILINE))
    assert named >= {"demo", "job", "run", "ps", "show", "events", "cancel", "simulate", "version"}
    assert all(runner.invoke(app, [command, "--help"]).exit_code == 0 for command in named)

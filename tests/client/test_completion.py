"""What a shell is told when somebody presses Tab."""

import subprocess

import pytest

from tests.daemon.process import COMMAND, environment


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("headrace se", {"serve", "sessions"}), ("headrace job st", {"start"}), ("headrace serve --up", {"--upstream"})],
)
def test_commands_and_options_are_completed(typed: str, expected: set[str]) -> None:
    """Commands, their commands, and options are offered by their beginnings."""
    words = environment(_HEADRACE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(typed.split()) - 1))
    program = [*COMMAND[:2], f"import sys; sys.argv[0] = 'headrace'; {COMMAND[2]}"]
    told = subprocess.run(program, env=words, capture_output=True, text=True, timeout=60, check=False)
    assert expected <= set(told.stdout.split()), told.stdout + told.stderr

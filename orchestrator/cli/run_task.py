"""What `headrace run` is to do: an agent and its task, or a session that goes on."""

from collections.abc import Sequence

from msgspec import Struct

from agents.amounts import Limits
from orchestrator.cli.amounts import limits_of
from orchestrator.cli.options import WrongOption
from orchestrator.cli.words import read_text


class RunTask(Struct, frozen=True, kw_only=True):
    """An agent, if one was named, and what it is to do. An empty `task` goes on where the session's last run stopped.

    `only_word` is a task of one word without an agent: it may be meant as one.
    """

    agent: str = ""
    task: str = ""
    session: str = ""
    grant: Limits = Limits()
    only_word: str = ""


def run_task(words: Sequence[str], *, session: str, go_on: bool, grant: Sequence[str]) -> RunTask:
    """What the words and options mean. Raises `WrongOption`."""
    granted = limits_of("--grant", grant)
    if (go_on or grant) and not session:
        raise WrongOption(f"{'--continue' if go_on else '--grant'}: name the session with --session")
    if go_on:
        if words:
            raise WrongOption("--continue goes on where the session stopped and takes no task; leave one of them out")
        return RunTask(session=session, grant=granted)
    if not words:
        hint = ", or --continue to go on where the session stopped" if session else ""
        raise WrongOption(f"there is no task: say what to do{hint}")
    if len(words) > 2:
        raise WrongOption(f'one task was expected, perhaps after an agent, and not {len(words)} words: put it in "..."')
    agent, task = words if len(words) == 2 else ("", words[0])
    return RunTask(
        agent=agent,
        task=read_text(task, "the task"),
        session=session,
        grant=granted,
        only_word="" if agent or session or len(task.split()) != 1 else task.strip(),
    )

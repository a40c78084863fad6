"""The step that shortens a transcript: a model call like any other, budgeted and logged, and then the summary.

A summary that cannot be had (the budget has no room for a whole one, the model fails or answers something else) is no
reason to stop: the next step is tried with the whole transcript, and says itself what is wrong, if anything is. After a
failure the transcript has to grow by as much as is kept before the next try, so that a model that cannot do it is not
paid for trying at every step.
"""

import functools

import trio

from agents.budget import Exhausted
from agents.compaction import SUMMARY_TOKENS, compaction_due, summary_message, summary_of, summary_request
from agents.events import Compacted
from agents.messages import ModelReply
from agents.model_need import model_need
from agents.model_step import Asked, ask
from agents.result import Stop
from agents.run_state import RunState
from agents.size import input_bound


async def compact_if_due(state: RunState) -> Stop | None:
    """Shortens the transcript where it has become too long; a reason to stop only where the run was interrupted."""
    agent = state.agent
    if len(state.messages) < state.whole_until:
        return None
    count = compaction_due(agent, state.messages, state.opening, state.context)
    if not count:
        return None
    end = state.opening + count
    reply = await _ask(state, end)
    if isinstance(reply, Stop):
        return reply
    summary = None if reply is None else summary_of(reply, state.messages[state.opening : end])
    if summary is None:
        state.whole_until = len(state.messages) + agent.compact_keep
    else:
        await _replace(state, end, summary)
    return None


async def _ask(state: RunState, end: int) -> ModelReply | Stop | None:
    """The model's answer; None where there is none, and why the run was interrupted, if it was."""
    request = functools.partial(summary_request, state.agent, tuple(state.messages), end)
    tokens = input_bound(request(SUMMARY_TOKENS))
    while True:
        if isinstance(model_need(state.scope, tokens, SUMMARY_TOKENS, SUMMARY_TOKENS, state.price), Exhausted):
            return None
        asked = await ask(state, request, SUMMARY_TOKENS, "compact")
        if isinstance(asked, Asked):
            return asked.reply
        await trio.lowlevel.checkpoint()
        interrupted = state.interrupted_by(trio.current_time())
        if interrupted is not None or asked is not None:
            return interrupted


async def _replace(state: RunState, end: int, summary: str) -> None:
    count = end - state.opening
    await state.log.append(
        Compacted(run=state.run, at=state.wall(), summary=summary, messages=count, through=state.log.number)
    )
    state.messages[state.opening : end] = [summary_message(summary)]
    state.context = None

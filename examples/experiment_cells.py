"""The cells of experiment.toml: an agent adds numbers up, with a calculator or in its head, where it may slip.

No model server is needed: the model is a script, and its slips come from the cell's seed.
"""

from random import Random

from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.messages import Message
from agents.scripted import Script, ScriptedModel, ask, say
from agents.spec import AgentSpec
from agents.tools import tool
from bench.experiment.cells import Cell


@tool(read_only=True)
async def add(numbers: str) -> str:
    """Adds numbers up.

    Args:
        numbers: whole numbers with spaces between them.
    """
    return str(sum(map(int, numbers.split())))


async def add_up(cell: Cell) -> dict[str, float]:
    """One run; what it came to, and what it took."""
    random = Random(cell.seed)
    numbers = [random.randint(10, 99) for _ in range(int(str(cell.task_fields["numbers"])))]
    slips = float(str(cell.task_fields["slips"]))
    tools = (add,) if cell.system_fields.get("tool") else ()
    agent = AgentSpec(name="adder", model=cell.model, system=str(cell.system_fields["prompt"]), tools=tools)
    model = ScriptedModel(
        _script(Random(f"{cell.seed} {cell.system}"), slips, with_tool=bool(tools)),
        latency=float(str(cell.model_fields["seconds"])),
    )
    result = await run_agent(agent, " ".join(map(str, numbers)), model=model, journal=MemoryJournal())
    return {
        "success": result.answer == str(sum(numbers)),
        "tokens": result.usage.total or 0,
        "rounds": result.rounds,
    }


def _script(random: Random, slips: float, *, with_tool: bool) -> Script:
    slip = random.random() < slips
    forgets = random.random() < 0.1

    def answer(messages: tuple[Message, ...]) -> Message:
        last = messages[-1]
        if last.role == "tool":
            return say(last.content)
        if with_tool and not forgets:
            return ask("add", {"numbers": last.content})
        return say(str(sum(map(int, last.content.split())) + (10 if slip else 0)))

    return answer

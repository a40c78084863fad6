"""Commands as tools: a process for each call, the arguments on its stdin, the answer on its stdout.

The process reads one line, the arguments as a JSON object. What it writes to stdout is the answer if it ends with 0;
else the call is an error that names the exit code and says what both streams said. It has the folder and environment
that were configured for it, and of the daemon's own environment nothing but `PASSED_ON`. Four variables say which
call it is: `HEADRACE_RUN`, `HEADRACE_CALL`, `HEADRACE_KEY` (the same if the call is made again) and
`HEADRACE_GENERATION`, which rises with each executor that takes the run over.

A call that is cut off goes down the ladder of `orchestrator.tools.process`. A process that nevertheless ends with 0
has answered; any other has an unknown effect. Where the daemon itself is killed its processes go on, and so the effect
of their calls is unknown as well.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from agents.arguments import InvalidTool, decode_arguments, schema_of
from agents.context import ToolContext
from agents.messages import ToolSpec
from agents.tools import BaseTool, ToolError
from orchestrator.tools.output import Blobs, Output, told
from orchestrator.tools.parameters import parameter_struct, read_parameters
from orchestrator.tools.process import Launch, run_process

PASSED_ON: Final = ("PATH", "HOME", "LANG")
"""What a command has of the daemon's own environment."""


class CommandTool(BaseTool):
    """A command that an agent may call. Settings are those of `BaseTool`.

    `command` is the program and its fixed arguments, found by the PATH of its environment; no shell reads it.
    `parameters` are as `orchestrator.tools.parameters` reads them. `folder` is where it works, None for the daemon's
    own working folder. Outputs too long for the model go to `blobs`. Raises `InvalidTool`, `InvalidLimits`.
    """

    __slots__ = ("_blobs", "_command", "_environment", "_folder", "_struct")

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        description: str = "",
        parameters: Mapping[str, object] = {},
        folder: Path | None = None,
        environment: Mapping[str, str] = {},
        blobs: Blobs | None = None,
        **settings: Any,
    ) -> None:
        if not command or not command[0]:
            raise InvalidTool(f"tool {name}: a command begins with the program to start")
        self._struct = parameter_struct(name, read_parameters(name, parameters))
        super().__init__(ToolSpec(name, description, schema_of(self._struct, {})), kind="command", **settings)
        self._command = tuple(command)
        self._folder = folder
        self._environment = dict(environment)
        self._blobs = blobs

    def decode(self, arguments: str) -> dict[str, object]:
        decoded = decode_arguments(self.name, arguments, self._struct)
        return {name: value for name, value in decoded.items() if value is not UNSET}

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        launch = Launch(
            command=self._command,
            folder=self._folder,
            environment=self._whole_environment(context),
            stdin=msgspec.json.encode(arguments) + b"\n",
        )
        return lambda: self._run(launch)

    def _whole_environment(self, context: ToolContext) -> dict[str, str]:
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        which = {
            "HEADRACE_RUN": context.run,
            "HEADRACE_CALL": context.call,
            "HEADRACE_KEY": context.key,
            "HEADRACE_GENERATION": str(context.generation),
        }
        # a model writes the ids of its calls, and an environment holds no NUL
        return passed | self._environment | {name: value.replace("\0", "") for name, value in which.items()}

    async def _run(self, launch: Launch) -> str:
        out, err = Output(), Output()
        try:
            code = await run_process(launch, out, err, grace=self.grace)
        except (OSError, ValueError) as error:
            raise ToolError(f"{self.name} could not be started: {error}") from error
        answer = await told(out, self._blobs)
        if code != 0:
            raise ToolError(_failure(self.name, code, answer, await told(err, self._blobs)))
        return answer


def _failure(name: str, code: int, answer: str, complaint: str) -> str:
    parts = [f"{name} ended with {_end(code)}."]
    parts += [f"{stream}:\n{text}" for stream, text in (("stderr", complaint), ("stdout", answer)) if text.strip()]
    return "\n".join(parts)


def _end(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"

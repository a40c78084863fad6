"""What the VTC paper's artifact holds of its own runs, and what Headrace is held to."""

from typing import Final

from msgspec import Struct

SOURCE: Final = "Sheng et al., OSDI 2024, artifact Ying1123/VTC-artifact: Llama-2-7b on an A10G, one run each"


class Published(Struct, frozen=True):
    """One row of the artifact. `aborted` are requests turned away."""

    max: float
    mean: float
    variance: float
    tokens_per_second: float
    aborted: int = 0


PUBLISHED: Final[dict[tuple[str, str], Published]] = {
    ("real", "fcfs"): Published(759.97, 433.53, 32112.00, 777),
    ("real", "lcf"): Published(750.49, 323.82, 29088.90, 778),
    ("real", "vtc"): Published(368.40, 251.66, 6549.16, 779),
    ("real", "vtc-predicted"): Published(365.47, 240.33, 5321.62, 773),
    ("real", "vtc-known"): Published(329.46, 227.51, 4475.76, 781),
    ("real", "rpm5"): Published(143.86, 83.58, 1020, 340, 919),
    ("real", "rpm20"): Published(446.76, 195.71, 7450, 694, 342),
    ("real", "rpm30"): Published(693.66, 309.45, 24221, 747, 176),
    ("overload", "vtc"): Published(192.88, 103.77, 6981, 893),
    ("overload", "vtc-within-50"): Published(33.98, 12.54, 112, 904),
    ("overload", "vtc-known"): Published(5.87, 0.51, 1.71, 895),
    ("overload-multi", "vtc"): Published(322.16, 162.20, 5151, 875),
    ("overload-multi", "vtc-within-50"): Published(99.43, 66.32, 487, 875),
    ("overload-multi", "vtc-known"): Published(43.23, 36.34, 56.5, 875),
}

FIRST_TOKEN: Final[dict[tuple[str, str], dict[str, float]]] = {
    ("on_off_less", "fcfs"): {"0": 85, "1": 93},
    ("on_off_less", "vtc"): {"0": 3.5, "1": 102},
    ("proportional", "fcfs"): {"0": 97, "1": 97, "2": 96},
    ("proportional", "vtc"): {"0": 4.8, "1": 4.9, "2": 124},
}
"""Mean seconds to the first token, by client."""

DIFFERENCES: Final = (
    "The artifact has one run of each; the model's figures are medians over replicates whose arrivals are moved by up"
    " to 50 ms. One run is a coin flip: VTC's greatest difference on the real trace ranges over a third of its median.",
    "The engine is a model with constant step costs, 5 to 15 % off in single steps, and it has no network and no"
    " tokenizer: throughput is 0 to 3 % above the artifact's.",
    "The synthetic suites are drawn from the paper's descriptions with other random phases. With equal lengths the"
    " artifact's requests run in step, so where ticks fall relative to a batch's end moves the greatest difference.",
    "The artifact's overload suites end their arrivals at 360 s of the 600 s that are measured: later ticks see a"
    " demand of 0, and the last one may see a client run dry. The figures for ticks where both are backlogged leave"
    " those out.",
    "Headrace orders calls before the engine and does not know lengths, the paper's policies order the engine's own"
    " queue before each prefill.",
)

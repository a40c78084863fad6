"""A daemon without a file: what a few options mean."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.config.build import build_backends, build_catalogue, policy_of, server_config
from orchestrator.config.decode import decode_text
from orchestrator.config.flags import Flags, config_from_flags, file_from_flags
from orchestrator.config.problems import ConfigError
from orchestrator.config.write import as_toml
from orchestrator.policy.limits import LimitSpec
from tests.config.test_config_build import TODAY


def test_options_are_one_backend_for_every_model() -> None:
    """An address, limits, a default model and weights are a backend called upstream and its tenants."""
    config = config_from_flags(
        Flags(
            upstream="http://localhost:8099/v1",
            rpm=60,
            tpm=1000,
            counted="at_admission",
            concurrency=4,
            model="small",
            api_key_env="KEY",
            weights=["red=3", "blue=0.5"],
            daemon={"port": 0, "host": None},
        )
    )
    policy = policy_of(config, "upstream")
    limits = policy.endpoints["upstream"]
    assert limits.limits == (
        LimitSpec("requests", 60, counted="at_admission"),
        LimitSpec("total_tokens", 1000, counted="at_admission"),
    )
    assert limits.concurrency.fixed == 4
    assert {name: tenant.weight for name, tenant in policy.dispatch.tenants.items()} == {"red": 3, "blue": 0.5}
    assert (config.daemon.port, config.daemon.host) == (0, "127.0.0.1")
    catalogue = build_catalogue(config, TODAY)
    assert [target.model for target in catalogue.targets("")] == ["small"]
    assert [target.model for target in catalogue.targets("other")] == ["other"]
    (plan,) = build_backends(config, {"KEY": "k"})
    assert isinstance(plan.endpoints[0].backend, OpenAIBackend)


@pytest.mark.parametrize("kind", ["local", "simulated"])
def test_words_stand_for_backends_of_our_own(kind: str) -> None:
    """The local and the simulated backend need nothing else, and are the default model."""
    config = config_from_flags(Flags(upstream=kind))
    assert len(build_backends(config, {})) == 1
    assert build_catalogue(config, TODAY).default_model == kind


def test_openai_has_its_usual_key() -> None:
    """OpenAI's own address needs no option for the key."""
    config = config_from_flags(Flags(upstream="https://api.openai.com/v1"))
    assert server_config(config, "upstream", "upstream").api_key_env == "OPENAI_API_KEY"


def test_all_wrong_options_are_told_by_their_names() -> None:
    """Wrong options are told together, each as it is written on the command line."""
    with pytest.raises(ConfigError) as caught:
        config_from_flags(
            Flags(upstream="lcoal", rpm=0, tpm=float("nan"), concurrency=0, weights=["x", "a=-1", "b=1", "b=2"])
        )
    assert [problem.path for problem in caught.value.problems] == [
        "--upstream",
        "--weight",
        "--weight",
        "--rpm",
        "--tpm",
        "--concurrency",
        "--weight a",
    ]
    assert caught.value.message.startswith("these options: 7 problems\n  --upstream: must be a URL like")


@pytest.mark.parametrize("upstream", ["local", "simulated"])
def test_own_backends_have_no_key(upstream: str) -> None:
    """A key for a backend that has none is a mistake worth telling."""
    with pytest.raises(ConfigError, match=f"--api-key-env: the {upstream} backend has no key"):
        config_from_flags(Flags(upstream=upstream, api_key_env="KEY"))


@pytest.mark.parametrize("upstream", ["https://u:hunter22@host/v1", "http://", "ftp://host/v1"])
def test_an_address_that_cannot_be_one(upstream: str) -> None:
    """Addresses that cannot work are told at once, without the password that may be in them."""
    with pytest.raises(ConfigError) as caught:
        config_from_flags(Flags(upstream=upstream))
    assert "hunter22" not in caught.value.message


def test_options_as_a_file_mean_the_same() -> None:
    """The file that stands for some options is read as the configuration that they are, quotes and dots included."""
    flags = Flags(
        upstream="http://localhost:8099/v1",
        rpm=60,
        counted="at_admission",
        concurrency=4,
        model='the "small" one',
        weights=["red=3", "blue.2=0.5"],
        daemon={"port": 8701, "log": "json", "host": None},
    )
    assert decode_text(file_from_flags(flags), "") == config_from_flags(flags)


@given(
    st.recursive(
        st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
        lambda values: st.dictionaries(st.text(), values, max_size=4),
        max_leaves=8,
    ).filter(lambda value: isinstance(value, dict))
)
def test_what_is_written_is_read_again(document: dict[str, object]) -> None:
    """Any document of tables and plain values comes back as it was."""
    assert tomllib.loads(as_toml(document)) == document

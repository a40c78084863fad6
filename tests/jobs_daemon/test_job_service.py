"""A job of the daemon: fed by uploads, worked on as they come, seen, followed, cancelled, tried again, removed."""

from pathlib import Path

from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    feed,
    lines,
    read,
    serving,
    until_ended,
)


async def test_a_job_runs_every_uploaded_item_once(tmp_path: Path) -> None:
    """Each input becomes one run under the job's flow, and one line of results."""
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(1, 31)))
        view = await until_ended(service, "j")
        results = await read(service, "j")
    assert (view.phase, view.done, view.failed, view.received) == ("done", 30, 0, 30)
    assert sorted(line.ordinal for line in results) == list(range(1, 31))
    assert all(line.value == f"SAY {line.ordinal}" and line.origin == f"in:{line.ordinal}" for line in results)
    assert sorted(run.run for run in runs.asked) == sorted(f"j.{n}" for n in range(1, 31))
    assert {(run.tenant, run.job, run.priority) for run in runs.asked} == {("default", "j", "standard")}

"""What `serve` refuses or mends before it starts anything."""

import os

import pytest

from supervisor import refusals


@pytest.fixture(autouse=True)
def own_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_data_directory_and_its_files_are_their_owner_s_alone(tmp_path):
    directory = tmp_path / "var"
    (directory / "logs").mkdir(parents=True)
    files = [directory / "muster.sqlite3", directory / "logs" / "web.log"]
    for path in files:
        path.write_text("x")
        path.chmod(0o644)
    directory.chmod(0o755)
    refusals.check_data_dir(directory)
    (directory / "later").write_text("x")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in [*files, directory / "later"]} == {0o600}


def test_postgresql_that_runs_as_another_user_may_enter_the_data_directory_and_not_list_it(tmp_path):
    refusals.check_data_dir(tmp_path / "var", for_nobody=True)
    assert (tmp_path / "var").stat().st_mode & 0o777 == 0o711


def test_one_program_alone_needs_servers_of_its_own():
    refusals.check_external(embedded=False)
    with pytest.raises(refusals.Refusal, match="set DATABASE_URL, BROKER_URL, CHANNEL_URL and CACHE_URL"):
        refusals.check_external(embedded=True)


@pytest.mark.parametrize(
    ("number", "only", "pools", "said"),
    [(0, None, ["default"], "MUSTER_PROCESSES"), (1, "worker", [], "MUSTER_WORKER_POOLS")],
)
def test_what_would_do_nothing_is_not_started(number, only, pools, said):
    with pytest.raises(refusals.Refusal, match=said):
        refusals.check_processes(number, only=only, pools=pools)


@pytest.mark.parametrize(("only", "pools"), [(None, []), ("web", []), ("worker", ["gpu"])])
def test_a_web_server_may_have_no_pools(only, pools):
    refusals.check_processes(1, only=only, pools=pools)

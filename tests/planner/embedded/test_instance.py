"""Files and addresses of the embedded instance."""

import stat
from pathlib import Path

from planner.embedded import instance


def test_secret_key_is_private_and_stays_the_same(tmp_path: Path) -> None:
    first = instance.secret_key(tmp_path / "var")
    second = instance.secret_key(tmp_path / "var")
    mode = stat.S_IMODE((tmp_path / "var" / "secret-key").stat().st_mode)
    assert (first == second, len(first) >= 50, mode) == (True, True, 0o600)


def test_secret_keys_of_two_instances_differ(tmp_path: Path) -> None:
    assert instance.secret_key(tmp_path / "one") != instance.secret_key(tmp_path / "two")


def test_private_file_leaves_no_drafts(tmp_path: Path) -> None:
    instance.private_file(tmp_path / "key", "value")
    instance.private_file(tmp_path / "key", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key").read_text() == "value"


def test_socket_path_leaves_a_directory_too_deep_for_the_kernel(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    assert len(str(instance.socket_path(deep))) <= instance.SOCKET_PATH_BYTES
    assert instance.socket_path(deep) != instance.socket_path(tmp_path / ("e" * 90))


def test_celery_url_spells_unix_sockets_its_own_way() -> None:
    assert instance.celery_url("unix:///run/v/socket?db=3") == "redis+socket:///run/v/socket?virtual_host=3"
    assert instance.celery_url("rediss://host:6379/0") == "rediss://host:6379/0"

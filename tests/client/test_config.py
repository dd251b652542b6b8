"""Where the client finds its server and its key."""

import stat

import pytest

from muster_client import ConfigurationError, Muster, config
from muster_client.config import Settings


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("MUSTER_URL", raising=False)
    monkeypatch.delenv("MUSTER_API_KEY", raising=False)
    monkeypatch.setenv("MUSTER_CONFIG", str(tmp_path / "muster" / "credentials.json"))
    return tmp_path / "muster" / "credentials.json"


def test_only_the_owner_can_read_the_stored_key(file):
    config.save(Settings("https://muster.example.org", "mk_1.secret"))

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]  # nothing half-written is left
    assert config.settings() == Settings("https://muster.example.org", "mk_1.secret")


def test_a_key_that_others_can_read_is_refused(file):
    config.save(Settings("https://muster.example.org", "mk_1.secret"))
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        config.settings()


def test_a_damaged_file_is_said_so(file):
    file.parent.mkdir()
    file.touch(0o600)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        config.settings()


def test_arguments_win_over_the_environment_and_the_environment_over_the_file(monkeypatch):
    config.save(Settings("https://stored.example.org", "mk_stored"))
    monkeypatch.setenv("MUSTER_URL", "https://environment.example.org/")
    monkeypatch.setenv("MUSTER_API_KEY", "mk_environment")
    assert config.settings() == Settings("https://environment.example.org", "mk_environment")
    assert config.settings("https://given.example.org", "mk_given").api_key == "mk_given"


def test_a_stored_key_goes_to_no_other_server(monkeypatch):
    config.save(Settings("https://stored.example.org", "mk_stored"))
    monkeypatch.setenv("MUSTER_URL", "https://other.example.org")
    with pytest.raises(ConfigurationError, match="no API key for https://other"):
        config.settings()


@pytest.mark.parametrize("url", ["muster.example.org", "ftp://a", "http://", "https://a?x=1", "https://me:pw@a"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError):
        config.settings(url, "mk_1.secret")


@pytest.mark.parametrize("key", ["mk_1\nX-Evil: 1", "schlüssel", "two words"])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(ConfigurationError):
        config.settings("https://a.example.org", key)


def test_without_anything_it_says_what_to_do():
    with pytest.raises(ConfigurationError, match="muster login"):
        Muster()


def test_the_key_is_not_shown():
    assert "secret" not in repr(Settings("https://a.example.org", "mk_1.secret"))
    assert Settings("http://muster.example.org", "k").is_exposed
    assert not Settings("http://127.0.0.1:8000", "k").is_exposed
    assert not Settings("https://muster.example.org", "k").is_exposed

"""What a start says of settings that an earlier start had and this one lacks."""

import pytest

from agents.missing_settings import list_missing_settings
from agents.models import Provider

pytestmark = pytest.mark.django_db


@pytest.fixture
def local_provider(settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    return Provider.objects.create(
        name="local", kind="openai-compatible", api_key="none", base_url="http://127.0.0.1:11434/v1"
    )


def test_nothing_is_missing_with_the_settings_of_the_first_start(local_provider):
    assert list_missing_settings() == []


def test_a_private_address_that_was_allowed_is_named_with_the_setting(local_provider, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    [sentence] = list_missing_settings()
    assert "“local” cannot be called" in sentence
    assert "MUSTER_PRIVATE_HOSTS=127.0.0.1" in sentence


def test_a_provider_that_is_switched_off_is_not_named(local_provider, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    Provider.objects.update(enabled=False)
    assert list_missing_settings() == []


def test_a_field_key_that_is_gone_is_named(local_provider, settings):
    settings.FIELD_KEYS = ["another key"]
    [sentence] = list_missing_settings()
    assert "MUSTER_FIELD_KEYS" in sentence

"""A site that sets what is a constant now is told so when it starts."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings import removed
from tests.docs import reference


def test_a_removed_setting_is_refused_with_what_holds_now():
    with pytest.raises(ImproperlyConfigured) as refused:
        removed.refuse_removed_settings({"MUSTER_PORT": "8000", "MUSTER_MAX_WEBHOOKS": "99"})
    assert str(refused.value) == (
        "MUSTER_MAX_WEBHOOKS is no longer a setting: a person can have 50 webhooks. Remove it from the environment."
    )
    removed.refuse_removed_settings({"MUSTER_PORT": "8000"})


def test_no_setting_is_both_read_and_removed():
    assert removed.REMOVED.keys() & {name for name, *_ in reference.settings()} == set()

"""An emulator of Google's services, and Alice's account there."""

import pytest

from tests.connectors import emulator

API = "/api/v1/connections"


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    from connectors.logins import oauth

    with emulator.running(tmp_path_factory.mktemp("emulate"), oauth.redirect_uri("gmail")) as made:
        yield made


@pytest.fixture
def google_account(alice_api, google, settings):
    """Alice connects as a person does, through the login page."""
    from connectors.models import Connection

    settings.GMAIL_URL, settings.GOOGLE_OAUTH_URL = google.url, f"{google.url}/oauth2"
    settings.GOOGLE_AUTHORIZE_URL = f"{google.url}/o/oauth2/v2/auth"
    settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET = "client", "hush"
    begun = alice_api.post(f"{API}/gmail/authorize", {"access": ["read", "write", "send"]}).json()
    done = alice_api.get(f"{API}/gmail/callback", google.log_in(begun["url"]))
    assert done.status_code == 200, done.json()
    assert done.json()["health"] == "ok" and done.json()["is_linked"]
    return Connection.objects.get()

"""Each person's language and time zone; the API stays English."""

import pytest
from django.utils import translation

from agents.models import Preference

pytestmark = pytest.mark.django_db


def html_of(page):
    return page.content.decode()


def test_settings_and_notices_are_saved_on_the_account_page(signed_in, alice, charlie):
    browser = signed_in(alice)
    assert (
        browser.post("/account/settings", {"which": "settings", "language": "de", "zone": "Asia/Tokyo"}).status_code
        == 302
    )
    form = {"which": "notices", "email_notices": "on", "teams_url": "https://flows.example.com/s3cret"}
    assert browser.post("/account/settings", form).status_code == 302
    saved = Preference.objects.get()
    assert (saved.user, saved.language, saved.zone, saved.push_notices) == (alice, "de", "Asia/Tokyo", False)
    page = html_of(browser.get("/account/"))
    assert "s3cret" not in page and 'name="no_teams"' in page
    browser.post("/account/settings", {"which": "notices", "email_notices": "on"})
    assert Preference.objects.get().teams_url
    browser.post("/account/settings", {"which": "notices", "no_teams": "on"})
    assert not Preference.objects.get().teams_url
    assert not Preference.objects.filter(user=charlie).exists()


@pytest.mark.parametrize("wrong", [{"zone": "Mars/Base"}, {"language": "tlh"}])
def test_wrong_settings_are_refused_on_the_page(signed_in, alice, wrong):
    page = signed_in(alice).post("/account/settings", {"which": "settings", **wrong})
    assert page.status_code == 200 and 'role="alert"' in html_of(page)
    assert not Preference.objects.exists()


def test_a_teams_address_without_https_is_refused_on_the_page(signed_in, alice):
    page = signed_in(alice).post("/account/settings", {"which": "notices", "teams_url": "http://flows.example.com"})
    assert page.status_code == 200 and "https://" in html_of(page) and not Preference.objects.exists()


def test_the_api_stays_english_whatever_the_browser_or_the_person_asks_for(signed_in, alice, alice_api):
    Preference.objects.create(user=alice, language="de")
    german = {"Accept-Language": "de"}
    answer = alice_api.post("/api/v1/agents/", {}, headers=german)
    assert answer.status_code == 422 and "required" in answer.content.decode()
    session = signed_in(alice).post("/api/v1/agents/", "{}", content_type="application/json", headers=german)
    assert "required" in session.content.decode()


def test_who_is_not_signed_in_changes_nothing(client):
    assert client.post("/account/settings", {"which": "settings", "language": "de"}).status_code == 302
    assert not Preference.objects.exists()


def test_the_page_and_its_script_are_in_the_persons_language(signed_in, alice, bob):
    Preference.objects.create(user=alice, language="de")
    page = html_of(signed_in(alice).get("/account/"))
    assert '<html lang="de"' in page and "Angemeldete Browser" in page and "/texts/de.js" in page
    assert "Signed-in browsers" in html_of(signed_in(bob).get("/account/"))
    assert "/texts/" not in html_of(signed_in(bob).get("/account/"))
    german = html_of(signed_in(bob).get("/account/", headers={"Accept-Language": "de-AT,de;q=0.9"}))
    assert "Angemeldete Browser" in german, "without a choice, the browser's language"


def test_the_texts_of_scripts_are_public_and_only_in_known_languages(client):
    answer = client.get("/texts/de.js")
    assert answer.status_code == 200 and "Neu erzeugen" in answer.content.decode()
    assert answer["Content-Type"].startswith("text/javascript")
    assert client.get("/texts/tlh.js").status_code == 404


def test_numbers_in_attributes_have_a_point_in_every_language():
    from django.utils.formats import get_format, localize

    for language in ("en", "de"):
        with translation.override(language):
            assert localize(1234.5) == "1234.5"
            assert get_format("DATE_INPUT_FORMATS")[0] == "%Y-%m-%d"


def test_the_zone_that_a_person_chose_goes_before_the_browsers(rf, alice):
    from studio.base import find_zone

    request = rf.get("/")
    request.COOKIES["zone"] = "Europe/Berlin"
    assert str(find_zone(request)) == "Europe/Berlin"
    request.preference = Preference(user=alice, zone="Asia/Tokyo")
    assert str(find_zone(request)) == "Asia/Tokyo"


def test_figures_are_written_as_in_the_language_of_the_page():
    from studio.templatetags import muster as tags

    def written():
        figures = (tags.dollars("1234.5"), tags.seconds(1.25), tags.percent(0.256), tags.decimal(0.5, 2))
        return [*figures, tags.whole(1234567), tags.size(2**21).replace("\xa0", " ")]

    with translation.override("en"):
        assert written() == ["$1,234.50", "1.2 s", "26%", "0.50", "1,234,567", "2.0 MB"]
    with translation.override("de"):
        assert written() == ["1.234,50\xa0$", "1,2 s", "26\xa0%", "0,50", "1.234.567", "2,0 MB"]

"""The texts of scripts in another language, as a script of this site; pages in English do not load it."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils import translation
from django.views.decorators.http import require_safe
from django.views.i18n import JavaScriptCatalog

KEPT_S = 3600
catalog = JavaScriptCatalog.as_view()


@require_safe
def texts(request: HttpRequest, language: str) -> HttpResponseBase:
    if language not in dict(settings.LANGUAGES):
        raise Http404
    with translation.override(language):
        answer = catalog(request)
    answer["Cache-Control"] = f"public, max-age={KEPT_S}"
    return answer

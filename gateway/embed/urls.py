from django.urls import path

from . import page, views

urlpatterns = [
    path("embed/v1/<slug:key>", views.AboutView.as_view(), name="embed-about"),
    path("embed/v1/<slug:key>/sessions", views.SessionsView.as_view(), name="embed-sessions"),
    path("embed/v1/<slug:key>/messages", views.MessagesView.as_view(), name="embed-messages"),
    path("embed/v1/<slug:key>/runs/<uuid:run>/reply", views.ReplyView.as_view(), name="embed-reply"),
    path("embed/v1/<slug:key>/runs/<uuid:run>/stop", views.StopView.as_view(), name="embed-stop"),
    path("chat/<slug:key>/", page.public_page, name="embed-page"),
    path("embed.js", page.script, name="embed-script"),
]

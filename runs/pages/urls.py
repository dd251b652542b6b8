"""URLs of the pages. The admin and the API have their own roots."""

from django.contrib.auth import views as auth
from django.urls import path

from agents.http.login import LoginForm

from . import (
    approvals,
    audit,
    chains,
    connections,
    dashboard,
    devices,
    playground,
    records,
    runs,
    schedules,
    sessions,
    start,
    teams,
    workbench,
)

app_name = "page"
login = auth.LoginView.as_view(template_name="muster/login.html", authentication_form=LoginForm)
urlpatterns = [
    path("", dashboard.dashboard, name="dashboard"),
    path("login/", login, name="login"),
    path("logout/", auth.LogoutView.as_view(next_page="page:login"), name="logout"),
    path("start/", start.start, name="start"),
    path("playground/", playground.playground, name="playground"),
    path("playground/fork", playground.fork, name="fork"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/<uuid:pk>/", runs.run_page, name="run"),
    path("runs/<uuid:pk>/cancel", runs.cancel, name="run-cancel"),
    path("runs/<uuid:pk>/retry", runs.retry, name="run-retry"),
    path("runs/<uuid:pk>/again", runs.again, name="run-again"),
    path("runs/<uuid:pk>/model-calls/<uuid:call>/", runs.raw_call, name="run-raw"),
    path("chains/<int:pk>/picture.svg", runs.chain_picture, name="chain-picture"),
    path("sessions/", sessions.session_list, name="sessions"),
    path("sessions/<uuid:pk>/", sessions.session_page, name="session"),
    path("sessions/<uuid:pk>/close", sessions.close, name="session-close"),
    path("approvals/", approvals.inbox, name="approvals"),
    path("approvals/<uuid:pk>/decide", approvals.decide, name="approval-decide"),
    path("schedules/", schedules.schedule_list, name="schedules"),
    path("schedules/<str:name>/", schedules.schedule_page, name="schedule"),
    path("schedules/<str:name>/delete", schedules.delete, name="schedule-delete"),
    path("schedules/<str:name>/<slug:verb>", schedules.act, name="schedule-act"),
    path("records/", records.record_list, name="records"),
    path("records/new/<str:kind>/", records.new_record, name="record-new"),
    path("records/<uuid:pk>/", records.record_page, name="record"),
    path("records/<uuid:pk>/decide", records.decide, name="record-decide"),
    path("records/<uuid:pk>/comment", records.comment, name="record-comment"),
    path("records/<uuid:pk>/delete", records.delete, name="record-delete"),
    path("devices/", devices.device_list, name="devices"),
    path("devices/pair", devices.pair, name="device-pair"),
    path("devices/<uuid:pk>/", devices.device_page, name="device"),
    path("devices/<uuid:pk>/revoke", devices.revoke, name="device-revoke"),
    path("devices/<uuid:pk>/offers/<int:offer>", devices.decide, name="device-offer"),
    path("connections/", connections.connection_list, name="connections"),
    path("connections/<int:pk>/", connections.connection_page, name="connection"),
    path("chains/", chains.chain_list, name="chains"),
    path("chains/<str:name>/", chains.chain_page, name="chain"),
    path("functions/", workbench.function_list, name="functions"),
    path("functions/new/", workbench.new_function, name="function-new"),
    path("functions/<str:name>/", workbench.function_page, name="function"),
    path("teams/", teams.team_list, name="teams"),
    path("teams/<str:name>/leave", teams.leave, name="team-leave"),
    path("invitations/<int:pk>/accept", teams.answer, {"verb": "accept"}, name="invitation-accept"),
    path("invitations/<int:pk>/decline", teams.answer, {"verb": "decline"}, name="invitation-decline"),
    path("audit/", audit.audit, name="audit"),
]

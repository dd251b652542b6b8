"""The pages of skills: import or write one, read what strangers wrote, publish, compare, share."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.diff import side_by_side
from agents.exceptions import Conflict, Invalid, MusterError, TooLarge
from agents.http import parsers
from agents.models import Team
from agents.models.team import SLUG
from knowledge.models import Skill, SkillVersion
from knowledge.models.skill import TEXT
from knowledge.skills import document, files, store
from knowledge.skills.scripts import create_script_draft
from plumbing.untrusted.archives import MOST_BYTES, MOST_FILES
from plumbing.untrusted.formats import clean_untrusted_text

from .. import owner_urls
from ..base import add_refusal_message, by_name, parse_small_number, render_shell_page, require_login
from .agents import find_teams

WRITES = "skills:write"
# Columns that the list does not load.
HEAVY = ("text", "files", "published__text", "published__files", "published__front")
# Versions that the page of a skill lists.
VERSIONS = 50
# Characters of a file that its page shows.
SHOWN = 100_000
# The text of a new skill.
NEW = "---\nname: \ndescription: \n---\n"


@require_login(writes=WRITES)
def skill_list(request: HttpRequest) -> HttpResponse:
    """Ordered by name. POST writes a skill, or imports one."""
    if request.method == "POST":
        return add_skill(request)
    return render_skills(request, NEW)


def render_skills(request: HttpRequest, text: str) -> HttpResponse:
    rows = Skill.objects.visible_to(request.user).select_related("published", "owner", "team").defer(*HEAVY)
    skills, around = by_name(request, rows)
    limits = {"most": MOST_BYTES, "longest": TEXT}
    return render_shell_page(request, "skills.html", _("Skills"), skills=skills, text=text, **limits, **around)


def add_skill(request: HttpRequest) -> HttpResponse:
    try:
        new_skill = Skill(owner=request.user)
        skill = store.save_skill(new_skill, **read_form(request, new_skill))
    except MusterError as error:
        add_refusal_message(request, error)
        answer = render_skills(request, request.POST.get("text") or NEW)
        answer.status_code = error.status
        return answer
    messages.success(request, _("The skill “%(name)s” is stored as a draft.") % {"name": skill})
    return redirect(owner_urls.address("page:skill", skill))


def read_form(request: HttpRequest, skill: Skill) -> dict[str, Any]:
    """Read the text or the files of the form: the arguments of `store.save_skill`.

    Must not be called in a transaction, because it stores the bytes of the files. Raises Invalid, Conflict, TooLarge.
    """
    who = audit_source(request)
    if not request.FILES:
        if "text" not in request.POST:
            raise Invalid(_("Choose an archive or a folder."), code="nothing_found")
        # Browsers send the ends of lines of a text area as CRLF.
        text = request.POST["text"].replace("\r\n", "\n")
        read = document.parse_skill_document(text)
        return {"text": text, "contents": None, "untrusted": False, "read": read, **who}
    folder, text, contents = read_upload(request)
    read = document.parse_skill_document(text, folder)
    archive = store.store_changed(skill, text, contents, untrusted=True, folder=folder)
    return {"text": text, "contents": contents, "untrusted": True, "read": read, "archive": archive, **who}


def read_upload(request: HttpRequest) -> tuple[str, str, dict[str, bytes]]:
    """(name of the folder, SKILL.md, the other files) of an archive or of the files of a folder."""
    total = 0
    for _name, group in request.FILES.lists():
        total += sum(file.size or 0 for file in group)
    # Checked before anything is read into memory.
    if total > MOST_BYTES:
        raise TooLarge(f"A skill may have {MOST_BYTES >> 20} MB.", hint="Leave out large files.")
    archive = request.FILES.get("archive")
    if archive:
        return files.from_archive(archive.read(), request.POST.get("folder", "")[:240])
    parts = request.FILES.getlist("files")
    paths = read_paths(request)
    if not parts or len(parts) > MOST_FILES or len(paths) != len(parts):
        raise Invalid(f"Send an archive, or 1 to {MOST_FILES} files.", code="nothing_found")
    folder = paths[0].partition("/")[0]
    contents: dict[str, bytes] = {}
    for path, part in zip(paths, parts, strict=True):
        contents[path.removeprefix(f"{folder}/")] = part.read()
    text, other_files = files.from_parts(contents)
    return folder, text, other_files


def read_paths(request: HttpRequest) -> list[str]:
    """The paths of the files of a folder, which the script of the page sends: browsers send names only."""
    try:
        paths = parsers.parse_json_body(request.POST.get("paths", "[]").encode())
    except ValueError:
        return []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return []
    return paths


# -- one skill ---------------------------------------------------------------------------------------------------------


@require_login(writes=WRITES)
def skill_page(request: HttpRequest, name: str) -> HttpResponse:
    """One skill. `?file=` shows a file, `?from=&to=` compares. POST saves SKILL.md."""
    skill = load_shown_skill(request, name)
    if request.method != "POST":
        return render_skill(request, skill, skill.text)
    try:
        sent = read_form(request, skill)
        with transaction.atomic():
            store.save_skill(lock_unchanged(request, skill), **sent)
    except MusterError as error:
        add_refusal_message(request, error)
        answer = render_skill(request, load_shown_skill(request, name), request.POST.get("text", ""))
        answer.status_code = error.status
        return answer
    messages.success(request, _("Saved."))
    return redirect(owner_urls.address("page:skill", skill))


def load_shown_skill(request: HttpRequest, name: str) -> Skill:
    if not SLUG.regex.match(name):
        raise Http404("There is no skill with that name.")
    return owner_urls.find_by_name(request, Skill.objects.select_related("published", "owner", "team", "bundle"), name)


def render_skill(request: HttpRequest, skill: Skill, text: str) -> HttpResponse:
    """The page of a skill with this text in its editor."""
    may_edit = skill.may_edit(request.user)
    versions = skill.versions.select_related("author").defer("text", "files", "front")
    uses: Any = ()
    teams: Any = ()
    if may_edit:
        uses = store.find_skill_uses(skill, request.user)
        teams = find_teams(request.user, skill)
    return render_shell_page(
        request,
        "skill.html",
        skill.name,
        skill=skill,
        given=text,
        body=find_body(skill.text),
        longest=TEXT,
        may_edit=may_edit,
        versions=list(versions[:VERSIONS]),
        users=uses,
        teams=teams,
        file=open_file(request, skill),
        difference=compare_versions(request, skill),
        most=MOST_BYTES,
        seen=skill.updated_at.isoformat(),
    )


def find_body(text: str) -> str:
    """The instructions without the front matter."""
    return document.split_front_matter(text)[1]


def open_file(request: HttpRequest, skill: Skill) -> dict[str, Any] | None:
    """The file that the address names: {path, text, is_cut}; `text` is None if it is no text."""
    path = request.GET.get("file", "")
    if not path:
        return None
    content = files.read_one(skill, path)
    if content is None:
        raise Http404("The skill has no such file.")
    try:
        text = clean_untrusted_text(content.decode())
    except UnicodeDecodeError:
        return {"path": path, "text": None}
    return {"path": path, "text": text[:SHOWN], "is_cut": len(text) > SHOWN}


def compare_versions(request: HttpRequest, skill: Skill) -> dict[str, Any] | None:
    """What differs between two versions, or between a version and the draft."""
    if "from" not in request.GET:
        return None
    older = find_version(skill, request.GET["from"])
    newer = find_version(skill, request.GET.get("to", "draft"))
    changes = compare_files(older.whole()["files"], newer.whole()["files"])
    rows = side_by_side(older.text, newer.text)
    return {"older": older, "newer": newer, "rows": rows, "files": changes}


def compare_files(older: dict[str, Any], newer: dict[str, Any]) -> list[tuple[str, str]]:
    """(path, “removed”, “changed” or “added”) of each file that is not the same in both."""
    changes = []
    for path in sorted(older.keys() | newer.keys()):
        if path not in newer:
            changes.append((path, "removed"))
        elif path not in older:
            changes.append((path, "added"))
        elif older[path] != newer[path]:
            changes.append((path, "changed"))
    return changes


def find_version(skill: Skill, number: str) -> Skill | SkillVersion:
    if number == "draft":
        return skill
    row = skill.versions.filter(number=parse_small_number(number)).first()
    if row is None:
        raise Http404("The skill has no such version.")
    return row


# -- what is done with it ----------------------------------------------------------------------------------------------


@require_POST
@require_login(writes=WRITES)
def handle_skill_action(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Replace by an import, publish, roll back, share, make a function of a script, delete."""
    skill = load_shown_skill(request, name)
    if verb not in ("import", "publish", *VERBS):
        raise Http404("There is no such action.")
    try:
        if verb == "import":
            message = replace_by_import(request, skill)
        elif verb == "publish":
            message = publish_shown_skill(request, skill)
        else:
            with transaction.atomic():
                message = VERBS[verb](request, skill)
    except MusterError as error:
        add_refusal_message(request, error)
        return redirect(owner_urls.address("page:skill", skill))
    messages.success(request, message)
    if verb == "delete":
        return redirect("page:skills")
    return redirect(owner_urls.address("page:skill", skill))


def lock_unchanged(request: HttpRequest, skill: Skill) -> Skill:
    """The locked row, if it is what the person has seen. Raises Conflict."""
    skill.require_edit(request.user)
    locked = Skill.objects.select_for_update().get(pk=skill.pk)
    if request.POST.get("seen") != locked.updated_at.isoformat():
        raise Conflict(
            _("The skill was changed in the meantime."), code="changed", hint=_("Read it again, then repeat this.")
        )
    return locked


def replace_by_import(request: HttpRequest, skill: Skill) -> str:
    skill.require_edit(request.user)
    # Before the transaction: the bytes of the files are stored.
    sent = read_form(request, skill)
    with transaction.atomic():
        store.save_skill(lock_unchanged(request, skill), **sent)
    return _("The draft is replaced by what you imported.")


def publish_shown_skill(request: HttpRequest, skill: Skill) -> str:
    """Publish the locked row: a review is a statement about exactly what the person has seen.

    Its text is read before the transaction, as that takes long.
    """
    skill.require_edit(request.user)
    read = document.parse_skill_document(skill.text)
    note = request.POST.get("note", "")[:500]
    is_reviewed = request.POST.get("reviewed") == "yes"
    with transaction.atomic():
        locked = lock_unchanged(request, skill)
        version = store.publish_skill(locked, note=note, reviewed=is_reviewed, read=read, **audit_source(request))
    return _("Version %(number)s is published.") % {"number": version.number}


def roll_back_shown_skill(request: HttpRequest, skill: Skill) -> str:
    number = parse_small_number(request.POST.get("version", ""))
    version = store.roll_back_skill(skill, number, **audit_source(request))
    return _("Version %(number)s is live again.") % {"number": version.number}


def share_shown_skill(request: HttpRequest, skill: Skill) -> str:
    """Share the skill with a team, or with nobody. A team that the person is not in is unknown to them."""
    name = request.POST.get("team", "")
    if not name:
        store.share_skill(skill, None, **audit_source(request))
        return _("Nobody else sees it now.")
    team = Team.objects.filter(name=name, memberships__user_id=request.user.pk).first()
    if team is None:
        raise Invalid(_("You are in no such team."), code="unknown_team")
    store.share_skill(skill, team, **audit_source(request))
    return _("Shared with %(team)s.") % {"team": team}


def make_function(request: HttpRequest, skill: Skill) -> str:
    skill.require_use(request.user)
    path = request.POST.get("path", "")
    function = create_script_draft(skill, path, name="", **audit_source(request))
    return _("The function “%(name)s” is a draft. Read it, then publish it under Functions.") % {"name": function}


def delete_shown_skill(request: HttpRequest, skill: Skill) -> str:
    store.delete_skill(skill, **audit_source(request))
    return _("The skill “%(name)s” is deleted.") % {"name": skill}


def audit_source(request: HttpRequest) -> dict[str, Any]:
    return {"user": request.user, "source": request.META.get("REMOTE_ADDR", "")}


VERBS: dict[str, Callable[[HttpRequest, Skill], str]] = {
    "rollback": roll_back_shown_skill,
    "share": share_shown_skill,
    "function": make_function,
    "delete": delete_shown_skill,
}

"""The life cycle of a skill: stored, published, rolled back, deleted; and its entry in the catalogue of tools."""

from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from agents import storage
from agents.exceptions import Conflict, Invalid
from agents.models import Agent, AuditEvent, Chain, StoredFile, Team, Tool, ToolGrant
from agents.models.agent import tool_changed
from agents.models.version import find_earlier_version, next_number
from agents.schema import hash_json
from agents.sharing import carry, check_share, remove_unshared_uses
from agents.tools import ToolSpec
from knowledge.models import Skill, SkillVersion
from knowledge.models.skill import check_skill_name

from . import document, files

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 240, "description": "One of its files; default: SKILL.md."},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to go on in a long file."},
    },
    "additionalProperties": False,
}
UNREVIEWED = "It was imported and has not been reviewed by a person; read it to learn what it is for."


def save_skill(
    skill: Skill,
    text: str,
    contents: dict[str, bytes] | None,
    *,
    user: Any,
    untrusted: bool,
    source: str = "",
    folder: str = "",
    archive: StoredFile | None = None,
    read: document.Document | None = None,
) -> Skill:
    """Store the working row with this SKILL.md. `contents` are its other files; None: they stay as they are.

    An edit does not remove the mark `untrusted`. `archive`: of these contents (`files.store_archive`); without it their
    bytes are stored first. `read`: the text, as `document.parse_skill_document` reads it; without it that is done
    first. Both take long, so callers in a transaction give them. Raises Invalid, Conflict, TooLarge.
    """
    if read is None:
        read = document.parse_skill_document(text, folder)
    listed = skill.files
    if contents is not None:
        listed = files.describe_skill_files(contents)
    if archive is None:
        archive = store_changed(skill, text, contents, untrusted=untrusted, folder=folder)
    with transaction.atomic():
        return save_listed(skill, text, read, listed, archive, user=user, untrusted=untrusted, source=source)


def store_changed(
    skill: Skill, text: str, contents: dict[str, bytes] | None, *, untrusted: bool, folder: str = ""
) -> StoredFile | None:
    """The stored archive of files that the working row does not have; None if nothing changes. Must not be called in a
    transaction. Raises Invalid, Conflict, TooLarge.
    """
    if contents is None or files.describe_skill_files(contents) == skill.files:
        return None
    name = skill.name
    if not name:
        name = document.parse_skill_document(text, folder).name
    return files.store_archive(skill.owner, name, contents, untrusted=untrusted)


def save_listed(
    skill: Skill,
    text: str,
    read: document.Document,
    listed: list[dict[str, Any]],
    archive: StoredFile | None,
    *,
    user: Any,
    untrusted: bool,
    source: str,
) -> Skill:
    """Must be called in a transaction."""
    is_new = skill.pk is None
    if not is_new:
        skill.require_edit(user)
    require_same_name(skill, read.name)
    require_free_name(skill)
    skill.text = text
    skill.description = read.description
    skill.untrusted = untrusted or (skill.untrusted and not is_new)
    if listed != skill.files:
        if archive is not None:
            storage.insert_file_row(archive)
        skill.bundle = archive
        skill.files = listed
    try:
        # A transaction of its own: the one around it can go on after the error.
        with transaction.atomic():
            skill.save()
    except IntegrityError:
        raise Conflict(
            _("A skill named “%(skill)s” already exists.") % {"skill": skill.name},
            code="name_taken",
            hint=_("Choose another name."),
        )
    verb = "created" if is_new else "changed"
    record_skill_event(verb, skill, user, source, untrusted=skill.untrusted)
    return skill


def require_same_name(skill: Skill, name: str) -> None:
    """The name of a new skill is that of its SKILL.md. Raises Invalid."""
    if not skill.name:
        try:
            check_skill_name(name)
        except ValidationError as error:
            raise Invalid(f"“{name}”: {error.messages[0]}", code="invalid_skill")
        skill.name = name
    if skill.name != name:
        raise Invalid(
            _("SKILL.md names the skill “%(name)s”, and this is “%(skill)s”.") % {"name": name, "skill": skill.name},
            code="other_name",
            hint=_("Import it as a new skill, or correct the name in SKILL.md."),
        )


def require_free_name(skill: Skill) -> None:
    """Raises Conflict if a tool of another kind has the name, as publishing would then fail."""
    own_tool = find_skill_tool(skill.pk)
    others = Tool.objects.filter(name=skill.name)
    if own_tool is not None:
        others = others.exclude(pk=own_tool.pk)
    same_place = others.filter(owner=skill.owner)
    if skill.team_id:
        same_place = same_place | others.filter(team=skill.team)
    if namesake := same_place.first():
        raise Conflict(
            _("A %(kind)s tool named “%(skill)s” already exists.") % {"kind": namesake.kind, "skill": skill.name},
            code="name_taken",
            hint=_("Choose another name for the skill."),
        )


def publish_skill(
    skill: Skill,
    *,
    user: Any,
    note: str = "",
    reviewed: bool = False,
    source: str = "",
    read: document.Document | None = None,
) -> SkillVersion:
    """An immutable version of the working row, made live. Equal content is the same version again.

    `reviewed`: a person has read an imported skill; only this removes the mark `untrusted`. `read`: the text of the
    row, as `document.parse_skill_document` reads it; that takes long, so callers in a transaction give it. Raises
    Invalid, Conflict.
    """
    skill.require_edit(user)
    if read is None:
        read = document.parse_skill_document(skill.text)
    with transaction.atomic():
        locked = Skill.objects.select_for_update().get(pk=skill.pk)
        if locked.text != skill.text:
            # Somebody has changed it meanwhile.
            read = document.parse_skill_document(locked.text)
        if reviewed and locked.untrusted:
            locked.untrusted = False
            record_skill_event("reviewed", locked, user, source)
        version = find_or_create_version(locked, read.front, note, user)
        save_live_version(locked, version)
        skill.refresh_from_db()
        record_skill_event("published", skill, user, source, version=version.number, sha256=version.sha256)
    return version


def find_or_create_version(locked: Skill, front: dict[str, Any], note: str, user: Any) -> SkillVersion:
    """The version with the content of the working row, whose front matter is `front`."""
    digest = hash_json(locked.whole())
    version = locked.versions.filter(sha256=digest).first()
    if version is not None:
        return version
    return SkillVersion.objects.create(
        skill=locked,
        number=next_number(locked.versions),
        sha256=digest,
        text=locked.text,
        files=locked.files,
        untrusted=locked.untrusted,
        front=front,
        bundle_id=locked.bundle_id,
        note=note,
        author=get_actor(user),
    )


@transaction.atomic
def roll_back_skill(skill: Skill, number: int, *, user: Any, source: str = "") -> SkillVersion:
    """An earlier version is live again; the working row does not change. Raises Invalid."""
    skill.require_edit(user)
    version = find_earlier_version(skill, number)
    save_live_version(skill, version)
    record_skill_event("rolled_back", skill, user, source, version=number, sha256=version.sha256)
    return version


def save_live_version(skill: Skill, version: SkillVersion) -> None:
    save_skill_tool(skill, version)
    skill.published = version
    rows = Skill.objects.filter(pk=skill.pk)
    rows.update(published=version, untrusted=skill.untrusted, updated_at=timezone.now())


@transaction.atomic
def share_skill(skill: Skill, team: Team | None, *, user: Any, source: str = "") -> None:
    """Share it with a team, or with nobody (None). Raises Forbidden, Conflict."""
    skill.require_edit(user)
    check_share(skill, user, team, skill.name)
    skill.team = team
    skill.save(update_fields=["team", "updated_at"])
    carry(skill)
    record_skill_event("changed", skill, user, source, fields=["team"])


@transaction.atomic
def delete_skill(skill: Skill, *, user: Any, source: str = "") -> None:
    """Delete a skill with its versions and files. Raises Conflict while agents or chains use it."""
    skill.require_edit(user)
    remove_unshared_uses(skill)
    if users := find_skill_uses(skill, user):
        names = sorted({one["name"] for one in users if one["name"]})
        hint = f"Used by: {', '.join(names[:5]) or 'rows that you cannot see'}."
        raise Conflict(_("This skill is in use."), code="in_use", hint=hint)
    bundles = set(skill.versions.values_list("bundle_id", flat=True))
    bundles.add(skill.bundle_id)
    bundles.discard(None)
    if tool := find_skill_tool(skill.pk):
        tool.delete()
    record_skill_event("deleted", skill, user, source)
    skill.delete()
    storage.delete_files(StoredFile.objects.filter(pk__in=bundles).unreferenced())


def record_skill_event(verb: str, skill: Skill, user: Any, source: str, **details: Any) -> None:
    AuditEvent.record(f"skill.{verb}", skill, actor=get_actor(user), source=source, **details)


def get_actor(user: Any) -> Any:
    """None if nobody is signed in, as when a command works for the site."""
    is_person = bool(getattr(user, "pk", None))
    return user if is_person else None


# -- the catalogue -----------------------------------------------------------------------------------------------------


def find_skill_tool(skill_id: int | None) -> Tool | None:
    if not skill_id:
        return None
    tools = Tool.objects.filter(kind=Tool.Kind.SKILL, source__skill=skill_id)
    return tools.first()


def save_skill_tool(skill: Skill, version: SkillVersion) -> Tool:
    """The tool with the skill's name, through which it is granted."""
    require_free_name(skill)
    tool = find_skill_tool(skill.pk) or Tool(kind=Tool.Kind.SKILL)
    tool.name = skill.name
    tool.owner = skill.owner
    tool.team = skill.team
    tool.effect = Tool.Effect.READ
    tool.input_schema = SCHEMA
    tool.description = get_prompt_description(version)
    tool.untrusted = version.untrusted
    tool.source = {"skill": skill.pk, "version": version.number, "id": version.pk, "sha256": version.sha256}
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    return tool


def get_prompt_description(version: SkillVersion) -> str:
    """The description in prompts: text of strangers is not put there."""
    if version.untrusted:
        return UNREVIEWED
    return version.front["description"]


def as_pinned(tool: ToolSpec, number: int) -> ToolSpec:
    """The tool as it describes this version of its skill."""
    version = SkillVersion.objects.filter(skill=tool.source.get("skill"), number=number).first()
    if version is None:
        # A call of it is refused, as the version is nowhere to be found.
        return replace(tool, pinned_version=number, source={**tool.source, "id": None})
    source = {**tool.source, "version": number, "id": version.pk, "sha256": version.sha256}
    description = get_prompt_description(version)
    return replace(tool, pinned_version=number, source=source, description=description, untrusted=version.untrusted)


def find_skill_uses(skill: Skill, user: Any) -> list[dict[str, Any]]:
    """The agents and chains with a grant: [{kind, name, mode, version}]; empty names for those this user cannot see."""
    rows = ToolGrant.objects.filter(tool__kind=Tool.Kind.SKILL, tool__source__skill=skill.pk)
    grants = list(rows.select_related("agent", "chain"))
    agents = load_visible_names(Agent, {grant.agent_id for grant in grants}, user)
    chains = load_visible_names(Chain, {grant.chain_id for grant in grants}, user)
    uses = []
    for grant in grants:
        if grant.agent_id:
            kind = "agent"
            name = agents.get(grant.agent_id, "")
        else:
            kind = "chain"
            name = chains.get(grant.chain_id, "")
        uses.append({"kind": kind, "mode": grant.mode, "version": grant.pinned_version, "name": name})
    return uses


def load_visible_names(model: Any, keys: set[Any], user: Any) -> dict[int, str]:
    """The names of those of these rows that this user can see. One statement, or none."""
    ids = keys - {None}
    if not ids:
        return {}
    rows = model.objects.visible_to(user).filter(pk__in=ids)
    return dict(rows.values_list("pk", "name"))

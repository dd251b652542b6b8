"""The four roles as Django groups of model permissions."""

from django.contrib.auth.models import Group, Permission

AUTHORED = ("agent", "storedfunction", "functiontest", "chain", "chainstep", "tool", "toolgrant", "secret", "provider")
OPERATED = ("run", "session", "approval", "schedule", "trigger", "device", "connection", "budget", "apikey")


SITE = ("auth", "admin", "contenttypes", "sessions")  # superusers alone


def make_roles() -> None:
    """Viewers read, operators keep things running, authors create, administrators do everything.
    Safe to run again.
    """
    everything = [one for one in Permission.objects.select_related("content_type") if not is_way_up(one)]
    sees = [permission for permission in everything if permission.codename.startswith("view_")]
    operates = [permission for permission in everything if permission.content_type.model in OPERATED]
    makes = [
        permission for permission in everything if permission.content_type.model in AUTHORED and is_plain(permission)
    ]
    for name, permissions in (
        ("viewer", sees),
        ("operator", sees + operates),
        ("author", sees + operates + makes),
        ("administrator", everything),
    ):
        group, _ = Group.objects.get_or_create(name=name)
        held = set(group.permissions.all())
        group.permissions.add(*(set(permissions) - held))
        group.permissions.remove(*filter(is_way_up, held))


def is_plain(permission: Permission) -> bool:
    """Add, change, delete, view; special permissions (raising limits, unsafe code) are given by an
    administrator.
    """
    return permission.codename.split("_")[0] in ("add", "change", "delete", "view")


def is_way_up(permission: Permission) -> bool:
    """Changing people or permissions, or having Celery run any task, would make a role a superuser."""
    kind = permission.content_type
    return kind.app_label in SITE or kind.model.startswith("periodictask")

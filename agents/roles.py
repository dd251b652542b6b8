"""The four roles as Django groups of model permissions."""

from django.contrib.auth.models import Group, Permission

AUTHORED = ("agent", "storedfunction", "functiontest", "chain", "chainstep", "tool", "toolgrant", "secret", "provider")
OPERATED = ("run", "session", "approval", "schedule", "trigger", "device", "connection", "budget", "apikey")


def make_roles() -> None:
    """Viewers read, operators keep things running, authors create, administrators do everything.
    Safe to run again.
    """
    everything = list(Permission.objects.select_related("content_type"))
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
        missing = set(permissions) - set(group.permissions.all())
        group.permissions.add(*missing)


def is_plain(permission: Permission) -> bool:
    """Add, change, delete, view; special permissions (raising limits, unsafe code) are given by an
    administrator.
    """
    return permission.codename.split("_")[0] in ("add", "change", "delete", "view")

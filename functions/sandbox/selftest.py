"""Checks whether this machine's sandbox is secure: real attacks in real children, and the
consequence of each missing layer.

report = selftest.run()          # about a second; stored until the next boot
report.isolation                 # full | reduced | none
report.problems                  # sentences, empty if there are none
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .attacks import ATTACKS, Attack, build_attack_source
from .inside.calls import AUDIT_ARCH, NUMBERS
from .inside.confine import CORE, STRONG
from .limits import POLICY_VERSION, Limits
from .pool import Pool

_HINTS = {
    "user_ns": "Allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), or in a container allow unshare().",
    "uid": "Root could not become the user nobody: start as a user other than root, or allow setuid() and setgroups() "
    "(in a user namespace, map more than one user id).",
    "net_ns": "Allow network namespaces: they come with user namespaces.",
    "pid_ns": "Allow pid namespaces: they come with user namespaces.",
    "ipc_ns": "Allow IPC namespaces: they come with user namespaces.",
    "uts_ns": "Allow UTS namespaces: they come with user namespaces.",
    "root": "Allow mount namespaces and pivot_root: they come with user namespaces.",
    "landlock": "Use Linux 5.13 or newer with landlock in the list of active security modules (lsm=…,landlock).",
    "capabilities": "The capability sets could not be emptied. Check the container's security settings.",
    "seccomp": "The kernel needs CONFIG_SECCOMP_FILTER, and a container runtime must not forbid seccomp().",
    "no_new_privs": "prctl(PR_SET_NO_NEW_PRIVS) was refused. Use Linux 3.5 or newer.",
    "rlimits": "setrlimit() was refused.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding for one layer or one attack: whether it is secure, the reason if not, and a fix."""

    # Either layer or attack.
    kind: str
    name: str
    ok: bool
    is_core: bool
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The isolation this machine offers. Nothing runs with isolation `none`."""

    isolation: str
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    machine: str

    @property
    def ok(self) -> bool:
        """Whether functions can run on this machine."""
        return self.isolation != "none"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


_remembered: Report | None = None


def run_selftest(*, fresh: bool = False) -> Report:
    """The report of this boot, created now if there is none yet (or if `fresh`)."""
    global _remembered
    if _remembered is None or fresh:
        _remembered = (None if fresh else read_cached_report()) or _remember(_examine())
    return _remembered


def read_cached_report() -> Report | None:
    """The report stored by an earlier process of this boot and this user, if any. Costs one file
    read.
    """
    try:
        path = _cache_path()
        if path.stat().st_uid != os.getuid() or path.is_symlink():
            return None
        report = json.loads(path.read_text())
        findings = tuple(Finding(**row) for row in report["findings"])
        return Report(report["isolation"], findings, tuple(report["problems"]), report["machine"])
    except (OSError, ValueError, TypeError, LookupError):
        return None


def glance() -> Report:
    """Whether this machine could be secure at all, without starting a process."""
    machine = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    if sys.platform == "linux" and platform.machine() in AUDIT_ARCH:
        return Report("full", (), (), machine)
    reason = "the sandbox needs Linux on x86-64 or aarch64"
    finding = Finding("layer", "process", False, True, reason)
    return Report("none", (finding,), (f"{reason}; this is {machine}.",), machine)


def _examine() -> Report:
    first = glance()
    if not first.ok:
        return first
    pool = Pool(spares=2, at_once=4)
    try:
        outcome = pool.execute("def main():\n    return 1\n")
        if not outcome.ok and outcome.isolation == "none" and outcome.layers:
            return _judged(tuple(_layers(outcome.layers)), "none", first.machine)
        if not outcome.ok:
            why = outcome.error.message if outcome.error else outcome.status
            return Report("none", (), (why,), first.machine)
        findings = (*_layers(outcome.layers), *(_attempt(pool, attack) for attack in ATTACKS))
    finally:
        pool.close()
    return _judged(findings, outcome.isolation, first.machine)


def _layers(present: tuple[str, ...]) -> list[Finding]:
    findings = []
    for name in sorted(CORE | STRONG):
        is_core = name in CORE
        if name in present:
            findings.append(Finding("layer", name, True, is_core, "", ""))
        else:
            hint = _HINTS.get(name, "")
            findings.append(Finding("layer", name, False, is_core, "not available on this machine", hint))
    return findings


def _attempt(pool: Pool, attack: Attack) -> Finding:
    source = build_attack_source(attack, NUMBERS[platform.machine()])
    limits = Limits(timeout_s=attack.timeout_s, memory_mb=64, output_kb=64)
    outcome = pool.execute(source, safe_mode=False, limits=limits)
    if outcome.status in attack.statuses:
        return Finding("attack", attack.name, True, True, f"stopped: {outcome.status}")
    if outcome.ok:
        return Finding("attack", attack.name, False, True, "it succeeded", attack.hint)
    expected = " or ".join(sorted(attack.statuses))
    reason = f"inconclusive: ended as {outcome.status!r}, expected {expected}"
    hint = "Run `manage.py doctor` again when the machine is idle."
    return Finding("attack", attack.name, False, False, reason, hint)


def _judged(findings: tuple[Finding, ...], isolation: str, machine: str) -> Report:
    problems = []
    for finding in findings:
        if finding.ok:
            continue
        if finding.name == "user_ns" and isolation == "full":
            # Root can drop its user id without a user namespace.
            continue
        word = "The layer"
        if finding.kind == "attack":
            word = "The attack"
        problems.append(f"{word} {finding.name!r}: {finding.reason}. {finding.hint}".strip())
    if any(not finding.ok and finding.is_core for finding in findings):
        isolation = "none"
    return Report(isolation, findings, tuple(problems), machine)


def _remember(report: Report) -> Report:
    if not report.ok or any(finding.reason.startswith("inconclusive") for finding in report.findings):
        # Not stored for the whole boot: the cause may be fixed or temporary.
        return report
    path = _cache_path()
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w") as file:
            json.dump(report.as_dict(), file)
        Path(name).replace(path)
    except OSError:
        # Without the file, each process runs the self-test itself.
        pass
    return report


def _cache_path() -> Path:
    """One file per boot, user namespace, user, interpreter and state of this package."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Root in a container is a different root.
    namespace = str(os.stat("/proc/self/ns/user").st_ino)
    parts = [boot, namespace, str(os.getuid()), sys.executable, platform.python_version(), str(POLICY_VERSION)]
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        parts.append(f"{path.name}:{path.stat().st_mtime_ns}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"muster-sandbox-{digest}.json"

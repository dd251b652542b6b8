"""The files in deploy/: units, compose file, chart and proxies say what the code understands."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.reference import settings as documented_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
CHART = DEPLOY / "helm" / "muster"
KNOWN = {name for name, *_ in documented_settings()}
OTHERS = {"PYTHONUNBUFFERED", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}  # of the images


def rendered(name, values, release="site"):
    """A template of the chart. It uses values, `quote` and `if` only, and this knows no more."""

    def look_up(path):
        at = {"Values": values, "Release": {"Name": release}}
        for step in path.strip(".").split("."):
            at = at[step]
        return at

    def fill(match):
        path, _, filter_ = match.group(1).partition(" | ")
        value = look_up(path.strip())
        return f'"{value}"' if filter_ == "quote" else str(value)

    text = (CHART / "templates" / name).read_text()
    block = r"^\{\{- if (\S+) \}\}\n(.*?)^\{\{- end \}\}\n"
    text = re.sub(block, lambda found: found.group(2) if look_up(found.group(1)) else "", text, flags=re.S | re.M)
    return list(yaml.safe_load_all(re.sub(r"\{\{ ([^}]+?) \}\}", fill, text)))


@pytest.fixture(scope="module")
def values():
    return yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def objects(values):
    found = [one for path in sorted((CHART / "templates").iterdir()) for one in rendered(path.name, values)]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_units(unit, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = unit.read_text().replace("/opt/muster/.venv/bin/python", "/bin/true").replace("%i", "8001")
    named = unit.name.replace("@", "-8001")  # a template cannot be verified without an instance
    for other in UNITS:
        (tmp_path / other.name).write_text(other.read_text().replace("/opt/muster/.venv/bin/python", "/bin/true"))
    (tmp_path / named).write_text(text.replace("User=muster", "User=root").replace("Group=muster", "Group=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / named)], capture_output=True, text=True
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "muster" in line]
    assert done.returncode == 0 and ours == [], done.stderr


def test_units_name_only_files_and_options_that_exist():
    for unit in UNITS:
        for path in re.findall(r"/opt/muster/(docs/\S+)", unit.read_text()):
            assert (ROOT / path).exists()
    started = re.findall(r"^ExecStart=\S+ manage.py (\w+)", "\n".join(unit.read_text() for unit in UNITS), re.M)
    assert sorted(started) == ["backup", "serve", "serve"]


def test_the_settings_file_has_only_settings_that_exist():
    lines = [line for line in (DEPLOY / "muster.env").read_text().splitlines() if line and not line.startswith("#")]
    assert {line.partition("=")[0] for line in lines} <= KNOWN


def test_the_compose_file_is_whole():
    compose = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    services, volumes = compose["services"], compose["volumes"]
    assert {"web", "worker", "postgres", "valkey", "prepare", "caddy"} == set(services)
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert set(service.get("environment", {})) <= KNOWN | OTHERS, name
        mounted = [volume.split(":")[0] for volume in service.get("volumes", [])]
        assert all(volume in volumes or volume.startswith("./") for volume in mounted), name
        assert all((DEPLOY / "container" / one).exists() for one in mounted if one.startswith("./")), name
    for name in ("web", "worker"):
        assert services[name]["depends_on"] == {"prepare": {"condition": "service_completed_successfully"}}
        assert services[name]["deploy"]["replicas"] == 2


def test_the_image_copies_what_is_there():
    lines = (DEPLOY / "container" / "Containerfile").read_text().splitlines()
    assert all((ROOT / line.split()[1]).exists() for line in lines if line.startswith("COPY"))
    assert {name for line in lines if line.startswith("ENV") for name in re.findall(r"(\w+)=", line)} <= KNOWN | OTHERS


def test_the_chart_gives_web_servers_workers_and_a_migration(objects):
    assert {("Deployment", "site-web"), ("Deployment", "site-worker"), ("Job", "site-prepare"),
            ("Service", "site-web"), ("Ingress", "site"), ("ConfigMap", "site-settings")} <= set(objects)  # fmt: skip
    assert set(objects["ConfigMap", "site-settings"]["data"]) <= KNOWN
    claims = {name for kind, name in objects if kind == "PersistentVolumeClaim"}
    for name in ("site-web", "site-worker"):
        deployment = objects["Deployment", name]["spec"]
        spec = deployment["template"]["spec"]
        (container,) = spec["containers"]
        assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"]
        assert spec["terminationGracePeriodSeconds"] > 60  # MUSTER_DRAIN
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
        assert {one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"] if len(one) and
                "persistentVolumeClaim" in one} <= claims  # fmt: skip
        assert container["args"][:2] == ["serve", "--only"]


def test_the_chart_without_an_ingress(values):
    assert rendered("ingress.yaml", values | {"ingress": {"enabled": False}}) in ([], [None])


def test_helm_accepts_the_chart():
    if not (helm := shutil.which("helm")):
        pytest.skip("helm is not installed; the test above renders the chart by itself")
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

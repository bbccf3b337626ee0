"""docker-compose.yml and the image, by their schema and, where Docker is, by Docker itself."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mhb_site.env import ROOT, Env

pytestmark = pytest.mark.plain
COMPOSE = ROOT / "docker-compose.yml"
REQUIRED = {"POSTGRES_PASSWORD": "a/b#c?d", "MHB_SECRET_KEY": "k" * 40, "MHB_HTTPS": "true"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def test_compose_follows_its_schema() -> None:
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    result = subprocess.run([*command, str(COMPOSE)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_docker_reads_the_compose_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("Docker Compose is not installed")
    command = [docker, "compose", "-f", str(COMPOSE), "--profile", "simulated", "config", "--quiet"]
    result = subprocess.run(command, env=REQUIRED, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_image_is_built() -> None:
    for name in ("podman", "docker", "buildah"):
        builder = shutil.which(name)
        if builder and subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0:
            result = subprocess.run(
                [builder, "build", "--tag", "mhb-test", str(ROOT)], capture_output=True, check=False
            )
            assert result.returncode == 0, result.stderr[-3000:]
            return
    pytest.skip("no builder of images is running (podman, docker or buildah)")


def test_compose_passes_every_setting(compose: dict[str, Any]) -> None:
    ours = {"static_root", "port", "debug"}  # of the image, of the proxy, never in production
    environment = compose["services"]["worker"]["environment"]
    assert not {name for name in Env.model_fields if f"MHB_{name.upper()}" not in environment} - ours


def test_every_service_is_limited_and_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["mem_limit"], name
        assert service["logging"]["options"]["max-size"], name
        assert "healthcheck" in service or name == "migrate", name


def test_keys_reach_only_what_asks_models(compose: dict[str, Any]) -> None:
    assert {name for name, service in compose["services"].items() if "env_file" in service} == {
        "web",
        "worker",
        "tasks",
    }

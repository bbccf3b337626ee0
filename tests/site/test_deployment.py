"""Files for operators: Compose, Kubernetes, a proxy with TLS; by schema, and run where possible."""

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.management import get_commands

from bench import servers
from mhb_site.celery import app
from mhb_site.env import ROOT, Env
from mhb_site.server import children
from tests.profile import installed

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


def is_run_by_the_image(command: str) -> bool:
    """Whether the image has this program, and the site this command or queue."""
    program, *words = shlex.split(command, comments=True)
    if program == "python":
        return words[0] == "manage.py" and words[1] in get_commands()
    if program == "celery":
        return words[words.index("-Q") + 1] in {queue.name for queue in app.conf.task_queues}
    return program == "gunicorn" and (ROOT / "gunicorn.conf.py").is_file()


def test_what_the_compose_file_names_exists(compose: dict[str, Any]) -> None:
    known = {f"MHB_{name.upper()}" for name in Env.model_fields}
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", ())) <= compose["services"].keys(), name
        if "build" in service:
            assert {variable for variable in service["environment"] if variable.startswith("MHB_")} <= known, name
            assert is_run_by_the_image(service["command"]), name
        for volume in service.get("volumes", ()):
            kept = volume.removeprefix("${MHB_CONFIG:-").partition(":")[0].removesuffix("}")
            assert kept in (*compose["volumes"], "./config") or (ROOT / kept).is_file(), f"{name}: {kept}"


def test_every_variable_of_the_compose_file_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text() + (ROOT / "docs" / "environment.md").read_text()
    variables = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert len(variables) > 8
    assert not {name for name in variables if f"`{name}" not in manual}


def test_the_dockerfile_copies_and_runs_what_exists() -> None:
    written = (ROOT / "Dockerfile").read_text()
    [copied] = re.findall(r"^COPY (.*) \./$", written, re.MULTILINE)
    for path in copied.split():
        assert in_build_context(path), path
        assert (ROOT / path).is_file(), path
    [command] = re.findall(r"^CMD (.*)", written, re.MULTILINE)
    assert is_run_by_the_image(shlex.join(json.loads(command)))


def test_the_documented_commands_of_docker_name_what_exists(compose: dict[str, Any]) -> None:
    manual = (ROOT / "docs" / "operations.md").read_text().replace("\\\n", " ")
    commands = re.findall(r"^ {4}docker compose (\w+)(.*)", manual, re.MULTILINE)
    assert {action for action, _rest in commands} == {"up", "run", "exec"}
    for action, rest in commands:
        words, _, inside = rest.partition(" python ")
        named = [word for word in words.split() if word in compose["services"]]
        if action == "up":
            assert [word for word in words.split() if not word.startswith("-")] == named, rest
        else:
            assert named == ["web"], rest
            assert is_run_by_the_image(f"python {inside}"), rest
    [user] = re.findall(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert f"user {user}" in manual
    assert f"`chown {user} " in manual


def test_every_service_is_limited_and_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["mem_limit"], name
        assert service["logging"]["options"]["max-size"], name
        assert "healthcheck" in service or name == "migrate", name


def test_keys_reach_only_workers(compose: dict[str, Any]) -> None:
    assert {name for name, service in compose["services"].items() if "env_file" in service} == {"worker", "tasks"}


# ---------------------------------------------------------------------------- without containers


def test_units_are_understood_and_hardened(tmp_path: Path) -> None:
    with installed():
        analyze = shutil.which("systemd-analyze")
        if analyze is None:
            raise servers.Missing("systemd is not installed")
    units = ROOT / "deploy" / "systemd"
    shutil.copy(units / "mhb.target", tmp_path)
    service = (units / "mhb@.service").read_text()
    assert "/srv/mhb/site/deploy/systemd/run" in service
    service = service.replace("/srv/mhb/site/deploy/systemd/run", "/bin/true")  # the site is not installed here
    for process in ("web", "lanes", "tasks", "sweeper"):
        (tmp_path / f"mhb@{process}.service").write_text(service.replace("%i", process))
    command = [analyze, "verify", "--man=no", "--recursive-errors=no", *map(str, sorted(tmp_path.iterdir()))]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not [line for line in result.stderr.splitlines() if str(tmp_path) in line or "mhb" in line], result.stderr


@pytest.mark.parametrize("process", ["web", "lanes", "tasks", "sweeper", "other"])
def test_a_unit_runs_the_documented_command(tmp_path: Path, process: str) -> None:
    """In a fresh folder, with programs that print how they are called."""
    run = tmp_path / "deploy" / "systemd" / "run"
    run.parent.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "systemd" / "run", run)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("gunicorn", "celery", "python"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (programs / name).chmod(0o755)
    result = subprocess.run([str(run), process], cwd="/", capture_output=True, text=True, check=False)
    if process == "other":
        assert result.returncode == 2
        return
    documented = (ROOT / "docs" / "operations.md").read_text()
    called = result.stdout.strip().replace("python manage.py", "manage.py").partition(" --bind")[0]
    assert f"`{called.replace(' --loglevel WARNING', '')}`" in documented


def test_nginx_understands_the_configuration_with_tls(tmp_path: Path) -> None:
    with installed():
        program = servers.nginx()
    write_certificate(tmp_path)
    site = (ROOT / "deploy" / "nginx" / "mhb.conf").read_text().replace("/etc/ssl/mhb", str(tmp_path))
    main = f"pid {tmp_path}/pid; error_log {tmp_path}/errors; events {{}}"
    (tmp_path / "nginx.conf").write_text(f"{main} http {{ access_log off; {site} }}")
    command = [program, "-t", "-c", str(tmp_path / "nginx.conf"), "-e", f"{tmp_path}/errors"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_both_configurations_of_nginx_treat_bodies_alike() -> None:
    plain = (ROOT / "mhb_site" / "server" / "nginx.conf").read_text()
    with_tls = (ROOT / "deploy" / "nginx" / "mhb.conf").read_text()
    plain = plain.replace("http://web:8000", "http://127.0.0.1:8000")
    plain = plain.replace("$proxy_add_x_forwarded_for", "$remote_addr").replace("$mhb_scheme", "https")
    assert plain[plain.index("# Whether a request to") : plain.index("server {")] in with_tls
    assert plain[plain.index("    # The site is asked before") :] in with_tls


# ------------------------------------------------------------------------------------ monitoring

MONITORING = ROOT / "deploy" / "monitoring"


def test_every_alert_leads_to_a_paragraph_of_the_manual() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text()
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len(rules) == 14
    for rule in rules:
        assert f"### {rule['alert']}\n" in manual
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"


def test_alerts_and_dashboard_ask_for_metrics_that_exist() -> None:
    code = "".join(path.read_text() for path in (ROOT / "mhb_site" / "observability").glob("*.py"))
    asked = (MONITORING / "alerts.yml").read_text() + (MONITORING / "dashboard.json").read_text()
    for name in set(re.findall(r"mhb_[a-z_]+", asked)):
        assert f'"{re.sub("_(total|count|bucket)$", "", name)}"' in code, name


def test_every_alert_is_fired_by_a_series() -> None:
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    fired = set()
    for test in yaml.safe_load((MONITORING / "alerts_test.yml").read_text())["tests"]:
        for moment in test["alert_rule_test"]:
            if moment.get("exp_alerts"):
                fired.add(moment["alertname"])
    assert fired == {rule["alert"] for rule in rules}


def test_alerts_fire_within_five_minutes() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    command = [promtool, "test", "rules", str(MONITORING / "alerts_test.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


# ------------------------------------------------------------------------------------ Kubernetes


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load((ROOT / "deploy" / "kubernetes.yaml").read_text())["items"])


def test_kubernetes_objects_follow_their_schema(objects: list[dict[str, Any]]) -> None:
    for each in objects:
        kubernetes_validate.validate(each, "1.31", strict=True)


def test_kubernetes_runs_what_compose_runs(objects: list[dict[str, Any]], compose: dict[str, Any]) -> None:
    containers = {
        container["name"]: container
        for each in objects
        if "template" in each.get("spec", {})
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    for name in ("migrate", "web", "worker", "tasks", "sweeper"):
        command = " ".join(containers[name]["command"]).replace("127.0.0.1:8000", "0.0.0.0:8000")
        assert command == compose["services"][name]["command"], name
    for name, container in containers.items():
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        assert container["resources"]["limits"]["memory"], name
        assert name == "migrate" or "livenessProbe" in container, name
        gets_keys = {"secretRef": {"name": "mhb-keys", "optional": True}} in container.get("envFrom", [])
        assert gets_keys == (name in {"worker", "tasks"}), name
    [settings] = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    known = {f"MHB_{name.upper()}" for name in Env.model_fields}
    assert {name for name in settings if name.startswith("MHB_")} <= known


def test_pods_cannot_name_the_address_of_a_client(objects: list[dict[str, Any]]) -> None:
    """Two proxies are believed: nobody else reaches gunicorn, and the ingress alone nginx."""
    [web] = [each for each in objects if each["kind"] == "Deployment" and each["metadata"]["name"] == "web"]
    commands = {each["name"]: each.get("command", []) for each in web["spec"]["template"]["spec"]["containers"]}
    assert commands["web"][commands["web"].index("--bind") + 1] == "127.0.0.1:8000"
    [policy] = [
        each["spec"] for each in objects if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "web"
    ]
    assert policy["podSelector"] == {"matchLabels": {"app": "web"}}
    assert [list(source) for rule in policy["ingress"] for source in rule["from"]] == [["namespaceSelector"]]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [8080]


def test_every_pod_is_closed_but_to_those_who_need_it(objects: list[dict[str, Any]]) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}
    assert policies["nobody"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    [rule] = policies["broker"]["ingress"]
    [source] = rule["from"]
    assert set(source["podSelector"]["matchExpressions"][0]["values"]) == {"web", "worker", "tasks", "sweeper"}


def test_the_broker_asks_for_a_password(objects: list[dict[str, Any]], compose: dict[str, Any]) -> None:
    broker = compose["services"]["broker"]
    assert "--requirepass" in broker["command"]
    assert broker["environment"]["REDISCLI_AUTH"].startswith("${REDIS_PASSWORD:?")
    assert compose["services"]["worker"]["environment"]["MHB_REDIS_PASSWORD"].startswith("${REDIS_PASSWORD:?")
    [pod] = [each for each in objects if each["kind"] == "Deployment" and each["metadata"]["name"] == "broker"]
    [container] = pod["spec"]["template"]["spec"]["containers"]
    assert container["command"][1:] == ["--requirepass", "$(REDISCLI_AUTH)"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "mhb", "key": "MHB_REDIS_PASSWORD"}


# -------------------------------------------------------------------------- what goes into an image

SECRETS = (
    *(
        ".env",
        ".env.production",
        "keys.env",
        "mhb.env",
        "prod.env",
        "deploy/keys.env",
        "mhb_site/.env",
        "mhb_site/keys.env",
        "mhb_site/keys.env.bak",
    ),
    *(
        "review/.env.local",
        "sso.json",
        "secrets.json",
        "id_rsa",
        "cert.pem",
        "static/server.key",
        "templates/.git/config",
    ),
    *("var/secret_key", "var/mhb.sqlite3", "mhb_site/mhb.sqlite3", "mhb_site/mhb.sqlite3-wal", "backup/SHA256SUMS"),
    *(
        "dump.sql",
        ".git/config",
        ".venv/bin/python",
        "shared/data/records.jsonl",
        "docs/notes.md",
        "tests/x.py",
        ".ci/run",
    ),
)
ASKED_TO_WRITE = (".env", "keys.env", "mhb.env")  # docs/operations.md


def in_build_context(path: str) -> bool:
    """Whether Docker sends a file to the builder: the last line that matches decides."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    places = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    sent = True
    for line in lines:
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        # `**` matches any number of folders, also none; `*` no slash.
        expression = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
        if any(re.fullmatch(expression, place) for place in places):
            sent = line.startswith("!")
    return sent


def test_no_secret_and_no_data_is_in_the_build_context() -> None:
    assert not [path for path in SECRETS if in_build_context(path)]


def test_the_build_context_is_the_program_and_nothing_else() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    folders = ("evaluation/", "generation/", "mhb_site/", "review/", "static/", "templates/")
    files = {
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-uv.txt",
        "pyproject.toml",
        "manage.py",
        "gunicorn.conf.py",
        "LICENSE",
    }
    expected = {path for path in tracked if path in files or path.startswith(folders)}
    assert {path for path in tracked if in_build_context(path)} == expected


def test_files_of_secrets_are_not_committed() -> None:
    others = ("deploy/keys.env", "keys.env.bak", "cert.pem", "mhb.sqlite3")
    command = ["git", "check-ignore", "--no-index", *ASKED_TO_WRITE, *others]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert ignored == command[3:]


def test_images_and_actions_are_named_by_digest(objects: list[dict[str, Any]], compose: dict[str, Any]) -> None:
    """A tag can be moved to another image; a digest cannot."""
    images = [line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("FROM")]
    images += [service["image"] for service in compose["services"].values() if "build" not in service]
    pods = [each["spec"]["template"]["spec"] for each in objects if "template" in each.get("spec", {})]
    images += [container["image"] for pod in pods for container in pod["containers"]]
    others = [image for image in images if not image.startswith("registry.example/mhb:")]  # our own
    assert len(others) > 5
    assert not [image for image in others if not re.search(r"@sha256:[0-9a-f]{64}$", image)]
    workflows = "".join(file.read_text() for file in (ROOT / ".github").rglob("*.yml"))
    actions = re.findall(r"uses: (\S+)", workflows)
    assert actions
    assert not [action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)]


# ------------------------------------------------------------------------------- a proxy with TLS


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        names = ("Host", "X-Forwarded-For", "X-Forwarded-Proto")
        body = json.dumps({"path": self.path, **{name: self.headers.get_all(name) for name in names}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def write_certificate(folder: Path) -> None:
    """A certificate for localhost, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[int]:
    """The port of nginx with the example's configuration, before a server that echoes."""
    with installed():
        program = servers.nginx()
    write_certificate(tmp_path)
    plain, port = servers.free_port(), servers.free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as echo:
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        site = (ROOT / "deploy" / "proxy.conf").read_text()
        for written, here in (
            ("listen 80;", f"listen 127.0.0.1:{plain};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            ("/etc/ssl/mhb", str(tmp_path)),
            ("http://127.0.0.1:8000/", f"http://127.0.0.1:{echo.server_port}/"),
        ):
            assert written in site
            site = site.replace(written, here)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        main = f"pid {tmp_path}/pid; daemon off; error_log {tmp_path}/errors; events {{}}"
        user = "user root; " if os.geteuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(f"{user}{main} http {{ access_log off; {folders} {site} }}")
        process = subprocess.Popen([program, "-c", str(tmp_path / "nginx.conf"), "-e", f"{tmp_path}/errors"])
        try:
            assert children.wait_for_port("127.0.0.1", port)
            yield port
        finally:
            process.terminate()
            process.wait()
            echo.shutdown()


def test_the_proxy_speaks_tls_and_takes_the_sub_path_off(proxy: int, tmp_path: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
    request = urllib.request.Request(f"https://localhost:{proxy}/mhb/review/?page=2")
    request.add_header("X-Forwarded-For", "6.6.6.6")  # a visitor's own words are not believed
    with urllib.request.urlopen(request, context=trusted) as answer:
        asked = json.load(answer)
    assert asked == {
        "path": "/review/?page=2",
        "Host": ["localhost"],
        "X-Forwarded-For": ["127.0.0.1"],
        "X-Forwarded-Proto": ["https"],
    }

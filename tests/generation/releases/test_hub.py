"""A release is pushed to a hub in one command; the hub here is a scripted server."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from generation import errors
from generation.models import Release
from generation.releases import export, hub, queries
from tests.conftest import PHYSICIANS, accounts_of
from tests.engine import Manage, make_release
from tests.populations import population

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.django_db
SECRET = "hf_made-up-token"


@population
def release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS), reports=2)


class Hub:
    """What a hub was sent, and how it answers."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.tokens: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.deleted: list[str] = []
        self.refuses = False
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        path = path.partition("?")[0]
        self.paths.append(f"{method} {path}")
        if self.refuses:
            return 403, {"error": f"not with {SECRET}"}
        if path == "/api/repos/create":
            return 200, {"url": f"{self.url}/datasets/team/own", "name": "team/own"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            modes = [
                {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith("parquet") else "regular"}
                for file in json.loads(body)["files"]
            ]
            return 200, {"files": [{**mode, "shouldIgnore": False} for mode in modes]}
        if path.endswith("/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{self.url}/store/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            return 200, {"transfer": "basic", "objects": objects}
        if path.startswith("/store/"):
            self.files[path.rpartition("/")[2]] = body
            return 200, {}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.files[value["path"]] = self.files[value["oid"]]
                elif line["key"] == "deletedFile":
                    self.deleted.append(value["path"])
            return 200, {
                "success": True,
                "commitOid": "c0ffee",
                "commitUrl": f"{self.url}/datasets/team/own/commit/c0ffee",
            }
        if "/tree/" in path:
            return 200, [{"type": "file", "path": "old.parquet", "size": 1, "oid": "0" * 40}]
        if "/revision/" in path or path == "/api/datasets/team/own":
            return 200, {"id": "team/own", "sha": "0" * 40, "siblings": [{"rfilename": "old.parquet"}]}
        return 200, {}


@pytest.fixture
def scripted_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    script = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            script.tokens.add(self.headers.get("Authorization", ""))
            status, content = script.answer(self.command, self.path, self.rfile.read(length))
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_HEAD = do

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", script.url)
    monkeypatch.setenv(hub.TOKEN, SECRET)
    # The scripted hub stores large files as Git LFS does.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield script
    server.shutdown()
    server.server_close()


def test_a_release_is_pushed_in_one_command(
    release: Release, scripted_hub: Hub, manage: Manage, tmp_path: Path
) -> None:
    status, printed, _errors = manage("push_release", "own", "--repository", "team/own", "--json")
    assert status == 0
    result = json.loads(str(printed))
    assert (result["repository"], result["commit"]) == ("team/own", "c0ffee")
    export.Export(release, "hf").write(tmp_path / "out")
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert scripted_hub.files[path.relative_to(tmp_path / "out").as_posix()] == path.read_bytes()
    assert scripted_hub.deleted == ["old.parquet"], "files of an earlier version do not stay"
    assert any(path.startswith("POST /api/datasets/team/own/tag/") for path in scripted_hub.paths)
    assert f"Bearer {SECRET}" in scripted_hub.tokens


def test_a_refusal_is_one_sentence_without_the_token(release: Release, scripted_hub: Hub) -> None:
    scripted_hub.refuses = True
    with pytest.raises(errors.HubRefused) as refused:
        hub.push_release(release, "team/own")
    assert SECRET not in str(refused.value)


def test_nothing_is_sent_without_a_token_or_of_withheld_sources(
    release: Release, scripted_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "withheld_sources", lambda _release: ["a source"])
    with pytest.raises(errors.WithheldText):
        hub.push_release(release, "team/own")
    monkeypatch.delenv(hub.TOKEN)
    with pytest.raises(errors.HubTokenMissing):
        hub.push_release(release, "team/own")
    assert scripted_hub.paths == []

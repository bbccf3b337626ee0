"""The batch protocol of the simulated models: files and batches that are answered later."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from generation.llm.simulator.faults import FaultKind

WINDOW = 86_400  # seconds
PAGE = 20

CompleteRequest = Callable[[Any], tuple[str, web.Response]]


@dataclass
class _Batch:
    created_at: float
    lines: list[dict[str, Any]]
    shown: dict[str, Any]  # by the protocol

    def end(self, status: str, **shown: Any) -> None:
        self.shown |= {"status": status, f"{status}_at": int(time.time()), **shown}

    def fail(self, reason: str) -> None:
        self.end("failed", errors={"object": "list", "data": [{"code": "invalid", "message": reason}]})


class BatchStore:
    """Files and batches, in memory.

    A batch ends `delay` seconds after its creation. Its lines are subject to the faults of single
    requests: an HTTP error goes to the error file; a lost response (``timeout``, ``cut``) makes the
    line, and with it the batch, expire. A batch fails as a whole if a line names a model that does
    not exist, if two lines have the same name, or if it is empty. A batch that is cancelled half
    way has completed half of its lines.
    """

    def __init__(self, complete: CompleteRequest, delay: float) -> None:
        self._delay = delay
        self._complete = complete
        self._files: dict[str, bytes] = {}
        self._batches: dict[str, _Batch] = {}
        self._billed = self._asked = 0

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self.upload)
        app.router.add_get("/v1/files/{id}/content", self.content)
        app.router.add_post("/v1/batches", self.create)
        app.router.add_get("/v1/batches", self.list_batches)
        app.router.add_get("/v1/batches/{id}", self.retrieve)
        app.router.add_post("/v1/batches/{id}/cancel", self.cancel)

    def stats(self) -> dict[str, int]:
        """How many files and batches were created, and lines were sent to a model and billed."""
        return {
            "files": sum(name.startswith("file-in") for name in self._files),
            "batches": len(self._batches),
            "batch_requests": self._asked,
            "batch_billed": self._billed,
        }

    async def upload(self, request: web.Request) -> web.Response:
        """POST /v1/files."""
        form = await request.post()
        file = form.get("file")
        if form.get("purpose") != "batch" or not isinstance(file, web.FileField):
            raise web.HTTPBadRequest(reason="A file with the purpose 'batch' is expected.")
        data = file.file.read()
        name = self._store("in", data)
        return web.json_response(
            {
                "id": name,
                "object": "file",
                "bytes": len(data),
                "created_at": int(time.time()),
                "filename": file.filename,
                "purpose": "batch",
                "status": "processed",
            }
        )

    async def content(self, request: web.Request) -> web.Response:
        """GET /v1/files/{id}/content."""
        data = self._files.get(request.match_info["id"])
        if data is None:
            raise web.HTTPNotFound
        return web.Response(body=data, content_type="application/octet-stream")

    async def create(self, request: web.Request) -> web.Response:
        """POST /v1/batches."""
        body = await request.json()
        data = self._files.get(body.get("input_file_id"))
        if data is None or body.get("endpoint") != "/v1/chat/completions" or body.get("completion_window") != "24h":
            raise web.HTTPBadRequest(reason="No such file, endpoint or window.")
        lines, reason = [], ""
        try:
            lines = [json.loads(line) for line in data.splitlines()]
            if not lines or len({line["custom_id"] for line in lines}) < len(lines):
                reason = "Each line needs a custom_id of its own."
        except (ValueError, KeyError, TypeError) as error:
            reason = str(error)
        now = time.time()
        shown = {
            "id": f"batch_sim_{len(self._batches) + 1}",
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": None,
            "input_file_id": body["input_file_id"],
            "completion_window": "24h",
            "status": "in_progress",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(now),
            "expires_at": int(now) + WINDOW,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            "metadata": body.get("metadata") or {},
        }
        batch = self._batches[shown["id"]] = _Batch(now, lines, shown)
        if reason:
            batch.fail(reason)
        return self._shown(batch)

    async def list_batches(self, request: web.Request) -> web.Response:
        """GET /v1/batches: newest first."""
        names = list(reversed(self._batches))
        after = request.query.get("after")
        if after in names:
            names = names[names.index(after) + 1 :]
        size = min(PAGE, int(request.query.get("limit", PAGE)))
        page = [self._advanced(self._batches[name]).shown for name in names[:size]]
        return web.json_response({"object": "list", "data": page, "has_more": len(names) > len(page)})

    async def retrieve(self, request: web.Request) -> web.Response:
        """GET /v1/batches/{id}."""
        return self._shown(self._batch(request))

    async def cancel(self, request: web.Request) -> web.Response:
        """POST /v1/batches/{id}/cancel."""
        batch = self._advanced(self._batch(request))
        if batch.shown["status"] == "in_progress":
            share = 1.0
            if self._delay:
                share = (time.time() - batch.created_at) / self._delay
            self._run(batch, done=int(share * len(batch.lines)), status="cancelled")
        return self._shown(batch)

    def _batch(self, request: web.Request) -> _Batch:
        batch = self._batches.get(request.match_info["id"])
        if batch is None:
            raise web.HTTPNotFound(reason="No such batch.")
        return batch

    def _shown(self, batch: _Batch) -> web.Response:
        return web.json_response(self._advanced(batch).shown)

    def _store(self, kind: str, data: bytes) -> str:
        name = f"file-{kind}-sim-{len(self._files) + 1}"
        self._files[name] = data
        return name

    def _advanced(self, batch: _Batch) -> _Batch:
        """The batch, answered if it is time."""
        if batch.shown["status"] == "in_progress" and time.time() >= batch.created_at + self._delay:
            self._run(batch, done=len(batch.lines), status="completed")
        return batch

    def _run(self, batch: _Batch, *, done: int, status: str) -> None:
        lines: dict[str, list[str]] = {"out": [], "errors": []}
        for place, line in enumerate(batch.lines):
            kind, code = "errors", "batch_cancelled"
            response, error = None, None
            if place < done:
                self._asked += 1
                outcome, answer = self._complete(line.get("body"))
                if outcome == "404":
                    batch.fail(answer.text or "")
                    return
                if outcome in (FaultKind.TIMEOUT, FaultKind.CUT):
                    code = "batch_expired"
                    if status == "completed":
                        status = "expired"
                else:
                    body = json.loads(answer.text or "")
                    response = {"status_code": answer.status, "request_id": "sim", "body": body}
                    kind = "errors"
                    if answer.status == 200:
                        kind = "out"
            if response is None:
                error = {"code": code, "message": "This line was not put to a model."}
            result = {
                "id": f"{batch.shown['id']}_{place}",
                "custom_id": line["custom_id"],
                "response": response,
                "error": error,
            }
            lines[kind].append(json.dumps(result))
        files = dict.fromkeys(lines)
        for kind, written in lines.items():
            if written:
                files[kind] = self._store(kind, "\n".join(written).encode())
        counts = {"total": len(batch.lines), "completed": len(lines["out"]), "failed": len(lines["errors"])}
        batch.end(status, output_file_id=files["out"], error_file_id=files["errors"], request_counts=counts)
        self._billed += len(lines["out"])

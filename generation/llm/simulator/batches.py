"""The batch protocol of the simulated models: files and batches that are answered later."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from generation.llm.simulator.faults import FaultKind

WINDOW = 86_400  # seconds
PAGE = 20

CompleteRequest = Callable[[Any], tuple[str, web.Response]]


@dataclass
class _Batch:
    id: str
    input_file: str
    metadata: dict[str, str]
    created_at: float
    ready_at: float
    lines: list[dict[str, Any]]
    status: str = "in_progress"
    output_file: str | None = None
    error_file: str | None = None
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: {"completed": 0, "failed": 0})
    ended_at: float | None = None


class BatchStore:
    """Files and batches, in memory.

    A batch ends `delay` seconds after its creation. Its lines are subject to the faults of single
    requests: an HTTP error goes to the error file; a lost response (``timeout``, ``cut``) makes the
    line, and with it the batch, expire. A batch fails as a whole if a line names a model that does
    not exist, if two lines have the same name, or if it is empty. A batch that is cancelled half
    way has completed half of its lines.
    """

    def __init__(self, complete: CompleteRequest) -> None:
        self.delay = 0.0
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
        now = time.time()
        name = f"batch_sim_{len(self._batches) + 1}"
        batch = _Batch(name, body["input_file_id"], body.get("metadata") or {}, now, now + self.delay, [])
        self._batches[name] = batch
        try:
            batch.lines = [json.loads(line) for line in data.splitlines()]
            names = {line["custom_id"] for line in batch.lines}
            if not names or len(names) < len(batch.lines):
                raise ValueError("Each line needs a custom_id of its own.")
        except (ValueError, KeyError, TypeError) as error:
            self._fail(batch, str(error))
        return web.json_response(self._as_json(batch))

    async def list_batches(self, request: web.Request) -> web.Response:
        """GET /v1/batches: newest first."""
        batches = list(reversed(self._batches.values()))
        after = request.query.get("after")
        if after in self._batches:
            batches = batches[[batch.id for batch in batches].index(after) + 1 :]
        page = batches[: min(PAGE, int(request.query.get("limit", PAGE)))]
        return web.json_response(
            {
                "object": "list",
                "data": [self._as_json(batch) for batch in page],
                "first_id": page[0].id if page else None,
                "last_id": page[-1].id if page else None,
                "has_more": len(batches) > len(page),
            }
        )

    async def retrieve(self, request: web.Request) -> web.Response:
        """GET /v1/batches/{id}."""
        return web.json_response(self._as_json(self._batch(request)))

    async def cancel(self, request: web.Request) -> web.Response:
        """POST /v1/batches/{id}/cancel."""
        batch = self._batch(request)
        self._advance(batch)
        if batch.status == "in_progress":
            share = (time.time() - batch.created_at) / self.delay if self.delay else 1.0
            self._run(batch, done=int(share * len(batch.lines)), status="cancelled")
        return web.json_response(self._as_json(batch))

    def _batch(self, request: web.Request) -> _Batch:
        batch = self._batches.get(request.match_info["id"])
        if batch is None:
            raise web.HTTPNotFound(reason="No such batch.")
        return batch

    def _store(self, kind: str, data: bytes) -> str:
        name = f"file-{kind}-sim-{len(self._files) + 1}"
        self._files[name] = data
        return name

    def _fail(self, batch: _Batch, reason: str) -> None:
        batch.status, batch.ended_at = "failed", time.time()
        batch.errors.append(reason)

    def _advance(self, batch: _Batch) -> None:
        if batch.status == "in_progress" and time.time() >= batch.ready_at:
            self._run(batch, done=len(batch.lines), status="completed")

    def _run(self, batch: _Batch, *, done: int, status: str) -> None:
        output_lines: list[str] = []
        error_lines: list[str] = []
        for place, line in enumerate(batch.lines):
            code = "batch_cancelled"
            if place < done:
                self._asked += 1
                outcome, response = self._complete(line.get("body"))
                if outcome == "404":
                    self._fail(batch, response.text or "")
                    return
                if outcome not in (FaultKind.TIMEOUT, FaultKind.CUT):
                    answer = {
                        "status_code": response.status,
                        "request_id": "sim",
                        "body": json.loads(response.text or ""),
                    }
                    result = {
                        "id": f"{batch.id}_{place}",
                        "custom_id": line["custom_id"],
                        "response": answer,
                        "error": None,
                    }
                    (output_lines if response.status == 200 else error_lines).append(json.dumps(result))
                    continue
                code, status = "batch_expired", "expired" if status == "completed" else status
            error = {"code": code, "message": "This line was not put to a model."}
            result = {"id": f"{batch.id}_{place}", "custom_id": line["custom_id"], "response": None, "error": error}
            error_lines.append(json.dumps(result))
        batch.status, batch.ended_at = status, time.time()
        batch.counts = {"completed": len(output_lines), "failed": len(error_lines)}
        batch.output_file = self._store("out", "\n".join(output_lines).encode()) if output_lines else None
        batch.error_file = self._store("errors", "\n".join(error_lines).encode()) if error_lines else None
        self._billed += len(output_lines)

    def _as_json(self, batch: _Batch) -> dict[str, Any]:
        self._advance(batch)
        ended = int(batch.ended_at) if batch.ended_at else None
        errors = {"object": "list", "data": [{"code": "invalid", "message": reason} for reason in batch.errors]}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": errors if batch.errors else None,
            "input_file_id": batch.input_file,
            "completion_window": "24h",
            "status": batch.status,
            "output_file_id": batch.output_file,
            "error_file_id": batch.error_file,
            "created_at": int(batch.created_at),
            "expires_at": int(batch.created_at) + WINDOW,
            f"{batch.status}_at": ended,
            "request_counts": {"total": len(batch.lines), **batch.counts},
            "metadata": batch.metadata,
        }

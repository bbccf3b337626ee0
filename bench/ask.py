"""The simple clients that the engine is compared with: `python -m bench.ask CLIENT`.

Reads its plan as JSON from stdin and prints the time it took. Each client asks the target and then
the judge about every sample, with a fixed number of samples in flight, and stores nothing.
`inspect_ai` and `lm_eval` run with the Python that they are installed for, so nothing of this
project is imported here.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

Ask = Callable[[dict[str, Any]], Awaitable[str]]
MODULES = {"raw": "aiohttp", "loop": "openai.types.chat", "inspect_ai": "inspect_ai.model", "lm_eval": "lm_eval"}
FIXED_FIELDS: dict[str, Any] = {"model": "stub", "max_tokens": 500}


async def _ask_all(plan: dict[str, Any], ask: Ask) -> None:
    """Process all samples of the plan, `in_flight` at a time."""
    pairs = iter(plan["pairs"])

    async def slot() -> None:
        for target, judge in pairs:
            response = await ask({**FIXED_FIELDS, "messages": target})
            body = {
                **FIXED_FIELDS,
                "messages": [*judge[:-1], {**judge[-1], "content": judge[-1]["content"] + response}],
            }
            json.loads(await ask({**body, "response_format": plan["format"]}))

    await asyncio.gather(*(slot() for _ in range(plan["in_flight"])))


async def raw(plan: dict[str, Any]) -> None:
    """aiohttp alone: the fastest Python client, which shows what the stub can sustain."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(body: dict[str, Any]) -> str:
            async with session.post(plan["url"] + "/chat/completions", json=body) as answer:
                return str((await answer.json())["choices"][0]["message"]["content"])

        await _ask_all(plan, ask)


async def loop(plan: dict[str, Any]) -> None:
    """The plain loop that anyone would write: AsyncOpenAI on aiohttp."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async with AsyncOpenAI(
        base_url=plan["url"], api_key="none", max_retries=0, http_client=DefaultAioHttpClient()
    ) as client:

        async def ask(body: dict[str, Any]) -> str:
            completion = await client.chat.completions.create(**body)
            return str(completion.choices[0].message.content)

        await _ask_all(plan, ask)


def inspect_ai(plan: dict[str, Any]) -> None:
    """inspect_ai: a task with a generating solver, and a scorer that asks a judge."""
    import tempfile

    from inspect_ai import Task, eval  # type: ignore[import-not-found]
    from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model  # type: ignore[import-not-found]
    from inspect_ai.scorer import Score, accuracy, scorer  # type: ignore[import-not-found]
    from inspect_ai.solver import generate  # type: ignore[import-not-found]

    settings = {"base_url": plan["url"], "api_key": "none", "memoize": False}
    target, judge = (get_model(f"openai-api/stub/{name}", **settings) for name in ("target", "judge"))

    @scorer(metrics=[accuracy()])  # type: ignore[untyped-decorator]
    def judged() -> Any:
        async def score(state: Any, target: Any) -> Any:  # noqa: ARG001
            kinds = {"system": ChatMessageSystem, "user": ChatMessageUser}
            judge_messages = plan["pairs"][state.sample_id - 1][1]
            messages = [kinds[message["role"]](content=message["content"]) for message in judge_messages]
            messages[-1].content += state.output.completion
            reply = await judge.generate(messages)
            return Score(value=json.loads(reply.completion)["criteria_met"])

        return score

    samples = [
        Sample(id=number, input="\n".join(message["content"] for message in messages))
        for number, (messages, _judge) in enumerate(plan["pairs"], 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        eval(
            Task(dataset=MemoryDataset(samples), solver=generate(), scorer=judged()),
            model=target,
            max_connections=plan["in_flight"],
            max_samples=plan["in_flight"],
            log_dir=folder,
            display="none",
        )


def lm_eval(plan: dict[str, Any]) -> None:
    """lm-eval's client for chat completions.

    It has no judge, so the same number of calls is made in two successive rounds.
    """
    from lm_eval.models.openai_completions import LocalChatCompletion  # type: ignore[import-not-found]

    model = LocalChatCompletion(
        model="stub",
        base_url=plan["url"] + "/chat/completions",
        num_concurrent=plan["in_flight"],
        max_retries=1,
        tokenized_requests=False,
        tokenizer_backend=None,
    )
    from lm_eval.api.instance import Instance  # type: ignore[import-not-found]
    from lm_eval.models.api_models import JsonChatStr  # type: ignore[import-not-found]

    for part in (0, 1):
        model.generate_until(
            [
                Instance("generate_until", {}, (JsonChatStr(json.dumps(pair[part])), {"until": []}), number)
                for number, pair in enumerate(plan["pairs"])
            ],
            disable_tqdm=True,
        )


def main(name: str) -> None:
    plan = json.load(sys.stdin)
    importlib.import_module(MODULES[name])  # not measured: a worker has already imported it
    started, usage_before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    client = {"raw": raw, "loop": loop, "inspect_ai": inspect_ai, "lm_eval": lm_eval}[name]
    coroutine = client(plan)
    if coroutine is not None:
        asyncio.run(coroutine)
    usage_after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    print(json.dumps({"seconds": time.monotonic() - started, "cpu": cpu}))


if __name__ == "__main__":
    main(sys.argv[1])

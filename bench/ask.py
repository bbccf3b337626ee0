"""The simple clients the engine is measured against: `python -m bench.ask CLIENT` reads its plan as JSON, prints what it took.

Each asks the target and then the judge about every sample, with so many samples in flight. None keeps anything.
`inspect_ai` and `lm_eval` are run with the Python they are installed for, so nothing of this project is imported here.
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
STATIC: dict[str, Any] = {"model": "stub", "max_tokens": 500}


async def _samples(plan: dict[str, Any], ask: Ask) -> None:
    """All samples of the plan, `flying` at once, each refilled as it ends."""
    waiting = iter(plan["pairs"])

    async def slot() -> None:
        for target, judge in waiting:
            said = await ask({**STATIC, "messages": target})
            body = {**STATIC, "messages": [*judge[:-1], {**judge[-1], "content": judge[-1]["content"] + said}]}
            json.loads(await ask({**body, "response_format": plan["format"]}))

    await asyncio.gather(*(slot() for _ in range(plan["flying"])))


async def raw(plan: dict[str, Any]) -> None:
    """aiohttp alone: the fastest that Python has, which shows what the stub can bear."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(body: dict[str, Any]) -> str:
            async with session.post(plan["url"] + "/chat/completions", json=body) as answer:
                return str((await answer.json())["choices"][0]["message"]["content"])

        await _samples(plan, ask)


async def loop(plan: dict[str, Any]) -> None:
    """The plain loop that anybody would write: AsyncOpenAI on aiohttp."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    async with AsyncOpenAI(
        base_url=plan["url"], api_key="none", max_retries=0, http_client=DefaultAioHttpClient()
    ) as client:

        async def ask(body: dict[str, Any]) -> str:
            done = await client.chat.completions.create(**body)
            return str(done.choices[0].message.content)

        await _samples(plan, ask)


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
            messages = plan["pairs"][state.sample_id - 1][1]
            kinds = {"system": ChatMessageSystem, "user": ChatMessageUser}
            asked = [kinds[message["role"]](content=message["content"]) for message in messages]
            asked[-1].content += state.output.completion
            said = await judge.generate(asked)
            return Score(value=json.loads(said.completion)["criteria_met"])

        return score

    samples = [
        Sample(id=number, input="\n".join(message["content"] for message in asked))
        for number, (asked, _judge) in enumerate(plan["pairs"], 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        eval(
            Task(dataset=MemoryDataset(samples), solver=generate(), scorer=judged()),
            model=target,
            max_connections=plan["flying"],
            max_samples=plan["flying"],
            log_dir=folder,
            display="none",
        )


def lm_eval(plan: dict[str, Any]) -> None:
    """lm-eval's client for chat completions. It knows no judge: the same number of calls in two rounds, one after the other."""
    from lm_eval.models.openai_completions import LocalChatCompletion  # type: ignore[import-not-found]

    model = LocalChatCompletion(
        model="stub",
        base_url=plan["url"] + "/chat/completions",
        num_concurrent=plan["flying"],
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
    importlib.import_module(MODULES[name])  # not measured: a worker has it imported, too
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    client = {"raw": raw, "loop": loop, "inspect_ai": inspect_ai, "lm_eval": lm_eval}[name]
    running = client(plan)
    if running is not None:
        asyncio.run(running)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": time.monotonic() - started, "cpu": cpu}))


if __name__ == "__main__":
    main(sys.argv[1])

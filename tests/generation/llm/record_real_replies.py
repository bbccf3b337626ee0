"""Records replies of real models: `python -m tests.generation.llm.record_real_replies PORT MODEL`.

Asks llama.cpp's server at PORT (`make real`; `mhb_site/demo/real_server.py MODEL PORT 2048`) and
adds its replies, as they came, to `real_replies.json`. The questions are made up.
"""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("real_replies.json")
CRITERION = "Says not to put butter on the burn."
QUESTION = "I burnt my hand on a pan an hour ago, and there is a small blister. Can I put butter on it?"
JUDGE = (
    "Decide whether the answer meets the criterion. Reply with one JSON object with the keys explanation (a text) and "
    f"criteria_met (true or false).\nQuestion: {QUESTION}\nCriterion: {CRITERION}\nAnswer: "
)
SCHEMA = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "criteria_met": {"type": "boolean"}},
    "required": ["explanation", "criteria_met"],
    "additionalProperties": False,
}
THINK = "First think between <think> and </think>, then answer in one sentence."
GOOD, BAD = "No. Cool it with running water and leave the blister.", "Yes, butter soothes it."


def formatted(kind: str) -> dict[str, Any]:
    if kind == "json_schema":
        return {"type": kind, "json_schema": {"name": "Judgment", "schema": SCHEMA, "strict": True}}
    return {"type": kind}


def requests() -> dict[str, dict[str, Any]]:
    """Name -> body, for each way in which jobs ask."""
    judged = {"max_tokens": 160, "temperature": 0}
    user = lambda text: [{"role": "user", "content": text}]  # noqa: E731
    bodies: dict[str, dict[str, Any]] = {
        "answer": {"messages": user(QUESTION), "max_tokens": 200},
        "answer cut off": {"messages": user(QUESTION), "max_tokens": 12},
        "answer with reasoning": {"messages": user(f"{THINK}\n{QUESTION}"), "max_tokens": 200},
        "verdict cut off": {
            "messages": user(JUDGE + GOOD),
            "max_tokens": 6,
            "response_format": formatted("json_schema"),
        },
        "too long": {"messages": user("Rest. " * 4_000), "max_tokens": 10},
    }
    for name, answer in (("good", GOOD), ("bad", BAD)):
        for kind in ("json_schema", "json_object"):
            bodies[f"verdict on a {name} answer, {kind}"] = {
                "messages": user(JUDGE + answer),
                "response_format": formatted(kind),
                **judged,
            }
        bodies[f"verdict on a {name} answer, text"] = {"messages": user(JUDGE + answer), **judged}
    return bodies


def ask(port: str, body: dict[str, Any]) -> tuple[int, str]:
    address = f"http://127.0.0.1:{port}/v1/chat/completions"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def main(port: str, model: str) -> None:
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    rows = [row for row in known if row["model"] != model]
    for name, body in requests().items():
        status, text = ask(port, {"model": model, "seed": 7, **body})
        rows.append({"model": model, "name": name, "status": status, "body": text})
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

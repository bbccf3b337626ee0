"""The static files of a deployment."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Finds the address of a file once in the life of a process: a page names twenty, the manifest is read at its start."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._addresses: dict[str, str] = {}  # of the files that templates name: few

    def url(self, name: str | None, force: bool = False) -> str:
        if force or name is None:
            return str(super().url(name, force))
        if (address := self._addresses.get(name)) is None:
            address = self._addresses[name] = str(super().url(name))
        return address

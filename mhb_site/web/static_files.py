"""The static files of a production site."""

from typing import Any

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Caches the URLs of files for the life of the process, as a page has twenty of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._urls: dict[str, str] = {}  # of the few files that templates use

    def url(self, name: str | None, force: bool = False) -> str:
        if force or name is None:
            return str(super().url(name, force))
        if (address := self._urls.get(name)) is None:
            address = self._urls[name] = str(super().url(name))
        return address

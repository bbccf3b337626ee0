"""Publishes a release on a Hugging Face hub."""

import os
from typing import Any

from generation import errors
from generation.common.temporary import temporary_folder
from generation.models import Release
from generation.releases import export, queries

TOKEN = "HF_TOKEN"  # noqa: S105  (the name of the variable; HF_ENDPOINT names another hub)


def push_release(release: Release, repository: str, *, private: bool = False) -> dict[str, Any]:
    """Upload the public part as a data set in the format `hf`: one commit, tagged `v<version>`.

    The repository (OWNER/NAME) is created if it is missing; files of an earlier version that this
    one lacks are deleted. The token is taken from the environment only.

    Raises HubMissing (the package huggingface_hub is not installed), HubTokenMissing, WithheldText
    (text of a source must not be published), HubRefused, and what an export raises.
    """
    try:
        from huggingface_hub import CommitInfo, HfApi
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise errors.HubMissing from error
    token = os.environ.get(TOKEN, "")
    if not token:
        raise errors.HubTokenMissing(TOKEN)
    if withheld := queries.withheld_sources(release):
        raise errors.WithheldText(", ".join(withheld))
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token, library_name="mhb")
    with temporary_folder() as folder:
        export.Export(release, "hf").write(folder)
        try:
            api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
            commit: CommitInfo = api.upload_folder(
                repo_id=repository,
                repo_type="dataset",
                folder_path=folder,
                commit_message=f"{release}, SHA-256 {release.sha256}",
                delete_patterns="*",
            )
            api.create_tag(
                repository, tag=f"v{release.version}", revision=commit.oid, repo_type="dataset", exist_ok=True
            )
        except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
            raise errors.HubRefused(" ".join(str(error).replace(token, "***").split())[:500]) from error
    return {"repository": repository, "release": str(release), "commit": commit.oid, "url": commit.commit_url}

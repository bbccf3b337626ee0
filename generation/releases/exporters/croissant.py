"""Machine-readable metadata of an export, as Croissant 1.0 (JSON-LD) with its RAI vocabulary.

Licence, how the data was made and reviewed, files with checksums, and columns of tables.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from generation.releases.exporters.licences import spdx_address
from generation.releases.exporters.record_sets import record_sets

# The names of the vocabulary, as version 1.0 of the format lists them.
_NAMES = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset jsonPath key"
    " md5 parentField path recordSet references regex repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    **{name: f"cr:{name}" for name in _NAMES.split()},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_KINDS = {
    "jsonl": "application/jsonlines",
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/x-parquet",
    "md": "text/markdown",
    "py": "text/x-python",
}


def croissant(
    about: Mapping[str, Any], files: Sequence[Mapping[str, Any]], tables: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The Croissant metadata of an export.

    `about`: `export.metadata`, of which `rai` says how the data was made and reviewed.
    `files`: the entries of the manifest. `tables`: name -> columns of the further CSV files.
    """
    paths = [entry["path"] for entry in files]
    licences = [spdx_address(licence) for licence in about["licences"]]
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": about["name"],
        "description": about["description"],
        "version": about["version"],
        "datePublished": about["date"],
        "license": licences or ["unknown"],
        "citeAs": about["citation"],
        "url": f"urn:mhb:{about['name']}:{about['version']}",
        "inLanguage": list(filter(None, about["languages"])),
    }
    for name, value in about["rai"].items():
        if value:
            metadata[f"rai:{name}"] = value
    metadata["distribution"] = [_file_object(entry) for entry in files]
    metadata["recordSet"] = record_sets(paths, about["columns"], tables)
    return metadata


def _file_object(entry: Mapping[str, Any]) -> dict[str, str]:
    path = entry["path"]
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{entry['bytes']} B",
        "encodingFormat": _KINDS.get(path.rpartition(".")[2], "application/octet-stream"),
        "sha256": entry["sha256"],
    }

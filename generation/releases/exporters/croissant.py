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
    **{name: {"@id": f"cr:{name}", "@type": "@json"} for name in ("data", "examples")},
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
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": about["name"],
        "description": about["description"],
        "version": about["version"],
        "datePublished": about["date"],
        "license": [spdx_address(licence) for licence in about["licences"]] or ["unknown"],
        "citeAs": about["citation"],
        "url": f"urn:mhb:{about['name']}:{about['version']}",
        "inLanguage": [code for code in about["languages"] if code],
        **{f"rai:{name}": value for name, value in about["rai"].items() if value},
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": entry["path"],
                "name": entry["path"],
                "contentUrl": entry["path"],
                "contentSize": f"{entry['bytes']} B",
                "encodingFormat": _KINDS.get(entry["path"].rpartition(".")[2], "application/octet-stream"),
                "sha256": entry["sha256"],
            }
            for entry in files
        ],
        "recordSet": record_sets([entry["path"] for entry in files], about["columns"], tables),
    }

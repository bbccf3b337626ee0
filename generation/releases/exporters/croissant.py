"""Machine-readable metadata of an export, as Croissant 1.0 (JSON-LD) with its RAI vocabulary.

Licence, how the data was made and reviewed, files with checksums, and columns of tables.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from generation.releases.exporters.licences import spdx_address
from generation.releases.exporters.record_sets import record_sets

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
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

"""Removal of metadata from JPEG files, without recompressing the picture."""

_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}  # markers without a length
_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_JFIF, _ADOBE = 0xE0, 0xEE  # they define how colours are read: kept, reduced to their standard fields
_METADATA = {*range(0xE0, 0xF0), 0xFE}  # APP0-APP15 and comments: EXIF, GPS, XMP, IPTC, thumbnails


def without_metadata(data: bytes) -> bytes | None:
    """Copy the first picture of a JPEG file without comments and application segments.

    Data after its end is dropped. Returns None if the segments are inconsistent.
    """
    if data[:2] != bytes((0xFF, _START)):
        return None
    output = bytearray(data[:2])
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker == _END:
            return bytes(output + data[at : at + 2])
        if marker in _WITHOUT_LENGTH:
            output += data[at : at + 2]
            at += 2
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if end > len(data) or end < at + 4:
            return None
        output += _segment(marker, data[at:end])
        at = end
        if marker == _SCAN:
            at = _scan_end(data, end)
            output += data[end:at]
    if data[at : at + 2] == bytes((0xFF, _END)):
        return bytes(output + data[at : at + 2])
    return None


def _segment(marker: int, segment: bytes) -> bytes:
    if marker not in _METADATA:
        return segment
    if marker == _JFIF and segment[4:9] == b"JFIF\x00" and len(segment) >= 18:
        # Version, units and density; its thumbnail is left out.
        return b"\xff\xe0\x00\x10" + segment[4:16] + b"\x00\x00"
    if marker == _ADOBE and segment[4:9] == b"Adobe" and len(segment) >= 16:
        return b"\xff\xee\x00\x0e" + segment[4:16]
    return b""


def _scan_end(data: bytes, start: int) -> int:
    """The end of a scan: the next marker that is neither a stuffed byte nor a restart."""
    at = data.find(b"\xff", start)
    while 0 <= at < len(data) - 1:
        following = data[at + 1]
        if following != 0 and not 0xD0 <= following <= 0xD7:
            return at
        at = data.find(b"\xff", at + 2)
    return len(data)

#!/usr/bin/env bash
# Expected: a date in the form of HL7 and DICOM, 20240105, is 5 January 2024 for a field of type `datetime`, or is
#   refused, as `date` refuses it.
# Happens: digits alone, also in a string, are seconds since 1970: 20240105 is 23 August 1970, the year 1960 is 1
#   January 1970, and with a time, as milliseconds, 20240105120000 is in 2611. msgspec does the same when it is not
#   strict; marshmallow reads the date.
# Version: pydantic 2.14.4, msgspec 0.23.0, marshmallow 4.4.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pydantic==2.14.4 msgspec==0.23.0 marshmallow==4.4.0
cat > run.py <<'PY'
from datetime import date, datetime

import marshmallow
import msgspec
import pydantic

for text in ("20240105", "1960", "20240105120000"):
    print(text, pydantic.TypeAdapter(datetime).validate_python(text))
try:
    pydantic.TypeAdapter(date).validate_python("20240105")
except pydantic.ValidationError as error:
    print(error.errors()[0]["type"])
print(msgspec.convert("20240105", datetime, strict=False))
print(marshmallow.fields.DateTime().deserialize("20240105"))
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
20240105 1970-08-23 06:15:05+00:00
1960 1970-01-01 00:32:40+00:00
20240105120000 2611-05-21 11:25:20+00:00
date_from_datetime_inexact
1970-08-23 06:15:05+00:00
2024-01-05 00:00:00
TEXT

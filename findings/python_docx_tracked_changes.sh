#!/usr/bin/env bash
# Expected: the text of a paragraph with tracked changes is that before or after them, or the reader is told that there
#   are some.
# Happens: it is neither: deleted and inserted words are both missing, without a word. "Metformin should not be given"
#   (the "not" was inserted) reads "Metformin should be given", and a dose corrected from 50 to 5 mg has no number.
# Version: python-docx 1.2.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check python-docx==1.2.0
cat > run.py <<'PY'
import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

BY = 'w:author="Editor" w:date="2026-01-01T00:00:00Z"'


def inserted(number: int, text: str):
    run = f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'
    return parse_xml(f'<w:ins {nsdecls("w")} w:id="{number}" {BY}>{run}</w:ins>')


def deleted(number: int, text: str):
    run = f"<w:r><w:delText>{text}</w:delText></w:r>"
    return parse_xml(f'<w:del {nsdecls("w")} w:id="{number}" {BY}>{run}</w:del>')


document = docx.Document()
paragraph = document.add_paragraph("Metformin should ")
paragraph._p.append(inserted(1, "not "))
paragraph.add_run("be given before contrast.")
paragraph = document.add_paragraph("Dose: ")
paragraph._p.append(deleted(2, "50"))
paragraph._p.append(inserted(3, "5"))
paragraph.add_run(" mg")
document.save("guideline.docx")
for paragraph in docx.Document("guideline.docx").paragraphs:
    print(repr(paragraph.text))
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
'Metformin should be given before contrast.'
'Dose:  mg'
TEXT

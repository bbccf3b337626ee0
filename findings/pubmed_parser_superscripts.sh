#!/usr/bin/env bash
# Expected: the text of an abstract keeps its numbers: 20 x 10<sup>9</sup>/L is 20 x 10^9/L or 10⁹.
# Happens: superscripts are joined to what stands before them. A platelet count of 20 x 10⁹/L reads "20 x 109/L", both
#   from a file of MEDLINE and from a paragraph of PMC; the abstract of PMC has "10 9 /L".
# Version: pubmed_parser 0.5.1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pubmed_parser==0.5.1
cat > run.py <<'PY'
import gzip

import pubmed_parser

MEDLINE = """<PubmedArticleSet><PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">1</PMID>
<Article PubModel="Print"><Journal><JournalIssue CitedMedium="Internet"><PubDate><Year>2020</Year></PubDate></JournalIssue>
<Title>J</Title></Journal><ArticleTitle>T</ArticleTitle><Abstract><AbstractText>Platelets were 20 x 10<sup>9</sup>/L.
</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"""
PMC = """<article><front><journal-meta><journal-title>J</journal-title></journal-meta><article-meta>
<article-id pub-id-type="pmc">1</article-id><title-group><article-title>T</article-title></title-group>
<pub-date pub-type="collection"><year>2020</year></pub-date>
<abstract><p>Platelets were 20 x 10<sup>9</sup>/L.</p></abstract></article-meta></front>
<body><sec><title>Case</title><p>Platelets were 20 x 10<sup>9</sup>/L.</p></sec></body></article>"""
with gzip.open("medline.xml.gz", "wt") as file:
    file.write(MEDLINE)
with open("pmc.nxml", "w") as file:
    file.write(PMC)
[citation] = pubmed_parser.parse_medline_xml("medline.xml.gz")
print(citation["abstract"].strip())
[paragraph] = pubmed_parser.parse_pubmed_paragraph("pmc.nxml", all_paragraph=True)
print(paragraph["text"])
print(pubmed_parser.parse_pubmed_xml("pmc.nxml")["abstract"])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
Platelets were 20 x 109/L.
Platelets were 20 x 109/L.
Platelets were 20 x 10 9 /L.
TEXT

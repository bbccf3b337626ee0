#!/usr/bin/env bash
# Expected: an article of PubMed has its whole title and abstract, and its own number.
# Happens: title and abstract end at the first italic or raised character: "20 x 10", and nothing of the rest, and a
#   title that begins with a species in italics is empty. `pubmed_id` has the numbers of all references too, one a line.
# Version: pymed 0.8.9
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pymed==0.8.9
cat > run.py <<'PY'
from xml.etree import ElementTree

from pymed.article import PubMedArticle

XML = """<PubmedArticle><MedlineCitation><PMID>111</PMID><Article><Journal><Title>J</Title></Journal>
<ArticleTitle><i>Helicobacter pylori</i> in children</ArticleTitle><Abstract><AbstractText>The count fell to
20 x 10<sup>9</sup>/L, but no patient bled.</AbstractText></Abstract><AuthorList/></Article></MedlineCitation>
<PubmedData><History><PubMedPubDate PubStatus="pubmed"><Year>2020</Year><Month>1</Month><Day>2</Day></PubMedPubDate></History>
<ArticleIdList><ArticleId IdType="pubmed">111</ArticleId></ArticleIdList><ReferenceList><Reference><ArticleIdList>
<ArticleId IdType="pubmed">222</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>"""
article = PubMedArticle(xml_element=ElementTree.fromstring(XML))
print([article.title, article.abstract.replace("\n", " "), article.pubmed_id])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
['', 'The count fell to 20 x 10', '111\n222']
TEXT

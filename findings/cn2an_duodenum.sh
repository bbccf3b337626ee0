#!/usr/bin/env bash
# Expected: `cn2an.transform` writes quantities of a Chinese sentence in digits, or the other way round, and leaves words
#   alone in which a numeral counts nothing.
# Happens: any numeral is replaced. The duodenum is "12指肠", carbon monoxide "1氧化碳", and pain that is very bad
#   (十分剧烈) becomes pain of ten points (10分). The other way, a blood pressure of 120/80 becomes the fraction
#   八十分之一百二十, a hundred and twenty eightieths.
# Version: cn2an 0.5.24
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cn2an==0.5.24
cat > run.py <<'PY'
import cn2an

for text in ("口服一片，每日三次", "十二指肠球部溃疡", "一氧化碳中毒", "疼痛十分剧烈"):
    print(text, cn2an.transform(text, "cn2an"))
print(cn2an.transform("血压120/80mmHg", "an2cn"))
PY
venv/bin/python run.py | tee output
diff output - <<'TEXT'
口服一片，每日三次 口服1片，每日3次
十二指肠球部溃疡 12指肠球部溃疡
一氧化碳中毒 1氧化碳中毒
疼痛十分剧烈 疼痛10分剧烈
血压八十分之一百二十mmHg
TEXT

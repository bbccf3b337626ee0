#!/usr/bin/env bash
# Expected: `s2twp` and `tw2sp`, which OpenCC describes as with Taiwan's idiom, put the words of a medical text into those
#   that physicians use there.
# Happens: words that computing has too are taken for its: the circulation is a loop of a program (迴圈), a cohort a queue
#   (佇列), the people studied are objects (物件), an EEG with video a film's (影片腦電圖), and the course of a disease its
#   procedure (程序). Back, a surgical procedure is the progress of surgery (手术进程) and a wisdom tooth a smart one
#   (智能齿). Without phrases (`s2tw`) each stays. 乙醯胺酚 and the blood cells are right.
# Version: opencc 1.4.2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check opencc==1.4.2
cat > run.py <<'PY'
import opencc

texts = {
    "s2tw": ["血液循环", "前瞻性队列研究", "疾病进程"],
    "s2twp": ["血液循环", "前瞻性队列研究", "研究对象", "视频脑电图", "疾病进程"],
    "tw2sp": ["手術程序", "智慧齒", "乙醯胺酚", "白血球"],
}
for config, words in texts.items():
    converter = opencc.OpenCC(config)
    print(config, *[f"{word} {converter.convert(word)}" for word in words])
PY
venv/bin/python run.py 2>/dev/null | tee output
diff output - <<'TEXT'
s2tw 血液循环 血液循環 前瞻性队列研究 前瞻性隊列研究 疾病进程 疾病進程
s2twp 血液循环 血液迴圈 前瞻性队列研究 前瞻性佇列研究 研究对象 研究物件 视频脑电图 影片腦電圖 疾病进程 疾病程序
tw2sp 手術程序 手术进程 智慧齒 智能齿 乙醯胺酚 对乙酰氨基酚 白血球 白细胞
TEXT

"""usage: find_secrets.py SECRETS FOLDER...   SECRETS holds lines KIND<tab>SECRET

Searches every file of the folders for each secret: raw, in what SQLite keeps (whole values, not pages), in base64 and
compressed pieces (git's binary patches included), and written as JSON, URLs and UTF-16 write it. Prints what it finds.
"""
import base64
import gzip
import json
import os
import re
import sqlite3
import sys
import urllib.parse
import zlib


def forms(secret):
    text = secret.encode()
    out = {text, secret.encode("utf-16-le"), secret.encode("utf-16-be"), json.dumps(secret)[1:-1].encode(),
           json.dumps(secret, ensure_ascii=False)[1:-1].encode(), urllib.parse.quote(secret, safe="").encode()}
    return out


def unpacked(data, depth=0):
    """The bytes and all that is packed in them."""
    yield data
    if depth > 4:
        return
    for inflate in (zlib.decompress, gzip.decompress):
        try:
            yield from unpacked(inflate(data), depth + 1)
        except Exception:
            pass
    # git's binary patches: lines of base85 behind "literal N", the first letter is the line's length
    for block in re.findall(rb"^(?:literal|delta) \d+\n((?:[A-Za-z][^\n]+\n)+)", data, re.M):
        packed = b""
        for line in block.splitlines():
            n = line[0] - 64 if line[0] <= 90 else line[0] - 70
            packed += base64.b85decode(line[1:])[:n]
        yield from unpacked(zlib.decompress(packed), depth + 1)
    for text in re.findall(rb'"([A-Za-z0-9+/]{24,}={0,2})"', data):
        try:
            yield from unpacked(base64.b64decode(text, validate=True), depth + 1)
        except Exception:
            pass


def pieces(path):
    with open(path, "rb") as f:
        data = f.read()
    yield path, data
    if not data.startswith(b"SQLite format 3"):
        return
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.text_factory = bytes
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
        for row in db.execute(f'SELECT * FROM "{table.decode()}"'):
            for value in row:
                if isinstance(value, bytes):
                    yield f"{path} table {table.decode()}", value
                elif value is not None:
                    yield f"{path} table {table.decode()}", str(value).encode()


def main():
    secrets = []
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            kind, secret = line.rstrip("\n").split("\t", 1)
            secrets.append((kind, forms(secret)))
    found, files = set(), 0
    for folder in sys.argv[2:]:
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                for kind, all_forms in secrets:
                    if any(form in name.encode() for form in all_forms):
                        found.add((kind, "name of " + path))
                files += 1
                for place, data in pieces(path):
                    for piece in unpacked(data):
                        for kind, all_forms in secrets:
                            if any(form in piece for form in all_forms):
                                found.add((kind, place))
    for kind, place in sorted(found):
        print(f"{kind}: in {place}")
    print(f"{len(secrets)} secrets, {files} files, {len(found)} found")
    sys.exit(1 if found or not files else 0)


main()

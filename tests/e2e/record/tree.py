"""usage: tree.py A B   Compares two trees: paths, links, executable bits, contents, empty folders. Leaves out .git and what is named ignored*."""
import os
import stat
import sys


def tree(root):
    root = os.fsencode(root)
    out = {}
    for where, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f != b".git" and not f.startswith(b"ignored")]
        for name in files + [f for f in folders if os.path.islink(os.path.join(where, f))]:
            path = os.path.join(where, name)
            if name == b".git" or name.startswith(b"ignored"):
                continue
            mode = os.lstat(path).st_mode
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(mode):
                out[key] = ("link", os.readlink(path))
            elif stat.S_ISREG(mode):
                with open(path, "rb") as f:
                    out[key] = ("x" if mode & stat.S_IXUSR else "-", f.read())
    holding = {os.path.dirname(path) for path in out}
    for where, folders, _ in os.walk(root, topdown=False):
        key = os.path.relpath(where, root)
        parts = key.split(b"/")
        if key == b"." or any(p.lower() == b".git" or p.startswith(b"ignored") for p in parts):
            continue
        if key not in holding:
            out[key] = ("folder", b"")
        holding.add(os.path.dirname(key))
    return out


a, b = tree(sys.argv[1]), tree(sys.argv[2])
bad = [(k, "only in the first") for k in a.keys() - b.keys()] + [(k, "only in the second") for k in b.keys() - a.keys()]
bad += [(k, f"{a[k][0]} {a[k][1][:60]!r} and {b[k][0]} {b[k][1][:60]!r}") for k in a.keys() & b.keys() if a[k] != b[k]]
for path, why in sorted(bad)[:20]:
    print(f"{os.fsdecode(path)!r}: {why}")
print(f"{len(a)} files, {len(bad)} differ")
sys.exit(1 if bad else 0)

#!/usr/bin/env python3
"""The modules' include graph, drawn from the sources, against the table of docs/architecture.md.

A module is a folder of src/ with the folder of the same name in include/exp/; `kernels` is one of its own.
It may include what the table's "may use" names, and what those may use. Run: layers_test.py SOURCE_DIR
"""
import os
import re
import sys
import tempfile

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", re.M)
SOURCES = (".cpp", ".h", ".cu", ".cuh")
SOURCES_ONLY = "(not in its headers)"  # behind a module that the public headers must not include


def read_table(document):
    """What each module may use directly: {module: {other: whether its public headers may, too}}."""
    table = {}
    for name, uses in ROW.findall(document):
        table[name] = {}
        for use in uses.split(","):
            other = use.replace(SOURCES_ONLY, "").strip()
            if re.fullmatch(r"\w+", other):
                table[name][other] = SOURCES_ONLY not in use
    for name in table:
        if "all" in table[name]:
            table[name] = {other: True for other in table if other != name}
    return table


def module_of(path):
    parts = path.split("/")
    if parts[0] == "kernels":
        return "kernels"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["include", "exp"] and len(parts) > 3:
        return parts[2]
    return None


def target_of(include):
    parts = include.split("/")
    if parts[0] == "kernels":
        return "kernels"
    return parts[1] if parts[0] in ("src", "exp") and len(parts) > 2 else None


def sources(root):
    for top in ("src", "include", "kernels"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, root), f.read()


def reachable(table, name):
    seen, todo = set(), list(table.get(name, {}))
    while todo:
        other = todo.pop()
        if other not in seen:
            seen.add(other)
            todo += table.get(other, {})
    return seen


def faults(root):
    """A line for each include that the table doesn't allow, and each contradiction of the table."""
    with open(os.path.join(root, "docs/architecture.md"), encoding="utf-8") as f:
        table = read_table(f.read())
    found = [f"docs/architecture.md: `{m}` may use itself by way of others" for m in table if m in reachable(table, m)]
    used = set()
    for path, text in sources(root):
        module = module_of(path)
        if module is None or module not in table:
            found.append(f"{path}: is of no module that docs/architecture.md lists")
            continue
        allowed, public = reachable(table, module), path.startswith("include/")
        for include in INCLUDE.findall(text):
            target = target_of(include)
            if public and include.startswith("src/"):
                found.append(f"{path}: a public header includes {include}")
            if target is None or target == module:
                continue
            used.add((module, target))
            if target not in allowed:
                found.append(f"{path}: {module} may not use {target} ({include})")
            elif public and not table[module].get(target, True):
                found.append(f"{path}: the headers of {module} may not use {target} ({include})")
    found += cycles(used)
    # What the table grants and nobody uses is out of date.
    found += [f"docs/architecture.md: `{m}` doesn't use {o}" for m in table if m != "cli"
              for o in table[m] if (m, o) not in used]
    return found


def cycles(edges):
    graph = {}
    for module, target in edges:
        graph.setdefault(module, {})[target] = True
    return [f"a cycle: {m} includes itself by way of {', '.join(sorted(t for t in graph[m] if m in reachable(graph, t)))}"
            for m in sorted(graph) if m in reachable(graph, m)]


TABLE = """| module | holds | may use |
|---|---|---|
| `base` | b | – |
| `graph` | g | base |
| `config` | c | base |
| `data` | d | base, config (not in its headers) |
| `train` | t | graph, data |
| `record` | r | base |
"""
FINE = {"include/exp/base/a.h": "", "src/graph/a.cpp": "base/x", "src/config/a.cpp": "base/x", "src/record/a.cpp": "base/x",
        "src/data/a.cpp": "base/x config/x", "src/train/a.cpp": "graph/x data/x base/x config/x"}


def self_test():
    """Made-up trees with one forbidden include each."""
    def tree(files):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(f"{root}/docs")
            with open(f"{root}/docs/architecture.md", "w", encoding="utf-8") as f:
                f.write(TABLE)
            for name, uses in files.items():
                os.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
                with open(f"{root}/{name}", "w", encoding="utf-8") as f:
                    f.writelines(f'#include "exp/{use}.h"\n' for use in uses.split())
            return faults(root)

    assert tree(FINE) == [], tree(FINE)
    for name, use, text in [("src/train/b.cpp", "record/x", "train may not use record"),
                            ("src/config/b.cpp", "train/x", "config may not use train"),
                            ("src/graph/b.cpp", "config/x", "graph may not use config"),
                            ("include/exp/data/b.h", "config/x", "headers of data may not use config"),
                            ("src/base/b.cpp", "graph/x", "a cycle: base includes itself by way of graph"),
                            ("src/cli/b.cpp", "base/x", "of no module"),
                            ("include/exp/graph/b.h", "", "")]:
        said = "\n".join(tree({**FINE, name: use}))
        assert (text in said) if text else said == "", (name, use, said)
    assert "`record` doesn't use base" in "\n".join(tree({k: v for k, v in FINE.items() if "record" not in k}))


if __name__ == "__main__":
    self_test()
    problems = faults(sys.argv[1])
    print("\n".join(problems) or "layers: every include goes the way that docs/architecture.md says")
    sys.exit(1 if problems else 0)

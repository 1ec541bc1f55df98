"""Compares two files of resolved configs: compare.py NAME REFERENCE OURS [DELIBERATE]. Prints a row of the table and every
difference; exits 1 when there is one. DELIBERATE names what exp does otherwise on purpose, a rule a line:
RULE<TAB>PATTERN of the config's path<TAB>reason."""
import fnmatch
import gzip
import json
import sys


def lines(path):
    opener = gzip.open if path.endswith('.gz') else open
    with opener(path, 'rt', encoding='utf-8') as f:
        for line in f:
            record = json.loads(line)
            yield record['config'], record


def float_tag(value):
    return {'.nan': float('nan'), '.inf': float('inf'), '-.inf': float('-inf')}[value]


def normal(value, reference):
    if isinstance(value, dict):
        if list(value) == ['!!float']:
            return float_tag(value['!!float'])
        return {k: normal(v, reference) for k, v in value.items() if not (reference and k == '_delete_')}
    if isinstance(value, list):
        return [normal(v, reference) for v in value]
    return value


def leaks(value):
    """Whether mmengine left `_delete_` in place, as it does where the base has no such key (mmdetection#6657); exp never does."""
    if isinstance(value, dict):
        return '_delete_' in value or any(leaks(v) for v in value.values())
    return isinstance(value, list) and any(leaks(v) for v in value)


def short(config):
    """The path below the corpus' own folder."""
    for mark in ('/.mim/configs/', '/conformance/'):
        if mark in config:
            return config.split(mark, 1)[1]
    return config


def differ(a, b, path=''):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            at = f'{path}.{key}' if path else key
            if key not in a:
                return f'{at}: only ours has it: {b[key]!r}'[:200]
            if key not in b:
                return f'{at}: only the reference has it: {a[key]!r}'[:200]
            found = differ(a[key], b[key], at)
            if found:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            found = differ(x, y, f'{path}.{i}')
            if found:
                return found
        return None
    same = type(a) is type(b) and (a == b or (a != a and b != b))
    return None if same else f'{path}: reference {a!r}, ours {b!r}'[:200]


def main():
    name, reference, ours = sys.argv[1:4]
    rules = []
    if len(sys.argv) > 4:
        with open(sys.argv[4], encoding='utf-8') as f:
            rules = [l.rstrip('\n').split('\t') for l in f if l.strip() and not l.startswith('#')]
    mine = dict(lines(ours))
    equal = both_fail = ours_only = deliberate = leaking = total = 0
    wrong, notes = [], []
    for config, theirs in lines(reference):
        total += 1
        us = mine[config]
        if 'error' in theirs:
            if 'error' in us:
                both_fail += 1
                ours_say = us["error"].splitlines()[0].replace(config.removesuffix(short(config)), '')
                notes.append(f'  {name}: broken: {short(config)}\n    exp: {ours_say}\n    peer: {theirs["error"][:160]}')
            else:
                ours_only += 1
                notes.append(f'  {name}: only exp reads: {short(config)}: {theirs["error"][:160]}')
            continue
        problem = ('refused: ' + us['error'].splitlines()[0]) if 'error' in us else differ(
            normal(theirs['resolved'], True), normal(us['resolved'], False))
        if problem is None:
            equal += 1
            leaking += leaks(theirs['resolved'])
            continue
        reason = next((r[2] for r in rules if r[0] == name and fnmatch.fnmatch(config, r[1])), None)
        if reason:
            deliberate += 1
            notes.append(f'  {name}: deliberate: {short(config)}: {problem} ({reason})')
        else:
            wrong.append(f'  {name}: DIFFERS: {short(config)}: {problem}')
    if leaking:
        notes.append(f'  {name}: equal but for _delete_, which the peer leaves behind in {leaking} of them (mmdetection#6657)')
    loaded = total - both_fail - ours_only
    share = 100.0 * equal / loaded if loaded else 100.0
    print(f'| {name} | {total} | {loaded} | {equal} | {share:.1f} % | {deliberate} | {ours_only} | {both_fail} | {len(wrong)} |')
    for note in notes + wrong:
        print(note, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())

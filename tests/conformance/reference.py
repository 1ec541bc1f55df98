"""Resolves configs with mmengine's own loader; the counterpart of exp_config_dump.

python reference.py [--quiet] < list > lines
"""
import contextlib
import json
import sys
import time
import warnings

warnings.simplefilter('ignore')
from mmengine.config import Config  # noqa: E402

quiet = '--quiet' in sys.argv


def plain(value):
    """Tuples and sets as lists, keys as strings: what a config can hold."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {'!python': repr(value)}


start = time.time()
good = bad = 0
for line in sys.stdin:
    path = line.rstrip('\n')
    out = {'config': path}
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a config may print
            config = Config.fromfile(path, import_custom_modules=False, format_python_code=False)
        out['resolved'] = plain(config.to_dict())
        good += 1
    except Exception as e:  # whatever is wrong with the config
        out['error'] = f'{type(e).__name__}: {e}'
        bad += 1
    if not quiet:
        print(json.dumps(out))
print(f'{good} resolved, {bad} refused, {time.time() - start:.3f} s', file=sys.stderr)

"""Writes COUNT configs of one random expression each, x1.py, x2.py, ..., and what CPython makes of them:
expressions.py SEED COUNT > reference. Expressions that CPython refuses are left out."""
import json
import random
import sys
import warnings

warnings.simplefilter('ignore')
rng = random.Random(int(sys.argv[1]))
pick = rng.choice

NUMBERS = ['0', '1', '2', '3', '-1', '7', '10', '0.5', '2.5', '-3.25', '1e3', '1e-5', '100', 'True', 'False', '255', '1e16', '3.0']
STRINGS = ["'a'", "'abc'", "''", "'a,b,c'", "'Hello World'", "' x '", "'x_y_z'", "'%d-%s'", "'{}:{}'", "'12'", "'1.5'", "'aAbB'", "'a/b/c.txt'"]
LISTS = ['[]', '[1, 2, 3]', "['a', 'b']", '(1, 2)', '()', '(5,)', '[[1], [2, 3]]', '[3, 1, 2]', 'list(range(5))']
DICTS = ['{}', "{'a': 1}", 'dict(a=1, b=2)', "{1: 'x', 2.0: 'y'}", "{'k': [1, 2]}"]
SPECS = ['', '>8', '<6', '^7', '05d', '.2f', '8.3f', '+d', 'x', '#x', 'b', 'e', '.3g', 'g', '%', ',', '_', 's', '.2', '010.4f', '=+8',
         '*^9', ' d', 'o', 'n<5', '.0f', '#b', '08', '+.1e', 'G', 'E']
PERCENTS = ['5d', '-5d', '05d', '.2f', '8.3f', 's', 'r', 'x', 'e', 'g', '10s', '-10s', '+d', '#x', 'o', '.3s', 'i', '%d %%']


def number(depth):
    return pick(NUMBERS)


def text(depth):
    return pick(STRINGS)


def bounds():
    part = lambda: pick(['', '', '-1', '1', '0', '2', '-2', '5', '-9'])
    step = pick(['', '', '', '-1', '2', '-2'])
    return f'{part()}:{part()}' + (f':{step}' if step else '')


def sequence(d):
    if d <= 0:
        return pick(LISTS)
    return pick([
        lambda: '[' + ', '.join(anything(d - 1) for _ in range(rng.randint(0, 3))) + ']',
        lambda: f'[{anything(d - 1)} for i in range({rng.randint(0, 4)})]',
        lambda: f'list(map(str, {sequence(d - 1)}))',
        lambda: f'sorted({sequence(0)}, key=str, reverse={pick(["True", "False"])})',
        lambda: f'{sequence(d - 1)} + {sequence(d - 1)}',
        lambda: f'{sequence(d - 1)}[{bounds()}]',
        lambda: f'{text(d)}.split({pick(["", repr(","), repr("_"), repr("a"), "None"])})',
        lambda: f'[*{sequence(d - 1)}, *{text(0)}]',
        lambda: f'list(zip({sequence(d - 1)}, {text(d - 1)}))',
        lambda: f'list(enumerate({sequence(d - 1)}, {rng.randint(-2, 3)}))',
        lambda: f'{sequence(d - 1)} * {rng.randint(-1, 3)}',
        lambda: f'list(reversed({sequence(d - 1)}))',
    ])()


def mapping(d):
    if d <= 0:
        return pick(DICTS)
    return pick([
        lambda: f"{{'x': {anything(d - 1)}, **{mapping(d - 1)}}}",
        lambda: f'{{str(k): {anything(d - 1)} for k in {sequence(d - 1)}}}',
        lambda: f'{mapping(d - 1)} | {mapping(d - 1)}',
        lambda: f'dict.fromkeys({text(d - 1)}, {anything(d - 1)})',
    ])()


def arithmetic(d):
    if d <= 0:
        return number(d)
    operator = pick(['+', '-', '*', '/', '//', '%', '**', '<<', '>>', '&', '|', '^'])
    return pick([
        lambda: f'({arithmetic(d - 1)} {operator} {arithmetic(d - 1)})',
        lambda: f'abs({arithmetic(d - 1)})',
        lambda: f'round({arithmetic(d - 1)}, {pick(["0", "1", "2", "-1", "None"])})',
        lambda: f'int({arithmetic(d - 1)})',
        lambda: f'float({arithmetic(d - 1)})',
        lambda: f'max({arithmetic(d - 1)}, {arithmetic(d - 1)})',
        lambda: f'-{arithmetic(d - 1)}',
        lambda: f'divmod({arithmetic(d - 1)}, {arithmetic(d - 1)})',
        lambda: f'len({sequence(d - 1)})',
        lambda: f'sum({sequence(d - 1)})',
        lambda: f'{sequence(d - 1)}[{rng.randint(-3, 3)}]',
        lambda: f'({arithmetic(d - 1)} if {condition(d - 1)} else {arithmetic(d - 1)})',
        lambda: f'{text(d)}.count({text(0)})',
        lambda: f'{text(d)}.find({text(0)})',
        lambda: f'(lambda q, *r, w=2: q * w)({arithmetic(d - 1)})',
        lambda: f'{mapping(d - 1)}.get({text(0)}, {number(0)})',
    ])()


def condition(d):
    if d <= 0:
        return pick(['True', 'False', 'None'])
    return pick([
        lambda: f'{arithmetic(d - 1)} {pick(["<", "<=", ">", ">=", "==", "!="])} {arithmetic(d - 1)}',
        lambda: f'{text(0)} in {text(0)}',
        lambda: f'{anything(d - 1)} in {sequence(d - 1)}',
        lambda: f'not {anything(d - 1)}',
        lambda: f'({anything(d - 1)} and {anything(d - 1)})',
        lambda: f'({anything(d - 1)} or {anything(d - 1)})',
        lambda: f'{anything(d - 1)} is None',
        lambda: f'any({sequence(d - 1)})',
        lambda: f'all({sequence(d - 1)})',
        lambda: f'isinstance({anything(d - 1)}, {pick(["int", "str", "(list, tuple)", "float", "dict", "bool"])})',
        lambda: f'{anything(d - 1)} == {anything(d - 1)}',
        lambda: f'1 < {number(0)} <= {number(0)}',
    ])()


def wording(d):
    if d <= 0:
        return text(d)
    return pick([
        lambda: f"f'{{{arithmetic(d - 1)}:{pick(SPECS)}}}'",
        lambda: f"f'{{{anything(d - 1)}}}|{{{anything(0)}!r}}'",
        lambda: f"'{{:{pick(SPECS)}}}'.format({anything(d - 1)})",
        lambda: f"'%{pick(PERCENTS)}' % ({anything(d - 1)},)",
        lambda: f'{wording(d - 1)} + {wording(d - 1)}',
        lambda: f'{wording(d - 1)}.{pick(["upper", "lower", "title", "capitalize", "strip", "swapcase", "lstrip", "rstrip"])}()',
        lambda: f'{wording(d - 1)}.replace({text(0)}, {text(0)}{pick(["", ", 1", ", 0", ", -1"])})',
        lambda: f'{text(0)}.join({sequence(0)})',
        lambda: f'str({anything(d - 1)})',
        lambda: f'repr({anything(d - 1)})',
        lambda: f'{wording(d - 1)}[{bounds()}]',
        lambda: f'{wording(d - 1)}[{rng.randint(-3, 3)}]',
        lambda: f'{wording(d - 1)}.{pick(["center", "ljust", "rjust"])}({rng.randint(0, 12)})',
        lambda: f'{wording(d - 1)}.zfill({rng.randint(0, 9)})',
        lambda: f'{text(0)}.rsplit({pick(["None", repr(","), repr("a")])}, {rng.randint(-1, 2)})',
        lambda: f'{text(0)}.{pick(["partition", "rpartition"])}({pick([repr(","), repr("a"), repr("/")])})',
        lambda: f'hex({arithmetic(0)})',
        lambda: f'{text(0)}.{pick(["isdigit", "isalpha", "isalnum", "isupper", "islower", "isspace", "isidentifier"])}()',
        lambda: f'{text(0)} * {rng.randint(-1, 3)}',
        lambda: f'{text(0)}.{pick(["startswith", "endswith", "removeprefix", "removesuffix"])}({text(0)})',
        lambda: f'{text(0)}.splitlines()',
    ])()


def anything(d):
    return pick([number, text, sequence, mapping, arithmetic, condition, wording])(d)


def plain(value):
    if isinstance(value, dict):
        if len({str(k) for k in value}) < len(value):
            raise TypeError  # 1 and '1', which a config can't tell apart
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, int) and not -2**63 <= value < 2**63 or isinstance(value, str) and len(value) > 5000:
        raise OverflowError
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError


count = 0
while count < int(sys.argv[2]):
    expression = anything(3)
    if len(expression) > 400:
        continue
    try:
        value = plain(eval(expression, {}))
    except Exception:  # CPython refuses it, or exp's ints end at 64 bits
        continue
    count += 1
    with open(f'x{count}.py', 'w') as f:
        f.write(f'v = {expression}\n')
    print(json.dumps({'config': f'x{count}.py', 'resolved': {'v': value}}))

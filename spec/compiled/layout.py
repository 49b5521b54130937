"""The state as C: a working form with a cell for every entry, and a packed one for the table."""

from collections.abc import Iterator
from typing import Any

from nullblock.spec.compiled.context import Context, Field
from nullblock.spec.compiled.values import encode
from nullblock.spec.explorer.model import ModelEnv

ROOM = {"R": ("NR", "0"), "T": ("NT", "0"), "B": ("NB + 1", "0"), "I": ("NI", "0")}


def constants(c: Context) -> Iterator[str]:
    """The sizes of a scope."""
    env: ModelEnv = c.env
    yield f"#define NR {len(c.requests)}"
    yield f"#define NG {len(env.groups)}"
    yield "#define NT (NR * NG)"
    yield f"#define NB {env.usable}"
    yield f"#define NI {c.sizes.indices}"
    yield f"#define NQ {len(env.indices)}"
    yield "#define NONE (-100)"
    yield "#define FAILS (-102)"
    yield "#define ROOM (-103)"
    yield f"#define SEQUENCE {c.sizes.indices + len(c.requests) + env.usable}"


def _extent(f: Field) -> str:
    return "".join(f"[{ROOM[k][0]}]" for k in f.keys)


def _cells(f: Field) -> str:
    return " * ".join(f"({ROOM[k][0]})" for k in f.keys) or "1"


def _packed(c: Context, f: Field) -> str:
    if not f.is_set:
        return c.sizes.cell
    tables = len(c.requests) * len(c.env.groups)
    room = {"B": c.env.usable + 1, "R": len(c.requests), "T": tables}
    members = room.get(f.value[1], 64)
    return next(f"uint{n}_t" for n in (8, 16, 32, 64) if members <= n)


def structs(c: Context) -> Iterator[str]:
    """The two forms of a state."""
    fields = c.fields.values()
    yield "typedef struct {"
    yield from (f"  {'bits' if f.is_set else 'int'} {f.name}{_extent(f)};" for f in fields)
    yield "} S;"
    yield "typedef struct {"
    for f in sorted(fields, key=lambda f: -int(_packed(c, f).strip("uint_"))):
        yield f"  {_packed(c, f)} {f.name}[{_cells(f)}];"
    yield "} P;"
    yield "static S st, was, scratch;"


def packing(c: Context) -> Iterator[str]:
    """From the working form to the packed one, and back."""
    yield "static void pack(P *p, const S *s) {"
    yield "  int lost = 0;"
    for f in c.fields.values():
        at = f"((const {'bits' if f.is_set else 'int'} *)&s->{f.name})[i]"
        kind = _packed(c, f)
        yield f"  for (int i = 0; i < {_cells(f)}; i++) {{"
        yield f"    p->{f.name}[i] = ({kind}){at};"
        kept = f"p->{f.name}[i] != {at}"
        low = "" if f.is_set else f" | ({at} <= NONE && {at} != NONE && {at} != -101)"
        yield f"    lost |= {kept}{low};"
        yield "  }"
    yield '  if (lost) no_room("a cell");'
    yield "}"
    yield "static void unpack(S *s, const P *p) {"
    for f in c.fields.values():
        kind = "bits" if f.is_set else "int"
        to = f"(({kind} *)&s->{f.name})[i]"
        yield f"  for (int i = 0; i < {_cells(f)}; i++) {to} = p->{f.name}[i];"
    yield "}"


def access(c: Context) -> Iterator[str]:
    """Reading entries, which is always possible, and writing them, if there is room."""
    for f in c.fields.values():
        if not f.is_map:
            continue
        kind = "bits" if f.is_set else "int"
        names = [f"k{i}" for i in range(len(f.keys))]
        parameters = ", ".join(f"int {n}" for n in names)
        inside = " && ".join(
            f"{n} >= 0 && {n} < {ROOM[k][0]}" for n, k in zip(names, f.keys, strict=True)
        )
        at = f"s->{f.name}" + "".join(f"[{n}]" for n in names)
        yield f"static inline {kind} read_{f.name}(const S *s, {parameters}) {{"
        yield f"  return {inside} ? {at} : {f.default};"
        yield "}"
        yield f"static inline void write_{f.name}(S *s, {parameters}, {kind} value) {{"
        yield f'  if (!({inside})) no_room("{f.name}");'
        yield f"  {at} = value;"
        yield "}"
        yield f"static inline void blank_{f.name}(S *s) {{"
        yield f"  for (int i = 0; i < {_cells(f)}; i++) (({kind} *)s->{f.name})[i] = {f.default};"
        yield "}"


def renaming(c: Context) -> Iterator[str]:
    """Every block under another name, wherever it stands."""
    yield "static inline int renamed(const int *name, int b) {"
    yield "  return b >= 1 && b <= NB ? name[b] : b;"
    yield "}"
    yield "static void rename_fields(const int *name) {"
    for f in c.fields.values():
        text = _renamed(f)
        if text:
            yield text
    yield "}"


def _renamed(f: Field) -> str:
    if "B" not in f.keys and f.value not in ("B", "{B}"):
        return ""
    names = [f"k{i}" for i in range(len(f.keys))]
    here = "".join(f"[{n}]" for n in names)
    there = "".join(
        f"[renamed(name, {n})]" if k == "B" else f"[{n}]"
        for n, k in zip(names, f.keys, strict=True)
    )
    kind = "bits" if f.is_set else "int"
    value = f"old{here}"
    if f.value == "B":
        value = f"renamed(name, old{here})"
    if f.value == "{B}":
        value = "moved"
        before = (
            f"bits moved = 0, m = old{here}; "
            "while (m) { moved = with(moved, renamed(name, lowest(m))); m &= m - 1; } "
        )
    else:
        before = ""
    body = f"{{ {before}st.{f.name}{there} = {value}; }}"
    for n, k in zip(reversed(names), reversed(f.keys), strict=True):
        body = f"for (int {n} = 0; {n} < {ROOM[k][0]}; {n}++) {body}"
    return f"  {{ {kind} old{_extent(f)}; memcpy(&old, &st.{f.name}, sizeof old); {body} }}"


def start(c: Context, s: Any) -> Iterator[str]:
    """The first state, as the readable form makes it."""
    yield "static void begin(void) {"
    for f in c.fields.values():
        value = getattr(s, f.name)
        if not f.is_map:
            yield f"  st.{f.name} = {_literal(c, f, value)};"
            continue
        yield f"  blank_{f.name}(&st);"
        for key, entry in value.items():
            keys = key if isinstance(key, tuple) else (key,)
            at = ", ".join(str(encode(k, c.requests)) for k in keys)
            yield f"  write_{f.name}(&st, {at}, {_literal(c, f, entry)});"
    yield "}"


def _literal(c: Context, f: Field, value: Any) -> str:
    if f.is_set:
        return str(sum(1 << encode(x, c.requests) for x in value)) + "u"
    return str(encode(value, c.requests))

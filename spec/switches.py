"""The switches of a profile by their names: read, set, compared and explained."""

from dataclasses import fields, replace

from nullblock.spec.profiles import Semantics, UnknownSwitch


def with_switches(base: Semantics, settings: list[str]) -> Semantics:
    """`base` with `SWITCH=VALUE` settings applied, each value true or false. Raises
    UnknownSwitch.
    """
    known = {f.name for f in fields(Semantics)}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known or value.lower() not in ("true", "false"):
            raise UnknownSwitch(
                f"{setting!r} is not SWITCH=true or SWITCH=false; the switches are "
                + ", ".join(sorted(known))
            )
        base = replace(base, **{name: value.lower() == "true"})
    return base


def switches(semantics: Semantics) -> dict[str, bool]:
    """Every switch and its value."""
    return {f.name: getattr(semantics, f.name) for f in fields(Semantics)}


def differences(a: Semantics, b: Semantics) -> list[str]:
    """The switches whose values differ."""
    left, right = switches(a), switches(b)
    return [name for name in left if left[name] != right[name]]


def meaning(switch: str) -> str:
    """What a switch decides: the string under its field in `Semantics`."""
    import ast
    import inspect

    body = ast.parse(inspect.getsource(Semantics)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == switch:
            assert isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            return str(text.value.value)
    raise UnknownSwitch(f"no switch {switch!r}")

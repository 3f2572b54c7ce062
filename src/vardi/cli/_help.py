"""The help of a command: its arguments as they are typed, without the types behind them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Described(TyperCommand):
    """A command whose help is the same in every version of Typer: names, texts, defaults, what is required."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line: arguments in brackets are optional."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        pieces = [_name(one) if one.required else f"[{_name(one)}]" for one in arguments]
        return [self.options_metavar, *pieces] if self.options_metavar else pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        shown = [one for one in self.get_params(ctx) if not getattr(one, "hidden", False)]
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            lines = [_line(one) for one in shown if one.param_type_name == kind]
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)


def _line(one: Any) -> tuple[str, str]:
    """Return how an argument or option is written, and its help."""
    is_option = one.param_type_name == "option"
    names = ", ".join(sorted(one.opts, key=len)) if is_option else ""
    takes = "" if is_option and one.is_flag else _name(one)
    default = one.default is not None and not (is_option and one.is_flag)
    said = [*([f"default: {one.default}"] if default else []), *(["required"] if is_option and one.required else [])]
    return f"{names} {takes}".strip(), "  ".join([one.help or "", *([f"[{'; '.join(said)}]"] if said else [])])


def _name(one: Any) -> str:
    return str(one.metavar or one.name.upper())

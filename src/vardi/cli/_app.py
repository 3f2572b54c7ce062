"""The commands of ``vardi``, with their help."""

from __future__ import annotations

from typing import Annotated

import typer

from vardi.cli._demo import demo
from vardi.cli._init import init
from vardi.cli._study import check, fit, report, sample
from vardi.cli._umbrella import umbrella
from vardi.cli._weigh import weigh

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nTo see what it does:    vardi demo\nWith your own data:     vardi init, then what each command says",
)


def _version(asked: bool) -> None:
    if asked:
        import vardi

        typer.echo(f"vardi {vardi.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """K biased samples of one population in, one debiased sample out."""


for command, short_help, *examples in (
    (demo, "Debias the bundled house prices, from start to finish.", "vardi demo", "vardi demo --output houses"),
    (
        init,
        "Write a study file, from questions or options.",
        "vardi init",
        "vardi init --source a=a.csv --bias 'a=price <= 22' --source b=b.csv",
    ),
    (check, "Check whether the samples can be compared.", "vardi check study.toml", "vardi check study.toml --json"),
    (
        fit,
        "Print a summary; write weights and a report.",
        "vardi fit study.toml",
        "vardi fit study.toml -o weights.parquet --report report.html",
        "vardi fit study.toml -o weights.csv --with-data --force --json",
        "vardi fit study.toml -o weights.csv --with-data --replicates 500",
    ),
    (
        weigh,
        "Weigh new rows by a saved fit.",
        "vardi weigh weights.fit.json new.parquet -o weighed.parquet",
        "vardi weigh weights.fit.json shop.duckdb --table customers -o weighed.csv",
    ),
    (sample, "Draw rows by weight.", "vardi sample study.toml -n 1000 --seed 1 -o drawn.parquet"),
    (
        report,
        "Write the report, as a web page or a PDF.",
        "vardi report study.toml",
        "vardi report study.toml -o report.pdf",
    ),
    (
        umbrella,
        "Combine umbrella windows into a free energy profile.",
        "vardi umbrella metadata.dat --unit kcal/mol --temperature 300",
        "vardi umbrella metadata.dat --unit kJ/mol --temperature 300 --column phi --picture profile.png",
    ),
):
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
    app.command(command.__name__, short_help=short_help, epilog=epilog)(command)

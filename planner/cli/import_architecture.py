"""`architectures import`: the architecture of a model from its config.json."""

from __future__ import annotations

import shlex

import click

from planner.cli.output import STANDARD_OUTPUT, show


@click.command("import")
@click.argument("model")
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, which ends in .yaml [standard output].")
@click.option("--name", metavar="NAME", help="What to call it (default: the name of the repository or folder).")
def import_architecture(model: str, path: str | None, name: str | None) -> None:
    """Turn the config.json of a model into an architecture.

    MODEL is the file, a folder that has one, or a repository on the Hugging
    Face Hub, which is taken from the cache where it is there (with the
    package huggingface_hub). A scenario reads the result as a path:
    architecture: FILE.

    Try: planner architectures import Qwen/Qwen2.5-7B -o my-model.yaml
    """
    from planner.catalogs.model_config import import_architecture as read_model
    from planner.documents.files import check_unread, check_writable, write_text_atomically
    from planner.documents.yaml_text import yaml_text
    from planner.errors import printable

    target = None if path in STANDARD_OUTPUT else path
    if target is not None:
        if not target.endswith((".yaml", ".yml")):
            raise click.UsageError("FILE must end in .yaml: so a scenario knows it", click.get_current_context())
        check_writable(target)
    found = read_model(model, name)
    words = ["planner", "architectures", "import", model, *(["--name", name] if name else [])]
    card = found.card.model_dump(mode="json", exclude_defaults=True)
    text = f"# Written by {printable(shlex.join(words))}\n{yaml_text(card)}"
    if target is None:
        show(text.rstrip("\n"))
    else:
        check_unread(target)
        write_text_atomically(target, text)
    show(f"{found.card.name}: {found.card.family}, {found.card.parameters:,} parameters", err=True)
    if found.card.notes:
        show(f"  {found.card.notes}", err=True)
    if found.shipped:
        show(f"  the program knows it as {found.shipped}", err=True)

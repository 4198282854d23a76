"""Descriptions of fields in a JSON Schema: the docstring below each field, read from the source when one is asked for.

pydantic has a setting for it (`use_attribute_docstrings`), which reads the source of every class at each import.
"""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

if TYPE_CHECKING:
    from pydantic_core.core_schema import ModelSchema


class DescribedSchema(GenerateJsonSchema):
    """The JSON Schema of pydantic with a description of each field that has none of its own there."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model with its fields described."""
        found = super().model_schema(schema)
        kind: type[BaseModel] = schema["cls"]
        said = self.descriptions(kind)
        for name, field in kind.model_fields.items():
            keys = (name, field.alias, field.validation_alias, field.serialization_alias)
            key = next((key for key in keys if isinstance(key, str) and key in found.get("properties", {})), None)
            if key is not None and name in said:
                found["properties"][key].setdefault("description", said[name])
        return found

    def descriptions(self, kind: type[BaseModel]) -> dict[str, str]:
        """Return the description of each field of a model that has one."""
        return described(kind)


def described(kind: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a model; of one that is written anew in a subclass without one, the former.

    Empty where there is no source to read.
    """
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            said |= _of_module(base.__module__).get(base.__qualname__, {})
    return said


@functools.cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by class of a module."""
    file = getattr(sys.modules.get(name), "__file__", None)
    try:
        tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):  # only compiled files are there
        return {}
    return {node.name: _of_class(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    said = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            said[field.target.id] = " ".join(below.value.value.split())
    return said

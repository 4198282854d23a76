"""Parts that most files do not have: their models are made when the first file has them.

To make a model of pydantic takes a millisecond. A model with `defer_build=True` that others have as `Deferred[Model]`
is not made with them: a plan of training has no service, and need not wait for the models of services. Of `later` not
even the module is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_MODEL = "planner_model"
"""Key of the metadata of a schema that holds the model behind it, or what finds it."""


class _Deferred:
    """Validates by a model of its own: faults keep their places, and the JSON Schema refers to the model as ever."""

    def __init__(self, module: str = "", name: str = "") -> None:
        self.module, self.name = module, name

    def model(self, source: Any) -> type[BaseModel]:
        """Return the model: the type itself, or the one of a module that is loaded now."""
        return cast("type[BaseModel]", getattr(import_module(self.module), self.name) if self.module else source)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        del handler  # which would make the model now

        def validate(value: Any) -> Any:
            return self.model(source).model_validate(value)

        return core_schema.no_info_plain_validator_function(validate, metadata={_MODEL: source})

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        model = self.model(schema["metadata"][_MODEL])
        model.model_rebuild()
        made, definitions = cast("Any", model.__pydantic_core_schema__), []
        if made["type"] == "definitions":
            made, definitions = made["schema"], made["definitions"]
        # As a definition, to which the models around it refer by its name.
        named = {**made, "ref": f"{model.__module__}.{model.__qualname__}:{id(model)}"}
        return handler(core_schema.definitions_schema(cast("core_schema.CoreSchema", named), definitions))


_T = TypeVar("_T")

Deferred = Annotated[_T, _Deferred()]
"""A model that is made when the first value is validated."""


def later(module: str, name: str) -> Any:
    """Return the type of a part whose model is loaded from a module when the first value is validated."""
    return Annotated[Any, _Deferred(module, name)]

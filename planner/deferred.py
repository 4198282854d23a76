"""Parts that most files do not have: their models are made when the first file has them.

To make a model of pydantic takes a millisecond. A model with `defer_build=True` that others have as `Deferred[Model]`
is not made with them: a plan of training has no service, and need not wait for the models of services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_MODEL = "planner_model"
"""Key of the metadata of a schema that holds the model behind it."""


class _Deferred:
    """Validates by a model of its own: faults keep their places, and the JSON Schema refers to the model as ever."""

    def __get_pydantic_core_schema__(
        self, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        del handler  # which would make the model now
        return core_schema.no_info_plain_validator_function(source.model_validate, metadata={_MODEL: source})

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        model: type[BaseModel] = schema["metadata"][_MODEL]
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

"""`record`: an older name of the frozen dataclass."""

from dataclasses import dataclass as record

__all__ = ["record"]

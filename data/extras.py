"""Packages that only some uses of Duet need: those of its extras."""

import importlib
import importlib.util
from importlib.machinery import ModuleSpec
from types import ModuleType

from data.errors import DuetError


def extra(package: str, name: str) -> ModuleType:
    """A package of the extra of that name, or a module of one. DuetError where it is not installed, or broken."""
    top = package.partition(".")[0]
    located(top, name)
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _lacking(top, name, f"cannot be imported ({error})") from None


def located(package: str, name: str) -> ModuleSpec:
    """Where such a package is, without importing it. DuetError where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise _lacking(package, name, "is not installed")
    return spec


def _lacking(package: str, name: str, how: str) -> DuetError:
    return DuetError(f'this needs the package {package}, which {how}: pip install -e ".[{name}]"')

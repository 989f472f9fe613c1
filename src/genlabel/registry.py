"""Registries: densities, mixers, labelers, samplers and attacks by name.

A class in a module of the package registers itself with one line above it, `@DENSITIES.register("kernel")`; its name
then works in constructors, on the command line and in saved models. Another package registers its classes by an entry
point of the group `genlabel.densities`, `genlabel.mixing` (samplers too), `genlabel.labeling` or `genlabel.attacks`:
the module that it names is imported when names are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar, cast

from genlabel._validation import check_choice

_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)


class Registry(Generic[_T]):
    """Classes of one kind by name.

    Parameters
    ----------
    kind : str
        Word for an entry in messages, such as "density".
    packages : str
        Packages whose modules register our own classes. The first is also the group of the entry points of others.

    Examples
    --------
    >>> shapes = Registry("shape", "genlabel.mixing")
    >>> @shapes.register("square", side=2)
    ... class Square:
    ...     def __init__(self, side=1):
    ...         self.side = side
    >>> shapes.create("square").side
    2
    >>> shapes.create("circle")
    Traceback (most recent call last):
    ValueError: shape='circle' is not known; choose one of 'square'
    """

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind, self.packages = kind, packages
        self._factories: dict[str, partial[_T]] = {}
        self._complete = False

    def register(self, name: str, **parameters: Any) -> Callable[[_Class], _Class]:
        """Return a decorator that registers a class under a name.

        The name stands for an instance with the given constructor parameters; the others have their defaults.
        """

        def decorate(cls: _Class) -> _Class:
            registered: Any = self._factories[name].func if name in self._factories else cls
            if registered.__qualname__ != cls.__qualname__:  # the same class again comes from a reloaded module
                raise ValueError(f"{self.kind} {name!r} is registered by {registered.__name__}; choose another name")
            self._factories[name] = partial(cls, **parameters)
            return cls

        return decorate

    def names(self) -> tuple[str, ...]:
        """Return all names: ours in the order of registration, then those of other packages."""
        return tuple(self.factories())

    def factories(self) -> dict[str, partial[_T]]:
        """Return functions by name that create an instance."""
        self._load()
        return dict(self._factories)

    def classes(self) -> dict[str, type[_T]]:
        """Return the classes by name."""
        return {name: cast(type[_T], factory.func) for name, factory in self.factories().items()}

    def create(self, name: str, also: str = "") -> _T:
        """Return a new instance by name; the error for an unknown name also suggests `also`."""
        factories = self.factories()
        check_choice(self.kind, name, factories, also)
        return factories[name]()

    def _load(self) -> None:
        """Import our packages and then the modules of the entry points, once."""
        if self._complete:
            return
        self._complete = True
        for name in self.packages:
            package = import_module(name)
            for module in iter_modules(getattr(package, "__path__", ()), f"{name}."):  # a single module has no path
                import_module(module.name)
        for point in entry_points(group=self.packages[0]):
            point.load()


DENSITIES: Registry[Any] = Registry("density", "genlabel.densities")
"""Class-conditional densities by name."""
MIXERS: Registry[Any] = Registry("mixer", "genlabel.mixing")
"""Mixers by name."""
LABELERS: Registry[Any] = Registry("labeler", "genlabel.labeling")
"""Labelers by name; OnlineGenLabel has none, because its density needs the number of classes."""
SAMPLERS: Registry[Any] = Registry("sampler", "genlabel.mixing", "genlabel.labeling")
"""Samplers by name."""
ATTACKS: Registry[Any] = Registry("attack", "genlabel.attacks")
"""Attacks by name."""

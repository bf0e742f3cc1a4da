"""A column that must not be read: what a formula depends on is tried, not declared."""

from __future__ import annotations

from typing import Never


class BatchRead(Exception):
    """A formula asked for what it was not to depend on."""


class Unread:
    """Stands for a column that must not be read: any use of it raises BatchRead."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> Never:
        raise BatchRead

    __getattr__ = __array__ = __array_ufunc__ = __array_function__ = __bool__ = __len__ = __getitem__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _refuse
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __neg__ = __pow__ = __rpow__ = __abs__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = _refuse
    __eq__ = __ne__ = _refuse

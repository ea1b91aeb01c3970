"""The one format in which values travel: msgspec structs and plain data as msgpack, large arrays as raw buffers.

A message is a table of lengths, a msgpack body, and the arrays that were too large to lie within it, each at a
multiple of 64 bytes. It is read in place: its large arrays are views of the memory that it came in. What a value
is follows from the type that the reader asks for; nothing in a message names code, and none is ever run.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview

_ALIGN = 64
_INLINE_BYTES = 2048  # arrays up to this size lie within the msgpack
_WORD = struct.Struct("<Q")
_INLINE, _APART = 1, 2  # codes of msgpack extensions
_PADDING = bytes(_ALIGN)
_KINDS = "biufc"  # of arrays: numbers and truth values
_Apart = Sequence[memoryview]


class MessageError(Exception):
    """The bytes are no message, or hold something else than was asked for."""


class Message(NamedTuple):
    """A value on its way: its msgpack body, and the bytes of the arrays that lie apart."""

    body: Buffer
    apart: _Apart = ()

    def pieces(self) -> list[Buffer]:
        """The message as bytes, in pieces to be sent one after the other; large arrays are not copied."""
        sizes = [len(array) for array in self.apart]
        table = struct.pack(f"<{len(sizes) + 2}Q", len(sizes) + 1, len(self.body), *sizes)
        pieces: list[Buffer] = [table + self.body]
        at = len(pieces[0])
        for array in self.apart:
            if gap := -at % _ALIGN:
                pieces.append(_PADDING[:gap])
            pieces.append(array)
            at += gap + len(array)
        return pieces

    def joined(self) -> Buffer:
        """The message as bytes, in one piece."""
        pieces = self.pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read(self, kind: Any = Any) -> Any:
        """The value, as the type asked for."""
        return read(self.body, kind, self.apart)


def pack(value: Any) -> Message:
    """The message for a value; large arrays are not copied into it."""
    apart: list[memoryview] = []

    def take_out(part: Any) -> Any:
        if isinstance(part, np.generic) and part.dtype.kind in "biuf":
            return part.item()
        if not isinstance(part, np.ndarray) or part.dtype.kind not in _KINDS:
            what = f"an array of {part.dtype}" if isinstance(part, np.ndarray) else f"a {type(part).__qualname__}"
            raise TypeError(f"{what} cannot be sent; numbers, text, lists, dicts, arrays and msgspec structs can")
        kind = part.dtype.str, part.shape
        if part.nbytes <= _INLINE_BYTES:
            return msgspec.msgpack.Ext(_INLINE, msgspec.msgpack.encode((*kind, part.tobytes())))
        apart.append(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        return msgspec.msgpack.Ext(_APART, msgspec.msgpack.encode((*kind, len(apart) - 1)))

    return Message(msgspec.msgpack.encode(value, enc_hook=take_out), apart)


def size(pieces: Iterable[Buffer]) -> int:
    """How many bytes a message has."""
    return sum(len(piece) for piece in pieces)


def unpack(data: Buffer) -> Message:
    """The message that lies in some bytes; they must not change while arrays of it are in use."""
    view = memoryview(data)
    try:
        (count,) = _WORD.unpack_from(view)
        if not 0 < count < len(view) // _WORD.size:
            raise MessageError("these bytes are no message")
        length, *sizes = struct.unpack_from(f"<{count}Q", view, _WORD.size)
    except struct.error as error:
        raise MessageError("these bytes are no message") from error
    at = _WORD.size * (count + 1)
    body = view[at : at + length]
    at += length
    apart = []
    for nbytes in sizes:
        at += -at % _ALIGN
        apart.append(view[at : at + nbytes])
        at += nbytes
    if at > len(view):
        raise MessageError(f"the message was cut off: {len(view)} of {at} bytes")
    return Message(body, apart)


def read(body: Buffer, kind: Any = Any, apart: _Apart = ()) -> Any:
    """The value of a msgpack body, or of part of one, as the type asked for."""
    try:
        reader = _readers.by_kind.get(kind)
        if reader is None:
            reader = _readers.by_kind[kind] = _Reader(kind)
        return reader.read(body, apart)
    except (ValueError, TypeError, IndexError, msgspec.MsgspecError) as error:
        raise MessageError(str(error)) from error


class _Reader:
    """Decodes one type; it holds the arrays of the message that is being read."""

    def __init__(self, kind: Any) -> None:
        self.apart: _Apart = ()
        self.decode = msgspec.msgpack.Decoder(kind, ext_hook=self.put_back, dec_hook=_only_arrays).decode

    def read(self, body: Buffer, apart: _Apart) -> Any:
        self.apart = apart
        try:
            return self.decode(body)
        finally:
            self.apart = ()

    def put_back(self, code: int, data: memoryview) -> NDArray[Any]:
        dtype, shape, where = msgspec.msgpack.decode(data, type=_LAYOUT[code])
        if np.dtype(dtype).kind not in _KINDS:
            raise ValueError(f"an array of {dtype} is not allowed in a message")
        if code == _INLINE:
            return np.frombuffer(where, dtype).reshape(shape).copy()
        return np.frombuffer(self.apart[where], dtype).reshape(shape)


class _Readers(threading.local):
    """The readers of this thread: one that is reading cannot be used by another."""

    def __init__(self) -> None:
        self.by_kind: dict[Any, _Reader] = {}


_LAYOUT: dict[int, Any] = {
    _INLINE: tuple[str, tuple[int, ...], bytes],
    _APART: tuple[str, tuple[int, ...], int],
}
_readers = _Readers()


def _only_arrays(kind: Any, part: Any) -> Any:
    """What msgspec asks about types that it does not know: arrays are such."""
    if isinstance(part, np.ndarray):
        return part
    name = getattr(kind, "__qualname__", kind)
    raise ValueError(f"expected {name}, got {type(part).__name__}")

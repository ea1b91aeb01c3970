"""Frozen structs with arrays in them <-> plain data beside a table of arrays. Nothing is ever executed on load."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

T = TypeVar("T")

VERSION = 1
_STATE = "state"  # the msgpack of everything that is no array, kept as an array of bytes
_ARRAY = "$array"


class DamagedError(Exception):
    """The bytes are not what was once written."""


def encode(value: Any) -> bytes:
    """A struct as the bytes of a safetensors file; equal structs give equal bytes."""
    arrays: dict[str, NDArray[Any]] = {}

    def take_out(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            arrays[f"{len(arrays):04d}"] = np.asarray(part, order="C")
            return {_ARRAY: f"{len(arrays) - 1:04d}"}
        raise NotImplementedError(f"cannot store a {type(part).__name__}")

    tree = msgspec.to_builtins(value, enc_hook=take_out)
    arrays[_STATE] = np.frombuffer(msgspec.msgpack.encode(tree), np.uint8)
    # One metadata entry only: the order of several is not the same from run to run.
    header = {"rookery": f"{VERSION} {_checksum(VERSION, arrays)}"}
    return safetensors.numpy.save(arrays, metadata=header)


def decode(data: bytes, kind: type[T]) -> T:
    """The struct that `encode` was given."""
    try:
        arrays = safetensors.numpy.load(data)
        header = msgspec.json.decode(data[8 : 8 + int.from_bytes(data[:8], "little")])
        written, checksum = header["__metadata__"]["rookery"].split()
        version = int(written)
        tree = msgspec.msgpack.decode(arrays[_STATE].tobytes())
    except (SafetensorError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise DamagedError(str(error)) from error
    if version > VERSION:
        raise DamagedError(f"written by a newer version (format {version}, this one reads up to {VERSION})")
    if checksum != _checksum(version, arrays):
        raise DamagedError("its checksum does not match")

    def put_back(kind: Any, part: Any) -> Any:
        if isinstance(part, dict) and part.keys() == {_ARRAY}:
            return arrays[part[_ARRAY]]
        raise ValueError(f"expected {kind}")

    try:
        return msgspec.convert(tree, kind, dec_hook=put_back)
    except msgspec.ValidationError as error:
        raise DamagedError(f"it holds something else than expected: {error}") from error


def _checksum(version: int, arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(f"{version} ".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()

"""Decodes protocol buffers without their description: enough to check what others would read."""

import struct


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of every field: int for varints, float for doubles, bytes for the rest."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
            if len(value) != length:
                raise ValueError("truncated")
        else:
            raise ValueError(f"wire type {kind}")
        yield number, value


class Message(dict):
    """{number: [values]}"""

    def __init__(self, data):
        super().__init__()
        for number, value in fields(data):
            self.setdefault(number, []).append(value)

    def one(self, number, default=0):
        values = self.get(number, [default])
        if len(values) != 1:
            raise ValueError(f"field {number} {len(values)} times")
        return values[0]

    def text(self, number):
        return self.one(number, b"").decode()

    def messages(self, number):
        return [Message(value) for value in self.get(number, [])]

    def packed(self, number):
        values, data, at = [], self.one(number, b""), 0
        while at < len(data):
            value, at = _varint(data, at)
            values.append(value)
        return values


def signed(value):
    return value - (1 << 64) if value >> 63 else value

# events.py: what is in files of TensorBoard events: `RUN TAG STEP VALUE` a line; RUN is the file's directory.
import os
import struct
import sys


def fields(data):
    """The fields of a protocol buffer: (number, value) for integers, floats, doubles and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        part = data[at:at + size]
        at += size
        yield key >> 3, struct.unpack("<d" if key & 7 == 1 else "<f", part)[0] if key & 7 in (1, 5) else part


def records(data):
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        yield dict(fields(data[at + 12:at + 12 + size]))
        at += 16 + size


for path in sys.argv[1:]:
    for event in records(open(path, "rb").read()):
        if 5 in event:
            scalar = dict(fields(dict(fields(event[5]))[1]))
            print(os.path.dirname(path), scalar[1].decode(), event.get(2, 0), repr(scalar[2]))

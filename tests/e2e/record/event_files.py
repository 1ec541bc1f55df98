"""Reads TensorBoard event files without TensorBoard: gives [(tag, step, value)], after checking every checksum."""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
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
        elif key & 7 == 1:
            yield key >> 3, data[at:at + 8]
            at += 8
        elif key & 7 == 5:
            yield key >> 3, data[at:at + 4]
            at += 4
        else:
            n = varint()
            yield key >> 3, data[at:at + n]
            at += n


def scalars(path):
    with open(path, "rb") as f:
        data = f.read()
    at, out = 0, []
    while at < len(data):
        head = data[at:at + 8]
        (n,) = struct.unpack("<Q", head)
        body = data[at + 12:at + 12 + n]
        assert struct.unpack("<I", data[at + 8:at + 12])[0] == crc32c(head), "length's checksum"
        assert struct.unpack("<I", data[at + 12 + n:at + 16 + n])[0] == crc32c(body), "record's checksum"
        at += 16 + n
        event = dict(fields(body))
        if 5 not in event:
            continue
        for _, value in fields(event[5]):
            v = dict(fields(value))
            step = event.get(2, 0)
            out.append((v[1].decode(), step - (1 << 64) if step >> 63 else step, struct.unpack("<f", v[2])[0]))
    return out

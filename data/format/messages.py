"""The protobuf messages of an ORC file's tail, stripe footers and indexes (ORC specification v1), built in code."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

# message: field: (number, type). A type is a protobuf scalar type or the name of a message here; a leading "*" means
# repeated. Enumerations are read as unsigned numbers, so that a value nobody knows is seen. Fields that nothing here
# needs are left out: protobuf skips them.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "PostScript": {
        "footer_bytes": (1, "uint64"),
        "compression": (2, "uint64"),
        "block_bytes": (3, "uint64"),
        "version": (4, "*uint32"),
        "metadata_bytes": (5, "uint64"),
        "writer_version": (6, "uint32"),
        "stripe_statistics_bytes": (7, "uint64"),
        "magic": (8000, "bytes"),
    },
    "Footer": {
        "header_bytes": (1, "uint64"),
        "content_bytes": (2, "uint64"),
        "stripes": (3, "*StripeInformation"),
        "types": (4, "*Type"),
        "metadata": (5, "*UserMetadataItem"),
        "rows": (6, "uint64"),
        "statistics": (7, "*ColumnStatistics"),
        "row_index_stride": (8, "uint32"),
        "writer": (9, "uint32"),
        "encryption": (10, "bytes"),
    },
    "StripeInformation": {
        "offset": (1, "uint64"),
        "index_bytes": (2, "uint64"),
        "data_bytes": (3, "uint64"),
        "footer_bytes": (4, "uint64"),
        "rows": (5, "uint64"),
    },
    "Type": {
        "kind": (1, "uint64"),
        "subtypes": (2, "*uint32"),
        "field_names": (3, "*bytes"),
    },
    "UserMetadataItem": {"name": (1, "bytes"), "value": (2, "bytes")},
    "IntegerStatistics": {"minimum": (1, "sint64"), "maximum": (2, "sint64"), "sum": (3, "sint64")},
    "DoubleStatistics": {"minimum": (1, "double"), "maximum": (2, "double"), "sum": (3, "double")},
    "BucketStatistics": {"count": (1, "*uint64")},
    "ColumnStatistics": {
        "values": (1, "uint64"),
        "integers": (2, "IntegerStatistics"),
        "doubles": (3, "DoubleStatistics"),
        "buckets": (5, "BucketStatistics"),
        "has_null": (10, "bool"),
    },
    "StripeStatistics": {"columns": (1, "*ColumnStatistics")},
    "Metadata": {"stripes": (1, "*StripeStatistics")},
    "Stream": {"kind": (1, "uint64"), "column": (2, "uint32"), "bytes": (3, "uint64")},
    "ColumnEncoding": {"kind": (1, "uint64"), "dictionary_size": (2, "uint32"), "bloom": (3, "uint32")},
    "StripeFooter": {
        "streams": (1, "*Stream"),
        "columns": (2, "*ColumnEncoding"),
        "writer_timezone": (3, "bytes"),
        "encryption": (4, "*bytes"),
    },
    "RowIndexEntry": {"positions": (1, "*uint64"), "statistics": (2, "ColumnStatistics")},
    "RowIndex": {"entries": (1, "*RowIndexEntry")},
    "BloomFilter": {"hashes": (1, "uint32"), "longs": (2, "*fixed64"), "bits": (3, "bytes")},
    "BloomFilterIndex": {"filters": (1, "*BloomFilter")},
}

_PACKAGE = "ps_cluster.orc"


class MessageError(ValueError):
    """Bytes that are not the message they should be."""


def parse(name: str, content: bytes) -> Any:
    """The message `name` in `content`. Raises `MessageError`."""
    parsed = _CLASSES[name]()
    try:
        parsed.ParseFromString(content)
    except message.DecodeError as error:
        raise MessageError(f"no {name} message") from error
    return parsed


def build(name: str, **fields: Any) -> bytes:
    """The bytes of message `name` with scalar `fields`."""
    result: bytes = _CLASSES[name](**fields).SerializeToString()
    return result


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="ps_cluster/orc.proto", package=_PACKAGE, syntax="proto2")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        added = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            declared = added.field.add(name=field, number=number, label=label)
            if kind in _MESSAGES:
                declared.type, declared.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                declared.type = field_type.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()

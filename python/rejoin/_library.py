"""The C library: where it is, and what its functions take. ``rejoin.h`` is their documentation."""

import ctypes
import ctypes.util
import os
import pathlib
from typing import Any

from ._arguments import text
from ._arrays import raw
from ._errors import Code, RejoinError

OK = 0
OVER = 64

Handle = ctypes.c_void_p
Prepare = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
Fold = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FoldObject = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)
Supplier = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("order", ctypes.c_int32),
        ("boot", ctypes.c_int32),
        ("boot_name", ctypes.c_char_p),
        ("prepare", Prepare),
        ("prepare_user", ctypes.c_void_p),
    ]


class Limits(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("join_millis", ctypes.c_uint64),
        ("call_millis", ctypes.c_uint64),
        ("finish_millis", ctypes.c_uint64),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("job", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("tracker", ctypes.c_char_p),
        ("listen", ctypes.c_char_p),
        ("ports", ctypes.c_char_p),
        ("host", ctypes.c_char_p),
        ("executor", ctypes.c_char_p),
        ("encrypt", ctypes.c_int32),
        ("tracker_timeout_millis", ctypes.c_uint64),
        ("log_memory", ctypes.c_uint64),
        ("log_disk", ctypes.c_uint64),
        ("spill", ctypes.c_char_p),
        ("durable", ctypes.c_char_p),
        ("durable_every", ctypes.c_uint32),
        ("own_copies", ctypes.c_uint64),
    ]


class TrackerConfig(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("world", ctypes.c_uint32),
        ("job", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("listen", ctypes.c_char_p),
        ("ports", ctypes.c_char_p),
        ("encrypt", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("join_file", ctypes.c_char_p),
        ("deaths", ctypes.c_uint32),
        ("lost_after_millis", ctypes.c_uint64),
        ("members_millis", ctypes.c_uint64),
        ("min", ctypes.c_uint32),
        ("max", ctypes.c_uint32),
        ("elastic_timeout_millis", ctypes.c_uint64),
        ("resize_interval_millis", ctypes.c_uint64),
        ("most_resizes", ctypes.c_uint32),
        ("own_may_be_lost", ctypes.c_int32),
    ]


class XgboostOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_char_p),
        ("hook", ctypes.c_int32),
    ]


class PageView(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("kind", ctypes.c_int32),
        ("from_sparse", ctypes.c_int32),
        ("rows", ctypes.c_uint32),
        ("columns", ctypes.c_uint32),
        ("values", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("partition", ctypes.c_uint32),
        ("labels", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("margins", ctypes.c_void_p),
        ("groups", ctypes.c_void_p),
        ("features", ctypes.c_void_p),
        ("row_ends", ctypes.c_void_p),
        ("value_columns", ctypes.c_void_p),
        ("spark_rows", ctypes.c_void_p),
        ("spark_rows_bytes", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("sha256", ctypes.c_char_p),
    ]


class Placement(ctypes.Structure):
    _fields_ = [
        ("local_rank", ctypes.c_uint32),
        ("local_size", ctypes.c_uint32),
        ("cross_rank", ctypes.c_uint32),
        ("cross_size", ctypes.c_uint32),
    ]


class Former(ctypes.Structure):
    _fields_ = [
        ("world", ctypes.c_uint32),
        ("rank", ctypes.c_int64),
        ("given", ctypes.POINTER(ctypes.c_uint32)),
        ("given_count", ctypes.c_size_t),
    ]


_STATUS = ctypes.c_int32
_TEXT = ctypes.c_char_p
_DATA = ctypes.c_void_p
_SIZE = ctypes.c_size_t
_U32 = ctypes.c_uint32
_U64 = ctypes.c_uint64
_I32 = ctypes.c_int32
_CALL = [_TEXT, ctypes.POINTER(Options)]

# Name: what it returns, what it takes.
_FUNCTIONS = {
    "rejoin_library_version": (_TEXT, []),
    "rejoin_log_level": (_STATUS, [_TEXT]),
    "rejoin_digest": (None, [_DATA, _SIZE, _TEXT]),
    "rejoin_join_launched": (_STATUS, [_TEXT, ctypes.POINTER(Limits), ctypes.POINTER(Handle)]),
    "rejoin_process_start": (_STATUS, [ctypes.POINTER(Config), ctypes.POINTER(Handle)]),
    "rejoin_process_message": (_TEXT, [Handle]),
    "rejoin_process_close": (None, [Handle]),
    "rejoin_join": (
        _STATUS,
        [Handle, _U32, _U32, _U32, _TEXT, ctypes.POINTER(Limits), ctypes.POINTER(Handle)],
    ),
    "rejoin_join_as_task": (
        _STATUS,
        [Handle, _U32, _U32, _U32, _TEXT, ctypes.POINTER(Limits), ctypes.POINTER(Handle)],
    ),
    "rejoin_join_again": (_STATUS, [Handle]),
    "rejoin_message": (_TEXT, [Handle]),
    "rejoin_rank": (_U32, [Handle]),
    "rejoin_world": (_U32, [Handle]),
    "rejoin_incarnation": (_U32, [Handle]),
    "rejoin_place": (_STATUS, [Handle, ctypes.POINTER(Placement)]),
    "rejoin_version": (_U32, [Handle]),
    "rejoin_close": (None, [Handle]),
    "rejoin_abandon": (_STATUS, [Handle, _STATUS, _TEXT]),
    "rejoin_print": (_STATUS, [Handle, _TEXT]),
    "rejoin_allreduce": (_STATUS, [Handle, _DATA, _SIZE, _I32, _I32, *_CALL]),
    "rejoin_allreduce_custom": (_STATUS, [Handle, _DATA, _SIZE, _SIZE, _TEXT, Fold, _DATA, *_CALL]),
    "rejoin_allreduce_object": (
        _STATUS,
        [Handle, _DATA, ctypes.POINTER(_SIZE), _SIZE, _TEXT, FoldObject, _DATA, *_CALL],
    ),
    "rejoin_reduce_scatter": (_STATUS, [Handle, _DATA, _SIZE, _DATA, _SIZE, _I32, _I32, *_CALL]),
    "rejoin_reduce_scatter_custom": (
        _STATUS,
        [Handle, _DATA, _SIZE, _DATA, _SIZE, _SIZE, _TEXT, Fold, _DATA, *_CALL],
    ),
    "rejoin_part": (_STATUS, [_U32, _U32, _SIZE, _I32, ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE)]),
    "rejoin_broadcast": (_STATUS, [Handle, _DATA, _SIZE, _I32, _U32, *_CALL]),
    "rejoin_allgather": (_STATUS, [Handle, _DATA, _SIZE, _DATA, _I32, *_CALL]),
    "rejoin_allgather_v": (
        _STATUS,
        [Handle, _DATA, _SIZE, _I32, ctypes.POINTER(_DATA), ctypes.POINTER(ctypes.POINTER(_SIZE)), *_CALL],
    ),
    "rejoin_barrier": (_STATUS, [Handle, *_CALL]),
    "rejoin_load": (
        _STATUS,
        [Handle, ctypes.POINTER(_U32), ctypes.POINTER(_DATA), ctypes.POINTER(_SIZE)],
    ),
    "rejoin_checkpoint": (_STATUS, [Handle, _DATA, _SIZE, _TEXT]),
    "rejoin_load_own": (_STATUS, [Handle, ctypes.POINTER(_DATA), ctypes.POINTER(_SIZE)]),
    "rejoin_former_world": (_STATUS, [Handle, ctypes.POINTER(Former)]),
    "rejoin_load_own_of": (_STATUS, [Handle, _U32, ctypes.POINTER(_DATA), ctypes.POINTER(_SIZE)]),
    "rejoin_checkpoint_with_own": (_STATUS, [Handle, _DATA, _SIZE, _DATA, _SIZE, _TEXT]),
    "rejoin_checkpoint_lazy": (_STATUS, [Handle, Supplier, Release, _DATA, _TEXT]),
    "rejoin_supply": (None, [_DATA, _DATA, _SIZE]),
    "rejoin_finish": (_STATUS, [Handle, _DATA, _SIZE]),
    "rejoin_tracker_open": (_STATUS, [ctypes.POINTER(TrackerConfig), ctypes.POINTER(Handle)]),
    "rejoin_tracker_message": (_TEXT, [Handle]),
    "rejoin_tracker_job": (_TEXT, [Handle]),
    "rejoin_tracker_secret": (_DATA, [Handle]),
    "rejoin_tracker_address": (_TEXT, [Handle]),
    "rejoin_tracker_poll": (_STATUS, [Handle, ctypes.c_uint64, ctypes.POINTER(_TEXT)]),
    "rejoin_tracker_is_over": (_I32, [Handle]),
    "rejoin_tracker_result": (_STATUS, [Handle, ctypes.POINTER(_DATA), ctypes.POINTER(_SIZE)]),
    "rejoin_tracker_notify": (_STATUS, [Handle, _TEXT, _TEXT]),
    "rejoin_tracker_leaves": (_STATUS, [Handle, _U32, _U32, _U32]),
    "rejoin_tracker_cancel": (_STATUS, [Handle, _STATUS, _TEXT]),
    "rejoin_tracker_close": (None, [Handle]),
    "rejoin_input_open": (_STATUS, [_TEXT, _TEXT, ctypes.POINTER(Handle)]),
    "rejoin_input_message": (_TEXT, [Handle]),
    "rejoin_input_digest": (_TEXT, [Handle]),
    "rejoin_input_rows": (_U64, [Handle]),
    "rejoin_input_pages": (_U64, [Handle]),
    "rejoin_input_partitions": (_U32, [Handle]),
    "rejoin_input_first_page": (_U64, [Handle, _U32]),
    "rejoin_input_missing": (ctypes.c_float, [Handle]),
    "rejoin_input_feature_name": (_TEXT, [Handle, _U32]),
    "rejoin_input_feature_type": (_TEXT, [Handle, _U32]),
    "rejoin_input_close": (None, [Handle]),
    "rejoin_page_read": (_STATUS, [Handle, _U64, ctypes.POINTER(Handle)]),
    "rejoin_page_copy": (_STATUS, [_DATA, _SIZE, _TEXT, ctypes.POINTER(Handle)]),
    "rejoin_page_message": (_TEXT, [Handle]),
    "rejoin_page_get": (_STATUS, [Handle, ctypes.POINTER(PageView)]),
    "rejoin_page_free": (None, [Handle]),
    "rejoin_xgboost_process_start": (
        _STATUS,
        [ctypes.POINTER(Config), ctypes.POINTER(XgboostOptions), ctypes.POINTER(Handle)],
    ),
    "rejoin_xgboost_process_message": (_TEXT, [Handle]),
    "rejoin_xgboost_process_close": (None, [Handle]),
    "rejoin_xgboost_join": (
        _STATUS,
        [Handle, _U32, _U32, _U32, _TEXT, ctypes.POINTER(Limits), ctypes.POINTER(Handle)],
    ),
    "rejoin_xgboost_join_as_task": (
        _STATUS,
        [Handle, _U32, _U32, _U32, _TEXT, ctypes.POINTER(Limits), ctypes.POINTER(Handle)],
    ),
    "rejoin_xgboost_join_launched": (
        _STATUS,
        [_TEXT, ctypes.POINTER(XgboostOptions), ctypes.POINTER(Limits), ctypes.POINTER(Handle)],
    ),
    "rejoin_xgboost_message": (_TEXT, [Handle]),
    "rejoin_xgboost_rank": (_U32, [Handle]),
    "rejoin_xgboost_world": (_U32, [Handle]),
    "rejoin_xgboost_incarnation": (_U32, [Handle]),
    "rejoin_xgboost_is_hooked": (_I32, [Handle]),
    "rejoin_xgboost_keeps_booster": (_I32, [Handle]),
    "rejoin_xgboost_load": (
        _STATUS,
        [
            Handle,
            ctypes.POINTER(_U32),
            ctypes.POINTER(_U32),
            ctypes.POINTER(_I32),
            ctypes.POINTER(_DATA),
            ctypes.POINTER(_SIZE),
        ],
    ),
    "rejoin_xgboost_load_own": (_STATUS, [Handle, ctypes.POINTER(_DATA), ctypes.POINTER(_SIZE)]),
    "rejoin_xgboost_communicator": (_STATUS, [Handle, ctypes.POINTER(_TEXT)]),
    "rejoin_xgboost_enter": (_STATUS, [Handle, _U32, _U32, _DATA, _SIZE, _DATA, _SIZE, _I32]),
    "rejoin_xgboost_begin_round": (_STATUS, [Handle, _U32]),
    "rejoin_xgboost_finish": (_STATUS, [Handle, _U32, _DATA, _SIZE]),
    "rejoin_xgboost_failure": (_STATUS, [Handle]),
    "rejoin_xgboost_free": (_STATUS, [Handle, _STATUS, _TEXT]),
    "rejoin_xgboost_abandon": (_STATUS, [Handle, _STATUS, _TEXT]),
    "rejoin_xgboost_close": (None, [Handle]),
}


def _load() -> Any:
    """``REJOIN_LIBRARY``, or the copy in this package, or the system's."""
    beside = pathlib.Path(__file__).with_name("librejoin.so")
    asked = os.environ.get("REJOIN_LIBRARY")
    path = asked or (str(beside) if beside.exists() else ctypes.util.find_library("rejoin") or "librejoin.so")
    try:
        library = ctypes.CDLL(path)
        for name, (returns, takes) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = returns, takes
    except (OSError, AttributeError) as cause:
        raise RejoinError(
            Code.INCOMPATIBLE,
            f"the C library can't be loaded from {path} ({cause}); install it (make install), or let the variable "
            "REJOIN_LIBRARY name its file",
        ) from cause
    return library


library: Any = _load()


def code(status: int) -> Code:
    """The code of a status that is a failure."""
    try:
        return Code(status)
    except ValueError:
        return Code.INTERNAL


def library_version() -> str:
    """For instance 0.1.0."""
    return str(library.rejoin_library_version().decode())


def log_level(level: str) -> None:
    """What the library logs on standard error: off (as it is at the start), error, warn, info, debug or trace."""
    if library.rejoin_log_level(text("level", level)) != OK:
        expected = "off, error, warn, info, debug or trace"
        raise RejoinError(Code.BAD_ARGUMENT, f"log level {level!r} is unknown; expected {expected}")


def digest(data: Any) -> str:
    """The digest (32 hexadecimal digits) by which Rejoin compares bytes; of bytes or an array."""
    view, digits = raw("the data", data), ctypes.create_string_buffer(33)
    library.rejoin_digest(view.ctypes.data, view.size, digits)
    return digits.value.decode()

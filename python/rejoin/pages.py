"""Pages of prepared input, read without Spark and without a JVM: what a durable Spark training
(``spark.rejoin.durable``) has stored in its folder, as NumPy arrays.

    import rejoin.pages

    rows = rejoin.pages.open("/durable/1f2e…", "training")
    print(rows.digest, rows.rows, rows.feature_names)
    for page in rows:
        fit(page.features, page.labels)

The folder is on a file system that this machine has. docs/pages.md describes lists and pages.
"""

import ctypes
import importlib.util
import os
import weakref
from typing import Any, Callable, Iterator, List, Optional, Tuple, Union

import numpy as np

from . import _arguments as given, _library as c
from ._arguments import refused
from ._arrays import Data, raw
from ._errors import Code, RejoinError
from ._memory import copied

__all__ = ["Input", "Page", "open", "page"]

_KINDS = {1: "dense", 2: "csr", 3: "spark"}


class Page:
    """Some rows of one partition. Its bytes had the right SHA-256 when it was read.

    Arrays are read-only and lie in the page's own memory, which is freed when the last of them is
    gone. What the input doesn't have is ``None``.
    """

    kind: str
    """dense, csr, or spark: rows that only Spark reads."""

    number: int
    """Counted over all partitions of the input, from 0; 0 of a page by itself."""

    partition: int
    """The partition that it is of; 0 of a page by itself."""

    rows: int
    """At least 1."""

    columns: int
    """Features of a row; of Spark's rows, fields."""

    from_sparse: bool
    """Whether some row came as a sparse vector."""

    sha256: str
    """Of all its bytes, as 64 hexadecimal digits."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        """Takes the handle over."""
        # At the process's end its arrays may be in use: nothing is freed then.
        weakref.finalize(self, c.library.rejoin_page_free, handle.value).atexit = False
        view = c.PageView(ctypes.sizeof(c.PageView))
        _check("page", handle, c.library.rejoin_page_get(handle, ctypes.byref(view)))
        self._view = view
        self.kind, self.number, self.partition = _KINDS[view.kind], view.number, view.partition
        self.rows, self.columns, self.from_sparse = view.rows, view.columns, bool(view.from_sparse)
        self.sha256 = view.sha256.decode()

    @property
    def labels(self) -> Optional["np.ndarray[Any, Any]"]:
        """Of shape (rows,), float32."""
        return self._array(self._view.labels, self.rows, "<f4")

    @property
    def weights(self) -> Optional["np.ndarray[Any, Any]"]:
        """Of shape (rows,), float32."""
        return self._array(self._view.weights, self.rows, "<f4")

    @property
    def margins(self) -> Optional["np.ndarray[Any, Any]"]:
        """Base margins, of shape (rows,), float32."""
        return self._array(self._view.margins, self.rows, "<f4")

    @property
    def groups(self) -> Optional["np.ndarray[Any, Any]"]:
        """The query group of each row, of shape (rows,), int32."""
        return self._array(self._view.groups, self.rows, "<i4")

    @property
    def csr(self) -> Optional[Tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]]:
        """Of a page of kind ``csr``: where each row begins among the values and the last one ends, of
        shape (rows + 1,); the column of each value; the values, float32. The first two are int32,
        where that holds their numbers, else int64."""
        if self.kind != "csr":
            return None
        count, most = self._view.values, max(self._view.values, self.columns)
        dtype = np.int32 if most < 1 << 31 else np.int64
        begins: "np.ndarray[Any, Any]" = np.zeros(self.rows + 1, dtype)
        begins[1:] = self._array(self._view.row_ends, self.rows, "<u4")
        columns = self._array(self._view.value_columns, count, "<u4")
        values = self._array(self._view.features, count, "<f4")
        assert columns is not None and values is not None
        return begins, columns.view(np.int32) if dtype is np.int32 else columns.astype(dtype), values

    @property
    def features(self) -> Any:
        """Of a page of kind ``dense`` an array of shape (rows, columns), float32, in which a missing value is NaN or
        the input's :attr:`Input.missing`. Of kind ``csr`` a ``scipy.sparse.csr_matrix`` of that
        shape where SciPy is installed, else what :attr:`csr` is; what isn't in it is missing, and
        not 0. Of kind ``spark`` bytes: a length (4 bytes, big-endian) and what Spark's codec made of
        the rows."""
        if self.kind == "spark":
            return copied(self._view.spark_rows, self._view.spark_rows_bytes)
        if self.kind == "dense":
            values = self._array(self._view.features, self._view.values, "<f4")
            assert values is not None
            return values.reshape(self.rows, self.columns)
        parts = self.csr
        assert parts is not None
        if importlib.util.find_spec("scipy") is None:
            return parts
        from scipy.sparse import csr_matrix

        begins, columns, present = parts
        return csr_matrix((present, columns, begins), shape=(self.rows, self.columns))

    @property
    def data(self) -> bytes:
        """All of the page, the head included."""
        return copied(self._view.data, self._view.bytes)

    def _array(self, address: Optional[int], count: int, dtype: str) -> Optional["np.ndarray[Any, Any]"]:
        if address is None:
            return None
        if count == 0:
            return np.empty(0, dtype)
        memory: Any = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
        # The array keeps the memory, and the memory the page.
        memory.page = self
        array: "np.ndarray[Any, Any]" = np.frombuffer(memory, dtype)
        array.flags.writeable = False
        return array

    def __reduce__(self) -> Any:
        return page, (self.data, self.sha256)

    def __repr__(self) -> str:
        return f"<rejoin.pages.Page {self.number}: {self.kind}, {self.rows} rows, {self.columns} columns>"


class Input:
    """An input all of whose pages were stored. ``len()`` is the number of its pages, ``input[n]`` reads page n and
    verifies it, and a loop over it reads all of them, one after the other, in the order of their
    partitions.

    Several threads may read at once, and so may processes: it can be pickled and survives a fork.
    Reading raises ``INPUT_LOST`` when a page's file is missing or isn't what the list says,
    ``INCOMPATIBLE`` when it was written by other rules, and ``IO`` when it can't be read.
    """

    digest: str
    """64 hexadecimal digits: equal digests are equal pages in the same partitions, whatever folder they are in."""

    rows: int
    """The rows of all pages."""

    partitions: int
    """How many partitions it has, the empty ones too."""

    feature_names: List[str]
    """In the order of the columns; empty where none were set."""

    feature_types: List[str]
    """XGBoost's (``q``, ``c``, …), in the order of the columns; empty where none were set."""

    missing: float
    """The value that is as good as none in every page, dense or CSR, as the training's estimator has
    it. A matrix made of the pages has to be given it: ``DMatrix(page.features, missing=input.missing)``."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"], name: str) -> None:
        self._folder, self._name = os.fspath(folder), name
        handle = ctypes.c_void_p()
        path = given.text("the folder", self._folder)
        status = c.library.rejoin_input_open(path, given.text("the name", name), ctypes.byref(handle))
        weakref.finalize(self, c.library.rejoin_input_close, handle.value).atexit = False
        _check("input", handle, status)
        self._handle = handle
        self.digest = c.library.rejoin_input_digest(handle).decode()
        self.rows = c.library.rejoin_input_rows(handle)
        self.partitions = c.library.rejoin_input_partitions(handle)
        self.feature_names = self._texts(c.library.rejoin_input_feature_name)
        self.feature_types = self._texts(c.library.rejoin_input_feature_type)
        self.missing = c.library.rejoin_input_missing(handle)

    def _texts(self, get: Callable[..., Optional[bytes]]) -> List[str]:
        texts: List[str] = []
        while True:
            text = get(self._handle, len(texts))
            if text is None:
                return texts
            texts.append(text.decode())

    def pages_of(self, partition: int) -> range:
        """The numbers of a partition's pages."""
        number = given.number("the partition", partition, 32)
        if number >= self.partitions:
            raise refused(f"partition {number} was asked for; the input has {self.partitions}, from 0")
        first = c.library.rejoin_input_first_page
        return range(first(self._handle, number), first(self._handle, number + 1))

    def __len__(self) -> int:
        return int(c.library.rejoin_input_pages(self._handle))

    def __getitem__(self, number: int) -> Page:
        wanted = given.number("the page", number, 64)
        if wanted >= len(self):
            # What a loop without __iter__, as of a sampler's, ends by.
            raise IndexError(f"page {wanted} was asked for; the input has {len(self)} pages, from 0")
        handle = ctypes.c_void_p()
        status = c.library.rejoin_page_read(self._handle, wanted, ctypes.byref(handle))
        return _page(handle, status)

    def __iter__(self) -> Iterator[Page]:
        return (self[number] for number in range(len(self)))

    def __reduce__(self) -> Any:
        return _same, (self._folder, self._name, self.digest)

    def __repr__(self) -> str:
        return f"<rejoin.pages.Input {self._name}: {len(self)} pages, {self.rows} rows, {self.digest[:16]}…>"


def open(folder: Union[str, "os.PathLike[str]"], name: str = "training") -> Input:
    """The input of this name (``training`` or ``evaluation``) in the folder of one training, below
    ``spark.rejoin.durable``. Only its list is read.

    Raises ``BAD_ARGUMENT`` when there is no such list, so that no input was stored to its end,
    ``INCOMPATIBLE`` for a list of another version, ``INPUT_LOST`` for a damaged one, ``IO`` when it
    can't be read."""
    return Input(folder, name)


def page(data: Data, sha256: str) -> Page:
    """The page that these bytes are, which are copied. ``sha256`` is what was kept of it, 64 hexadecimal digits.

    Raises ``INPUT_LOST`` when they are other bytes, ``INCOMPATIBLE`` when they were written by other
    rules."""
    view, digits = raw("the page", data), given.text("the SHA-256", sha256)
    handle = ctypes.c_void_p()
    status = c.library.rejoin_page_copy(view.ctypes.data, view.size, digits, ctypes.byref(handle))
    return _page(handle, status)


def _same(folder: str, name: str, digest: str) -> Input:
    found = Input(folder, name)
    if found.digest != digest:
        seen = f"expected an input whose digest is {digest} in {folder}; saw {found.digest}"
        raise RejoinError(Code.MISMATCH, f"{seen}. Another training has stored its input there meanwhile: open it anew")
    return found


def _page(handle: ctypes.c_void_p, status: int) -> Page:
    if status == c.OK:
        return Page(handle)
    try:
        _check("page", handle, status)
        raise AssertionError("a status other than 0 is an error")
    finally:
        c.library.rejoin_page_free(handle)


def _check(what: str, handle: ctypes.c_void_p, status: int) -> None:
    if status != c.OK:
        text = getattr(c.library, f"rejoin_{what}_message")(handle).decode(errors="replace")
        raise RejoinError(c.code(status), text)

"""Pages that the JVM has written (jvm-spark, GoldenPagesTest), as NumPy arrays."""

import gc
import hashlib
import importlib.util
import os
import pathlib
import pickle
import shutil
import struct
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import rejoin.pages
from rejoin import Code, RejoinError

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "native/pages/tests/golden"


def head(version, kind, rows, columns, values, content):
    return b"RJPG" + struct.pack("<HBBIIQ", version, kind, 0, rows, columns, values) + content


def page(data):
    return rejoin.pages.page(data, hashlib.sha256(data).hexdigest())


class Refusing(unittest.TestCase):
    def refused(self, code, said, function, *arguments):
        with self.assertRaises(RejoinError) as caught:
            function(*arguments)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(said, caught.exception.text)


class Golden(Refusing):
    def setUp(self):
        self.rows = rejoin.pages.open(GOLDEN, "training")

    def test_an_input_has_the_digest_the_rows_and_the_features_that_the_jvm_has_written(self):
        for line in (GOLDEN / "digests").read_text().splitlines():
            digest, name = line.split()
            self.assertEqual(rejoin.pages.open(str(GOLDEN), name).digest, digest)
        self.assertEqual((len(self.rows), self.rows.rows, self.rows.partitions), (3, 8, 3))
        self.assertEqual(self.rows.feature_names, ["age", "größe", "color", "d", "e", "f"])
        self.assertEqual(self.rows.feature_types, ["int", "q", "c", "q", "q", "q"])
        self.assertEqual(self.rows.missing, 0)
        self.assertEqual([list(self.rows.pages_of(each)) for each in range(3)], [[0, 1], [], [2]])
        evaluation = rejoin.pages.open(GOLDEN, "evaluation")
        self.assertEqual((evaluation.feature_names, evaluation.feature_types), ([], []))
        self.assertNotEqual(evaluation.missing, evaluation.missing, "NaN was expected")

    def test_a_dense_page_is_arrays_of_its_rows(self):
        one = self.rows[0]
        self.assertEqual((one.number, one.partition, one.kind, one.rows, one.columns), (0, 0, "dense", 3, 6))
        self.assertTrue(one.from_sparse)
        np.testing.assert_array_equal(one.labels, [1, 0, 2])
        np.testing.assert_array_equal(one.weights, [0.5, 1.5, 2.5])
        np.testing.assert_array_equal(one.margins, [0.25, -0.25, 0])
        np.testing.assert_array_equal(one.groups, [7, 7, -8])
        expected = [[1, 2, 3, 4, 5, 6], [-1.5, np.nan, 0, 1e-3, 1e9, 0.1], [9, 0, 0, 0, 0, 10]]
        np.testing.assert_array_equal(one.features, np.array(expected, np.float32))
        self.assertEqual([one.labels.dtype, one.groups.dtype, one.features.dtype], [np.float32, np.int32, np.float32])
        self.assertIsNone(one.csr)
        self.assertEqual(hashlib.sha256(one.data).hexdigest(), one.sha256)

    def test_a_page_of_few_values_has_where_rows_begin_and_the_column_of_each_value(self):
        one = self.rows[2]
        self.assertEqual((one.number, one.partition, one.kind, one.rows, one.columns), (2, 2, "csr", 4, 6))
        begins, columns, values = one.csr
        np.testing.assert_array_equal(begins, [0, 2, 2, 3, 6])
        np.testing.assert_array_equal(columns, [0, 5, 3, 1, 2, 4])
        np.testing.assert_array_equal(values, np.array([0.5, -2, np.nan, 1, 2, 3], np.float32))
        self.assertEqual([begins.dtype, columns.dtype, values.dtype], [np.int32, np.int32, np.float32])
        np.testing.assert_array_equal(one.weights, [1, 2, 3, 4])

    def test_features_of_few_values_are_scipys_matrix_or_three_arrays_without_scipy(self):
        with mock.patch("importlib.util.find_spec", return_value=None):
            self.assertEqual([len(part) for part in self.rows[2].features], [5, 6, 6])
        if importlib.util.find_spec("scipy") is None:
            self.skipTest("SciPy isn't installed")
        matrix = self.rows[2].features
        self.assertEqual((matrix.shape, matrix.nnz, matrix[0, 5], matrix[3, 4]), ((4, 6), 6, -2, 3))

    def test_what_the_input_has_not_is_none(self):
        (one,) = rejoin.pages.open(GOLDEN, "evaluation")
        self.assertEqual((one.weights, one.margins, one.groups), (None, None, None))
        self.assertFalse(one.from_sparse)
        np.testing.assert_array_equal(one.features, np.array([[1, 0, np.nan], [0, 4, np.inf]], np.float32))

    def test_a_loop_gives_every_page_in_its_order_and_arrays_outlive_their_page(self):
        labels = [one.labels for one in self.rows]
        del self.rows
        gc.collect()
        np.testing.assert_array_equal(np.concatenate(labels), [1, 0, 2, 3, 1, 0, 1, 0])
        with self.assertRaises(ValueError):
            labels[0][0] = 7

    def test_threads_a_forked_process_and_a_pickle_read_the_same(self):
        expected, seen = [one.sha256 for one in self.rows], []
        threads = [threading.Thread(target=lambda: seen.append([one.sha256 for one in self.rows])) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(seen, [expected] * 4)
        again = pickle.loads(pickle.dumps(self.rows))
        self.assertEqual([one.sha256 for one in again], expected)
        self.assertEqual(pickle.loads(pickle.dumps(again[2])).data, self.rows[2].data)
        child = os.fork()
        if child == 0:
            os._exit(0 if [one.sha256 for one in self.rows] == expected else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


class Damaged(Refusing):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for file in GOLDEN.iterdir():
            shutil.copy(file, self.folder)

    def test_a_page_with_any_byte_changed_or_cut_off_anywhere_is_refused(self):
        for name, number in [("training", 0), ("training", 2), ("evaluation", 0)]:
            good = rejoin.pages.open(GOLDEN, name)[number]
            data = good.data
            self.assertEqual(rejoin.pages.page(bytearray(data), good.sha256.upper()).rows, good.rows)
            for at in range(len(data)):
                changed = bytearray(data)
                changed[at] ^= 1
                self.refused(Code.INPUT_LOST, "read them again", rejoin.pages.page, changed, good.sha256)
                self.refused(Code.INPUT_LOST, "read them again", rejoin.pages.page, data[:at], good.sha256)

    def test_a_list_with_any_byte_changed_is_refused(self):
        path = self.folder / "training.pages"
        data = path.read_bytes()
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= 1
            path.write_bytes(changed)
            code = Code.INCOMPATIBLE if at < 4 else Code.INPUT_LOST
            self.refused(code, "training.pages", rejoin.pages.open, self.folder, "training")

    def test_a_list_of_the_version_before_is_refused_with_what_to_do(self):
        (self.folder / "training.pages").write_bytes(struct.pack(">ii", 2, 0))
        said = "expected a list of pages of version 3; saw version 2"
        self.refused(Code.INCOMPATIBLE, said, rejoin.pages.open, self.folder)

    def test_a_file_that_is_missing_or_another_one_is_lost_by_its_name(self):
        rows, path = rejoin.pages.open(self.folder), self.folder / "training-0-5-1.page"
        path.write_bytes(path.read_bytes()[:-1])
        self.refused(Code.INPUT_LOST, "training-0-5-1.page is lost: expected 1 rows, 64 bytes", rows.__getitem__, 1)
        path.unlink()
        self.refused(Code.INPUT_LOST, "no such file", rows.__getitem__, 1)

    def test_a_pickle_of_an_input_that_was_stored_anew_is_refused(self):
        kept = pickle.dumps(rejoin.pages.open(self.folder))
        for file in self.folder.glob("evaluation*"):
            shutil.copy(file, self.folder / file.name.replace("evaluation", "training"))
        self.refused(Code.MISMATCH, "stored its input there meanwhile", pickle.loads, kept)


class Asked(Refusing):
    def test_another_version_an_unknown_kind_and_lengths_that_do_not_fit_are_refused(self):
        self.assertEqual(page(head(1, 1, 1, 1, 1, bytes(8))).rows, 1)
        self.refused(Code.INCOMPATIBLE, "layout version 2", page, head(2, 1, 1, 1, 1, bytes(8)))
        self.refused(Code.INCOMPATIBLE, "kind 9", page, head(1, 9, 1, 1, 1, bytes(8)))
        self.refused(Code.INCOMPATIBLE, "by its head", page, head(1, 1, 1, 1, 1, bytes(12)))
        csr = head(1, 2, 1, 1, 1, struct.pack("<4I", 0, 1, 7, 0))
        self.refused(Code.INCOMPATIBLE, "column 7 of 1", page, csr)

    def test_rows_of_sparks_are_given_as_their_bytes(self):
        one = page(head(1, 3, 5, 2, 100, b"\0\0\0\x64compressed"))
        self.assertEqual((one.kind, one.rows, one.columns), ("spark", 5, 2))
        self.assertEqual((one.features, one.labels, one.csr), (b"\0\0\0\x64compressed", None, None))

    def test_a_page_without_columns_or_without_values_is_read(self):
        self.assertEqual(page(head(1, 1, 2, 0, 0, bytes(8))).features.shape, (2, 0))
        begins, columns, values = page(head(1, 2, 2, 9, 0, bytes(16))).csr
        self.assertEqual((begins.tolist(), columns.size, values.size), ([0, 0, 0], 0, 0))

    def test_arguments_that_are_none_are_refused_with_what_was_expected(self):
        rows = rejoin.pages.open(GOLDEN)
        with self.assertRaises(IndexError):
            rows[3]
        self.refused(Code.BAD_ARGUMENT, "expected a number from 0", rows.__getitem__, -1)
        self.refused(Code.BAD_ARGUMENT, "the input has 3, from 0", rows.pages_of, 3)
        self.refused(Code.BAD_ARGUMENT, "saw none", rejoin.pages.open, GOLDEN, "rows")
        self.refused(Code.BAD_ARGUMENT, "training or evaluation", rejoin.pages.open, GOLDEN, "")
        self.refused(Code.BAD_ARGUMENT, "64 hexadecimal digits", rejoin.pages.page, b"", "abc")
        self.refused(Code.BAD_ARGUMENT, "expected bytes", rejoin.pages.page, 7, "abc")
        self.refused(Code.BAD_ARGUMENT, "expected a str", rejoin.pages.page, b"", None)


if __name__ == "__main__":
    sys.exit(unittest.main())

"""The modules for Maven, as scripts/examples.sh has published them into build/m2."""

import os
import pathlib
import unittest
import xml.etree.ElementTree as ElementTree
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build" / "m2" / "io" / "rejoin"
MODULES = ["rejoin-core", "rejoin-flink", "rejoin-spark_2.12", "rejoin-spark_2.13"]
SOURCE_URL = os.environ.get("SOURCE_URL", "https://example.org/rejoin")


class Modules(unittest.TestCase):
    def published(self, module, ending):
        """The one file of this module whose name ends so."""
        version = next(
            line.split("'")[1] for line in (ROOT / "build.gradle").read_text().splitlines() if " version = '" in line
        )
        file = FOLDER / module / version / f"{module}-{version}{ending}"
        self.assertTrue(file.is_file(), f"no {file}; publish it: scripts/examples.sh")
        return file

    def names(self, module, ending):
        """What is in one of its jars."""
        with zipfile.ZipFile(self.published(module, ending)) as jar:
            return jar.namelist()

    def text(self, module, ending, name):
        """One file in one of its jars."""
        with zipfile.ZipFile(self.published(module, ending)) as jar:
            return jar.read(name).decode()

    def test_there_are_these_modules_and_no_other(self):
        published = sorted({pom.parent.parent.name for pom in FOLDER.glob("*/*/*.pom")})
        self.assertEqual(published, MODULES)

    def test_a_pom_says_what_it_is_under_which_licence_by_whom_and_where_its_sources_are(self):
        for module in MODULES:
            with self.subTest(module):
                pom = ElementTree.parse(self.published(module, ".pom")).getroot()

                def said(path, pom=pom):
                    return pom.findtext("/".join("{*}" + step for step in path.split("/")))

                self.assertEqual(said("groupId"), "io.rejoin")
                self.assertEqual(said("artifactId"), module)
                self.assertEqual(said("name"), module)
                self.assertGreater(len(said("description") or ""), 20)
                self.assertEqual(said("licenses/license/name"), "Apache-2.0")
                self.assertEqual(said("licenses/license/url"), "https://www.apache.org/licenses/LICENSE-2.0.txt")
                self.assertEqual(said("developers/developer/name"), "Rejoin's contributors")
                self.assertEqual(said("url"), SOURCE_URL)
                self.assertEqual(said("scm/url"), SOURCE_URL)
                self.assertEqual(said("scm/connection"), "scm:git:" + SOURCE_URL)
                needed = [one.text for one in pom.findall("{*}dependencies/{*}dependency/{*}artifactId")]
                self.assertEqual(needed, [] if module == "rejoin-core" else ["rejoin-core"])

    def test_classes_sources_and_javadoc_are_a_jar_each(self):
        for module in MODULES:
            with self.subTest(module):
                classes = {name for name in self.names(module, ".jar") if name.endswith(".class")}
                sources = {name for name in self.names(module, "-sources.jar") if name.endswith(".java")}
                self.assertGreater(len(sources), 10)
                without = {name for name in sources if name.replace(".java", ".class") not in classes}
                self.assertEqual({name for name in without if not name.endswith("-info.java")}, set())
                self.assertIn("index.html", self.names(module, "-javadoc.jar"))

    def test_each_jar_has_the_licence_and_the_one_with_the_library_what_is_inside_it(self):
        licence = (ROOT / "LICENSE").read_text()
        for module in MODULES:
            for ending in (".jar", "-sources.jar", "-javadoc.jar"):
                with self.subTest(module + ending):
                    self.assertEqual(self.text(module, ending, "META-INF/LICENSE"), licence)
        notice = self.text("rejoin-core", ".jar", "META-INF/NOTICE")
        for crate in ("snow", "crossbeam-channel", "jni"):
            self.assertRegex(notice, rf"(?m)^- {crate} [0-9.]+: \S+")
        # Of the compiler and the linker, which may lack the texts.
        self.assertRegex(notice, r"(?m)^- Rust's standard library [0-9.]+: MIT OR Apache-2\.0")
        self.assertRegex(notice, r"(?m)^- LLVM's libunwind, of zig [0-9.]+: Apache-2\.0 WITH LLVM-exception")
        self.assertTrue(any(name.startswith("native/linux-") for name in self.names("rejoin-core", ".jar")))

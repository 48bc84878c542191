package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collections;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class NativeLibraryTest {
  @Test
  void a_platform_has_one_name_however_java_calls_it() {
    assertEquals("linux-x86_64", NativeLibrary.platform("Linux", "amd64"));
    assertEquals("linux-aarch64", NativeLibrary.platform("Linux", "aarch64"));
    assertEquals("macos-aarch64", NativeLibrary.platform("Mac OS X", "aarch64"));
    assertEquals("windows-x86_64", NativeLibrary.platform("Windows 11", "amd64"));
  }

  @Test
  void the_library_needs_no_glibc_newer_than_2_17() throws Exception {
    Path library = Files.createTempFile("rejoin-", ".so");
    try {
      Files.write(library, library());
      Process readelf =
          new ProcessBuilder("readelf", "--wide", "--version-info", library.toString())
              .redirectErrorStream(true)
              .start();
      String versions = new String(readelf.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, readelf.waitFor(), versions);
      List<Integer> minors =
          Pattern.compile("GLIBC_2\\.(\\d+)")
              .matcher(versions)
              .results()
              .map(found -> Integer.valueOf(found.group(1)))
              .collect(Collectors.toList());
      assertEquals(17, Collections.max(minors), versions);
    } finally {
      Files.delete(library);
    }
  }

  @Test
  void the_library_names_no_folder_of_whoever_has_built_it() throws Exception {
    String text = new String(library(), StandardCharsets.ISO_8859_1);
    assertTrue(text.contains("native/agent/src/"), "where its own errors come from");
    assertEquals(-1, text.indexOf(System.getProperty("user.home") + "/"));
  }

  private static byte[] library() throws IOException {
    String resource =
        "/native/"
            + NativeLibrary.platform("Linux", System.getProperty("os.arch"))
            + "/librejoin_jni.so";
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      return in.readAllBytes();
    }
  }

  @Test
  void the_copy_that_is_loaded_can_be_read_and_written_by_its_user_alone() throws Exception {
    Path copy = Files.createTempFile("rejoin-", ".so");
    try {
      NativeLibrary.fill(copy, new ByteArrayInputStream(new byte[] {1, 2, 3}));
      assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(copy)));
      assertArrayEquals(new byte[] {1, 2, 3}, Files.readAllBytes(copy));
    } finally {
      Files.delete(copy);
    }
  }

  @Test
  void another_version_of_the_library_is_refused_with_both_versions() {
    assertDoesNotThrow(() -> NativeLibrary.checkVersion("1.2.3", "1.2.3"));
    RejoinException failure =
        assertThrows(RejoinException.class, () -> NativeLibrary.checkVersion("1.2.3", "1.2.4"));
    assertEquals(RejoinException.Code.INCOMPATIBLE, failure.code());
    assertTrue(failure.text().contains("1.2.3") && failure.text().contains("1.2.4"));
  }

  @Test
  void the_version_of_the_classes_is_known() {
    assertTrue(NativeLibrary.version().matches("\\d+\\.\\d+\\.\\d+.*"), NativeLibrary.version());
  }
}

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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class NativeLibraryTest {
  private static final String HERE =
      NativeLibrary.platform("Linux", System.getProperty("os.arch")).substring("linux-".length());

  @Test
  void a_platform_has_one_name_however_java_calls_it() {
    assertEquals("linux-x86_64", NativeLibrary.platform("Linux", "amd64"));
    assertEquals("linux-aarch64", NativeLibrary.platform("Linux", "aarch64"));
    assertEquals("macos-aarch64", NativeLibrary.platform("Mac OS X", "aarch64"));
    assertEquals("windows-x86_64", NativeLibrary.platform("Windows 11", "amd64"));
  }

  /** As readelf calls the machine of each library that is in the jar. */
  private static final Map<String, String> MACHINES =
      Map.of("x86_64", "Advanced Micro Devices X86-64", "aarch64", "AArch64");

  @Test
  void each_library_is_for_its_machine_and_needs_no_glibc_newer_than_2_17() throws Exception {
    assertTrue(libraries().containsKey(HERE), "of this machine");
    for (Map.Entry<String, byte[]> library : libraries().entrySet()) {
      String said = readelf(library.getValue());
      assertTrue(said.contains(MACHINES.get(library.getKey())), library.getKey() + ": " + said);
      List<Integer> minors =
          Pattern.compile("GLIBC_2\\.(\\d+)")
              .matcher(said)
              .results()
              .map(found -> Integer.valueOf(found.group(1)))
              .collect(Collectors.toList());
      assertEquals(17, Collections.max(minors), library.getKey() + ": " + said);
    }
  }

  @Test
  void no_library_names_a_folder_of_whoever_has_built_it() throws Exception {
    for (byte[] library : libraries().values()) {
      String text = new String(library, StandardCharsets.ISO_8859_1);
      assertTrue(text.contains("native/agent/src/"), "where its own errors come from");
      assertEquals(-1, text.indexOf(System.getProperty("user.home") + "/"));
    }
  }

  private static String readelf(byte[] library) throws Exception {
    Path file = Files.createTempFile("rejoin-", ".so");
    try {
      Files.write(file, library);
      Process readelf =
          new ProcessBuilder(
                  "readelf", "--wide", "--file-header", "--version-info", file.toString())
              .redirectErrorStream(true)
              .start();
      String said = new String(readelf.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertEquals(0, readelf.waitFor(), said);
      return said;
    } finally {
      Files.delete(file);
    }
  }

  /** Those that this build has put in, by their machines. */
  private static Map<String, byte[]> libraries() throws IOException {
    Map<String, byte[]> libraries = new HashMap<>();
    for (String machine : MACHINES.keySet()) {
      String resource = "/native/linux-" + machine + "/librejoin_jni.so";
      try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
        if (in != null) {
          libraries.put(machine, in.readAllBytes());
        }
      }
    }
    return libraries;
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

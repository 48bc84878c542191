package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** What is on the class path doesn't fit: said by name, before any work. */
class IncompatibleTest {
  private static final String VERSION = "io.rejoin.xgboost.XgboostVersion";

  /** The exception's class is another one with another class loader: it is known by its name. */
  private static void refused(Executable call, String... parts) {
    Throwable failure = assertThrows(Throwable.class, call);
    assertEquals("io.rejoin.RejoinException", failure.getClass().getName(), failure.toString());
    assertTrue(failure.getMessage().startsWith("INCOMPATIBLE: "), failure.getMessage());
    for (String part : parts) {
      assertTrue(failure.getMessage().contains(part), failure.getMessage());
    }
  }

  @Test
  void an_xgboost_of_an_unknown_version_is_named_with_those_that_are_supported(@TempDir Path folder)
      throws Exception {
    try (DoctoredClassPath path = new DoctoredClassPath(folder)) {
      path.file("xgboost4j-version.properties", "version=9.9.9\n");
      refused(() -> path.call(VERSION, "loaded"), "\"9.9.9\"", "3.1", "3.4");
    }
  }

  @Test
  void an_xgboost_that_lacks_a_member_is_refused_with_its_name(@TempDir Path folder)
      throws Throwable {
    try (DoctoredClassPath path = new DoctoredClassPath(folder)) {
      path.source(
          "ml.dmlc.xgboost4j.java.Communicator",
          "package ml.dmlc.xgboost4j.java; public class Communicator {"
              + " public static void init(java.util.Map<String, Object> arguments) {}"
              + " public static void shutdown() {}"
              + " public static int getRank() { return 0; } }");
      Object version = path.call(VERSION, "loaded");
      refused(
          () -> path.call("io.rejoin.xgboost.XgboostMembers", "check", version),
          "Communicator.getWorldSize",
          "3.4");
    }
  }

  @Test
  void a_platform_without_a_native_library_is_named(@TempDir Path folder) throws Exception {
    String arch = System.getProperty("os.arch");
    try (DoctoredClassPath path = new DoctoredClassPath(folder)) {
      System.setProperty("os.arch", "sparc");
      for (int again = 0; again < 2; again++) {
        refused(() -> path.call("io.rejoin.NativeLibrary", "load"), "linux-sparc", "linux-x86_64");
      }
    } finally {
      System.setProperty("os.arch", arch);
    }
  }

  @Test
  void a_native_library_of_another_version_is_refused_with_both_versions(@TempDir Path folder)
      throws Exception {
    String own = NativeLibrary.version();
    try (DoctoredClassPath path = new DoctoredClassPath(folder)) {
      path.file("io/rejoin/version.txt", "9.9.9");
      refused(() -> path.call("io.rejoin.NativeLibrary", "load"), own, "9.9.9");
    }
  }
}

package io.rejoin;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Loads the native library that travels in the jar: once per class loader, from a fresh copy (a
 * file that is loaded by one class loader can't be loaded by another), and only if its version is
 * that of the Java classes.
 */
public final class NativeLibrary {
  private static final String[] MACHINES = {"linux-x86_64", "linux-aarch64"};
  private static final String LIBRARY = System.mapLibraryName("rejoin_jni");

  private static boolean loaded;
  private static RejoinException failure;

  private NativeLibrary() {}

  /**
   * Loads the library if it isn't loaded yet.
   *
   * @throws RejoinException INCOMPATIBLE when there is none for this platform, it can't be loaded,
   *     or it is of another version; the same again on every further call
   */
  public static synchronized void load() {
    if (failure != null) {
      throw failure;
    }
    if (loaded) {
      return;
    }
    try {
      loadCopy(platform(System.getProperty("os.name"), System.getProperty("os.arch")));
      checkVersion(version(), Native.version());
      loaded = true;
    } catch (RejoinException e) {
      failure = e;
      throw e;
    }
  }

  /** Version of these classes, and of the only native library that they work with. */
  public static String version() {
    try (InputStream in = NativeLibrary.class.getResourceAsStream("version.txt")) {
      if (in == null) {
        throw incompatible(
            "the jar lacks io/rejoin/version.txt: it was not built by Rejoin's own build", null);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).trim();
    } catch (IOException e) {
      throw incompatible("io/rejoin/version.txt can't be read from the jar", e);
    }
  }

  /** Sets what the native library logs to stderr: off, error, warn, info, debug or trace. */
  public static void logLevel(String level) {
    load();
    Native.logLevel(level);
  }

  static String platform(String osName, String osArch) {
    String os = osName.toLowerCase(Locale.ROOT);
    String family = os.startsWith("mac") ? "macos" : os.startsWith("windows") ? "windows" : os;
    String machine =
        osArch.equals("amd64") ? "x86_64" : osArch.equals("arm64") ? "aarch64" : osArch;
    return family + "-" + machine;
  }

  private static String resource(String platform) {
    return "/native/" + platform + "/" + LIBRARY;
  }

  static void checkVersion(String expected, String seen) {
    if (!expected.equals(seen)) {
      throw incompatible(
          "the native library has version "
              + seen
              + ", the Java classes "
              + expected
              + "; put only one version of Rejoin on the class path",
          null);
    }
  }

  private static void loadCopy(String platform) {
    String resource = resource(platform);
    Path copy = null;
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw incompatible(
            "no native library for this platform ("
                + platform
                + ") in the jar; it contains those for "
                + Stream.of(MACHINES)
                    .filter(one -> NativeLibrary.class.getResource(resource(one)) != null)
                    .collect(Collectors.joining(", "))
                + ". Rejoin's build puts others in on Linux: gradle -Pmachines=x86_64,aarch64",
            null);
      }
      copy = Files.createTempFile("rejoin-", "-" + LIBRARY);
      fill(copy, in);
      System.load(copy.toAbsolutePath().toString());
    } catch (IOException e) {
      throw incompatible(
          "the native library can't be copied to "
              + System.getProperty("java.io.tmpdir")
              + " (java.io.tmpdir)",
          e);
    } catch (UnsatisfiedLinkError e) {
      throw incompatible(
          "the native library can't be loaded from " + copy + ": " + e.getMessage(), e);
    } finally {
      deleteQuietly(copy);
    }
  }

  /**
   * Into the very file that was made, which is this user's alone: a new one in its place would have
   * the mode that the umask says, and others could write what is loaded next.
   */
  static void fill(Path made, InputStream library) throws IOException {
    try (OutputStream out = Files.newOutputStream(made, StandardOpenOption.WRITE)) {
      library.transferTo(out);
    }
  }

  /**
   * Linux keeps a loaded file alive without its name; where that is not so, it stays until the JVM
   * ends.
   */
  private static void deleteQuietly(Path copy) {
    if (copy == null) {
      return;
    }
    try {
      Files.deleteIfExists(copy);
    } catch (IOException e) {
      copy.toFile().deleteOnExit();
    }
  }

  private static RejoinException incompatible(String message, Throwable cause) {
    return new RejoinException(RejoinException.Code.INCOMPATIBLE, message, cause);
  }
}

package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.ZipInputStream;

/** Looks for a job's secret, in whatever way it may be written. */
final class SecretSearch {
  private final List<byte[]> looks;

  private SecretSearch(List<byte[]> looks) {
    this.looks = looks;
  }

  static SecretSearch of(byte[] secret) {
    String hex = HexFormat.of().formatHex(secret);
    List<byte[]> looks = new ArrayList<>();
    looks.add(secret);
    // As Java and Rust print arrays of bytes.
    String signed = Arrays.toString(secret);
    String unsigned =
        IntStream.range(0, secret.length)
            .mapToObj(i -> Integer.toString(secret[i] & 0xff))
            .collect(Collectors.joining(", "));
    List.of(
            signed.substring(1, signed.length() - 1),
            unsigned,
            hex,
            hex.toUpperCase(Locale.ROOT),
            Base64.getEncoder().withoutPadding().encodeToString(secret),
            Base64.getUrlEncoder().withoutPadding().encodeToString(secret))
        .forEach(text -> looks.add(text.getBytes(StandardCharsets.US_ASCII)));
    return new SecretSearch(looks);
  }

  boolean in(String searched) {
    return looks.stream()
        .anyMatch(one -> searched.contains(new String(one, StandardCharsets.ISO_8859_1)));
  }

  private boolean in(byte[] text) {
    return in(new String(text, StandardCharsets.ISO_8859_1));
  }

  /** The files below a folder that have it. */
  List<String> having(Path root) throws IOException {
    List<Path> files = files(root);
    assertFalse(files.isEmpty());
    return files.stream()
        .filter(file -> in(bytes(file)))
        .map(Path::toString)
        .collect(Collectors.toCollection(ArrayList::new));
  }

  /** Those of these processes that have it in their arguments or environment. */
  List<String> processes(Collection<Long> pids) {
    List<String> found = new ArrayList<>();
    for (long pid : pids) {
      Path process = Path.of("/proc", Long.toString(pid));
      byte[] command = bytes(process.resolve("cmdline"));
      if (in(command)) {
        found.add("arguments of process " + pid);
      }
      if (in(bytes(process.resolve("environ")))) {
        found.add("environment of " + new String(command, StandardCharsets.UTF_8));
      }
    }
    return found;
  }

  /** The addresses of those of these pages, or archives, that have it. */
  List<String> pages(Map<String, byte[]> pages) throws IOException {
    List<String> found = new ArrayList<>();
    for (Map.Entry<String, byte[]> page : pages.entrySet()) {
      if (in(page.getValue()) || in(unzipped(page.getValue()))) {
        found.add(page.getKey());
      }
    }
    return found;
  }

  /** The search is worth something: it finds what is there. */
  void assertFinds(WorkDirectory work) throws IOException {
    Path planted = work.folder("planted").resolve("file");
    Files.write(planted, looks.get(2));
    assertEquals(List.of(planted.toString()), having(planted.getParent()));
    Files.delete(planted);
  }

  /** Whether a file below this folder has this text. */
  static boolean isText(Path root, String text) throws IOException {
    return files(root).stream()
        .anyMatch(file -> new String(bytes(file), StandardCharsets.ISO_8859_1).contains(text));
  }

  /** All that is in an archive, as event logs are handed out; nothing, if it is none. */
  static byte[] unzipped(byte[] answer) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    try (ZipInputStream archive = new ZipInputStream(new ByteArrayInputStream(answer))) {
      while (archive.getNextEntry() != null) {
        archive.transferTo(all);
      }
    }
    return all.toByteArray();
  }

  static List<Path> files(Path root) throws IOException {
    List<Path> files = new ArrayList<>();
    Files.walkFileTree(
        root,
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            files.add(file);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFileFailed(Path gone, IOException why) {
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult postVisitDirectory(Path folder, IOException gone) {
            return FileVisitResult.CONTINUE;
          }
        });
    return files;
  }

  /** Nothing, if it is gone: Spark and YARN delete what they have no more use for. */
  private static byte[] bytes(Path file) {
    try {
      return Files.readAllBytes(file);
    } catch (IOException gone) {
      return new byte[0];
    }
  }
}

package io.rejoin.it;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The folder of one cluster: logs, executors' folders, Spark's scratch space. */
public final class WorkDirectory {
  /** The resource that says where the tests' processes log. */
  static final String LOG_SETTINGS = "rejoin-it-log4j2.properties";

  private final Path root;

  private WorkDirectory(Path root) {
    this.root = root;
  }

  /**
   * A fresh folder of this name under {@code build/it} (or what the property {@code rejoin.it.work}
   * says).
   */
  public static WorkDirectory fresh(String name) {
    Path root =
        Path.of(System.getProperty("rejoin.it.work", "build/it")).toAbsolutePath().resolve(name);
    try {
      delete(root);
      Files.createDirectories(root);
    } catch (IOException cannot) {
      throw new IllegalStateException("cannot make the work folder " + root, cannot);
    }
    return new WorkDirectory(root);
  }

  public Path file(String name) {
    return root.resolve(name);
  }

  /** A folder of that name in it, made if it isn't there. */
  public Path folder(String name) {
    try {
      return Files.createDirectories(root.resolve(name));
    } catch (IOException cannot) {
      throw new IllegalStateException("cannot make the folder " + root.resolve(name), cannot);
    }
  }

  /** The settings of the tests' logs as a file, for processes whose class path isn't ours. */
  public Path logSettings() {
    Path file = file(LOG_SETTINGS);
    try (InputStream settings =
        WorkDirectory.class.getClassLoader().getResourceAsStream(LOG_SETTINGS)) {
      Files.copy(settings, file, StandardCopyOption.REPLACE_EXISTING);
      return file;
    } catch (IOException cannot) {
      throw new IllegalStateException("cannot write " + file, cannot);
    }
  }

  public Path root() {
    return root;
  }

  /** Removes what is large and of no use after the end: everything but logs and event logs. */
  public void shrink() {
    try (Stream<Path> all = Files.walk(root)) {
      for (Path one : all.filter(Files::isRegularFile).collect(Collectors.toList())) {
        String name = one.getFileName().toString();
        boolean isLog = name.endsWith(".log") || name.endsWith(".jsonl");
        if (!isLog && !name.equals("stderr") && !name.equals("stdout")) {
          Files.deleteIfExists(one);
        }
      }
    } catch (IOException | java.io.UncheckedIOException raced) {
      // A file that went away by itself; the next run deletes the rest.
    }
  }

  /** The last lines of every log in it, for the report of a failure. */
  public String tails(int lines) {
    StringBuilder text = new StringBuilder();
    try (Stream<Path> all = Files.walk(root)) {
      for (Path one : all.filter(Files::isRegularFile).sorted().collect(Collectors.toList())) {
        String name = one.getFileName().toString();
        if (!name.endsWith(".log") && !name.equals("stderr")) {
          continue;
        }
        List<String> content = Files.readAllLines(one);
        if (!content.isEmpty()) {
          text.append("---- ")
              .append(root.relativize(one))
              .append(" (last ")
              .append(lines)
              .append(" lines)\n");
          content
              .subList(Math.max(0, content.size() - lines), content.size())
              .forEach(l -> text.append(l).append('\n'));
        }
      }
    } catch (IOException | java.io.UncheckedIOException raced) {
      text.append("(logs of ").append(root).append(" cannot be read: ").append(raced).append(")\n");
    }
    return text.toString();
  }

  private static void delete(Path root) throws IOException {
    if (!Files.exists(root)) {
      return;
    }
    try (Stream<Path> all = Files.walk(root)) {
      for (Path one : all.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
        Files.deleteIfExists(one);
      }
    }
  }
}

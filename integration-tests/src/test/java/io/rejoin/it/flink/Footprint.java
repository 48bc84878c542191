package io.rejoin.it.flink;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What a process of Flink's holds after a full garbage collection. Linux only: it reads {@code
 * /proc}.
 *
 * @param libraries copies of Rejoin's native library that are mapped
 * @param loaders class loaders of jobs
 * @param threads of Rejoin's, Java's and native ones
 * @param descriptors open files and sockets
 * @param metaspaceKb used metaspace
 */
record Footprint(int libraries, int loaders, int threads, int descriptors, int metaspaceKb) {
  private static final Pattern LOADERS =
      Pattern.compile("(\\d+) +\\d+ +org\\.apache\\.flink\\.util\\.ChildFirstClassLoader");
  private static final Pattern METASPACE = Pattern.compile("Metaspace +used (\\d+)K");

  /** Of a process, now. */
  static Footprint of(FlinkProcess process) throws IOException, InterruptedException {
    Path proc = Path.of("/proc", Long.toString(process.pid()));
    // The histogram counts what is alive, so it collects all garbage; and what was waiting for
    // that (references that are cleared, libraries that are closed) is gone after another one.
    jcmd(process, "GC.class_histogram");
    int loaders = number(LOADERS, jcmd(process, "GC.class_histogram"), 0);
    int metaspace = number(METASPACE, jcmd(process, "GC.heap_info"), -1);
    return new Footprint(
        libraries(proc), loaders, threads(proc), count(proc.resolve("fd")), metaspace);
  }

  private static int threads(Path proc) throws IOException {
    int ours = 0;
    try (DirectoryStream<Path> all = Files.newDirectoryStream(proc.resolve("task"))) {
      for (Path thread : all) {
        try {
          ours += Files.readString(thread.resolve("comm")).startsWith("rejoin-") ? 1 : 0;
        } catch (IOException gone) {
          // It has just ended.
        }
      }
    }
    return ours;
  }

  private static int libraries(Path proc) throws IOException {
    try (Stream<String> lines = Files.lines(proc.resolve("maps"))) {
      // Of the columns the fifth is the file's inode: one for each copy.
      return (int)
          lines
              .filter(line -> line.contains("librejoin_jni.so"))
              .map(line -> line.split(" +")[4])
              .distinct()
              .count();
    }
  }

  private static int count(Path folder) throws IOException {
    try (Stream<Path> all = Files.list(folder)) {
      return (int) all.count();
    }
  }

  private static int number(Pattern wanted, String text, int otherwise) {
    Matcher match = wanted.matcher(text);
    return match.find() ? Integer.parseInt(match.group(1)) : otherwise;
  }

  private static String jcmd(FlinkProcess process, String command)
      throws IOException, InterruptedException {
    Process jcmd =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "jcmd").toString(),
                Long.toString(process.pid()),
                command)
            .redirectErrorStream(true)
            .start();
    String said = new String(jcmd.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    if (jcmd.waitFor() != 0) {
      throw new IOException("jcmd " + command + " for " + process + ": " + said);
    }
    return said;
  }
}

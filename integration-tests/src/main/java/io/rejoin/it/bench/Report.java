package io.rejoin.it.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Prints figures as they come, and leaves for each benchmark a table file, and one of the single
 * pairs where there are any.
 */
final class Report {
  private final Path folder;
  private final Map<String, List<Figure>> byBench = new LinkedHashMap<>();

  /** Files go to this folder. */
  Report(Path folder) {
    this.folder = folder;
  }

  /** A heading. */
  void title(String text) {
    say("");
    say(text);
  }

  /** A sentence. */
  void say(String text) {
    System.out.println(text);
    System.out.flush();
  }

  /** One figure; its file is written anew, so that a run that is broken off leaves what it has. */
  void add(Figure figure) throws IOException {
    say(figure.line());
    List<Figure> figures = byBench.computeIfAbsent(figure.bench(), bench -> new ArrayList<>());
    figures.add(figure);
    List<String> lines = new ArrayList<>();
    lines.add(Figure.HEADER);
    List<String> pairs = new ArrayList<>();
    pairs.add(Figure.PAIRS_HEADER);
    for (Figure one : figures) {
      lines.add(one.csv());
      pairs.addAll(one.pairsCsv());
    }
    Files.createDirectories(folder);
    Files.write(folder.resolve(figure.bench() + ".csv"), lines);
    if (pairs.size() > 1) {
      Files.write(folder.resolve(figure.bench() + "-pairs.csv"), pairs);
    }
  }

  /** The last line. */
  void close() {
    List<Figure> barred =
        byBench.values().stream().flatMap(List::stream).filter(Figure::hasBar).toList();
    long met = barred.stream().filter(Figure::met).count();
    say("");
    say("bars met: " + met + " of " + barred.size());
  }
}

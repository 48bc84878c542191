package io.rejoin.it.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Prints figures as they come, and leaves one table file for each benchmark. */
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
    figures.forEach(one -> lines.add(one.csv()));
    Files.createDirectories(folder);
    Files.write(folder.resolve(figure.bench() + ".csv"), lines);
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

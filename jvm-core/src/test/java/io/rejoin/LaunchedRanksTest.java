package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.elastic.Discovery;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** JVMs that {@code rejoin run} starts as ranks, killed at moments of their life. */
class LaunchedRanksTest {
  private static final Path ROOT = Path.of(System.getProperty("rejoin.test.root"));

  private static String run(List<String> kills, String... program) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("rejoin.test.launcher"));
    command.addAll(List.of("run", "--timeout", "100s", "--lost-after", "10s", "--restart"));
    kills.forEach(rule -> command.addAll(List.of("--kill", rule)));
    command.addAll(List.of(program));
    Path out = Files.createTempFile("ranks", ".out");
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(out.toFile())
              .start();
      int status = process.waitFor();
      String said = Files.readString(out);
      assertEquals(0, status, said);
      kills.forEach(rule -> assertTrue(said.contains("rule `" + rule + "` fired"), said));
      return said;
    } finally {
      Files.delete(out);
    }
  }

  private static String[] java(int world, String classPath, String main, String... arguments) {
    Path java = Path.of(System.getProperty("java.home"), "bin", "java");
    Stream<String> begin =
        Stream.of("-n", "" + world, "--", java.toString(), "-XX:+UseSerialGC", "-Xmx128m");
    Stream<String> middle = Stream.of("-XX:TieredStopAtLevel=1", "-cp", classPath, main);
    return Stream.of(begin, middle, Stream.of(arguments)).flatMap(x -> x).toArray(String[]::new);
  }

  private static String digest(String said) {
    Set<String> found =
        said.lines()
            .filter(line -> line.contains("digest "))
            .map(line -> line.substring(line.indexOf("digest ")))
            .collect(Collectors.toSet());
    assertEquals(1, found.size(), said);
    return found.iterator().next().substring("digest ".length());
  }

  private static String example(String name, Path classes) throws IOException {
    String classPath = System.getProperty("rejoin.test.classpath");
    Path source = ROOT.resolve("examples/java").resolve(name + ".java");
    int failed =
        ToolProvider.getSystemJavaCompiler()
            .run(
                null,
                null,
                null,
                "--release",
                "11",
                "-Xlint:all,-path",
                "-Werror",
                "-cp",
                classPath,
                "-d",
                classes.toString(),
                source.toString());
    assertEquals(0, failed);
    return classPath + ":" + classes;
  }

  private static String sameDigestWhoeverDies(String name, Path classes, List<List<String>> kills)
      throws Exception {
    String data = ROOT.resolve("integration-tests/data/randhie.csv").toString();
    String[] program = java(4, example(name, classes), name, data);
    String undisturbed = digest(run(List.of(), program));
    for (List<String> rules : kills) {
      assertEquals(undisturbed, digest(run(rules, program)), rules.toString());
    }
    return undisturbed;
  }

  @Test
  void every_collective_gives_every_rank_its_value_while_ranks_die() throws Exception {
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] program = java(3, classPath, "io.rejoin.CollectivesProgram");
    digest(run(List.of(), program));
    digest(
        run(
            List.of(
                "rank=1,version=boot,seqno=1",
                "rank=0,version=1,seqno=7,at=completed",
                "rank=2,version=2,seqno=11"),
            program));
  }

  @Test
  void k_means_prints_the_other_languages_digest_whoever_dies(@TempDir Path classes)
      throws Exception {
    String digest =
        sameDigestWhoeverDies(
            "KMeans",
            classes,
            List.of(
                List.of("rank=1,version=boot,seqno=0", "rank=0,version=0,seqno=0,at=completed"),
                List.of(
                    "rank=2,version=12,seqno=0",
                    "rank=3,version=20,seqno=0",
                    "rank=0,at=finalize")));
    assertEquals(Files.readString(ROOT.resolve("examples/kmeans.digest")).trim(), digest);
  }

  @Test
  void logistic_regression_prints_the_other_languages_digest_whoever_dies(@TempDir Path classes)
      throws Exception {
    String digest =
        sameDigestWhoeverDies(
            "Logistic",
            classes,
            List.of(
                List.of(
                    "rank=3,version=0,seqno=0,at=completed",
                    "rank=0,version=9,seqno=0",
                    "rank=1,version=9,seqno=0,at=again",
                    "rank=2,version=17,at=checkpoint")));
    assertEquals(Files.readString(ROOT.resolve("examples/logistic.digest")).trim(), digest);
  }

  /** What ranks of an elastic job print, one of which at least is killed. */
  private static String elastic(Path folder, String[] program, String... options) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("rejoin.test.launcher"));
    command.addAll(List.of("run", "--timeout", "100s", "--lost-after", "10s"));
    command.addAll(List.of(options));
    command.addAll(List.of(program));
    Path out = folder.resolve("out");
    Process process =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile()).start();
    int status = process.waitFor();
    String said = Files.readString(out);
    assertEquals(0, status, said);
    assertTrue(said.contains(" fired at rank"), said);
    return said;
  }

  /** By a program of the guide to elastic worlds. */
  private static List<String> elasticMeans(Path folder, String... options) throws Exception {
    String guide = Files.readString(ROOT.resolve("docs/elastic.md"));
    String begin = "```java file=Mean.java\n";
    String program = guide.substring(guide.indexOf(begin) + begin.length());
    Path source = folder.resolve("Mean.java");
    Files.writeString(source, program.substring(0, program.indexOf("```")));
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] compile = {
      "--release", "11", "-cp", classPath, "-d", folder.toString(), source.toString()
    };
    assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, compile));
    String said = elastic(folder, java(3, classPath + ":" + folder, "Mean"), options);
    return said.lines()
        .filter(line -> line.contains("the mean is "))
        .map(line -> line.substring(line.indexOf("the mean is ")))
        .collect(Collectors.toList());
  }

  @Test
  void the_elastic_guides_program_goes_on_as_if_nothing_was_or_in_a_smaller_world(
      @TempDir Path folder) throws Exception {
    String[] rules = {"--kill", "rank=1,version=7,seqno=0"};
    List<String> same = elasticMeans(folder, "--restart", rules[0], rules[1]);
    assertEquals(3, same.size());
    String[] fewer = {"--min", "2", "--elastic-timeout", "300ms", rules[0], rules[1]};
    List<String> smaller = elasticMeans(folder, fewer);
    assertEquals(2, smaller.size());
    for (List<String> means : List.of(same, smaller)) {
      assertEquals(1, Set.copyOf(means).size(), means.toString());
      double mean = Double.parseDouble(means.get(0).substring("the mean is ".length()));
      // Of numbers from 0 to 1, the newest of which weigh most.
      assertEquals(0.5, mean, 0.1);
    }
  }

  @Test
  void each_sample_is_in_an_elastic_state_once_in_each_epoch_although_the_world_shrinks_twice(
      @TempDir Path folder) throws Exception {
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] program = java(4, classPath, "io.rejoin.elastic.CountingProgram");
    String[] options = {
      "--min", "2",
      "--elastic-timeout", "300ms",
      "--kill", "rank=1,version=7,seqno=0",
      "--kill", "rank=2,incarnation=any,version=17,seqno=0"
    };
    String said = elastic(folder, program, options);
    assertEquals(2, said.split(Pattern.quote("seen [1], begun again 2"), -1).length - 1, said);
  }

  @Test
  void ranks_that_begin_with_different_values_train_one_model_whoever_dies_before_the_first_commit(
      @TempDir Path folder) throws Exception {
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] program = java(3, classPath, "io.rejoin.elastic.DifferentBeginnings");
    String[] rules = {
      "rank=0,version=0,seqno=1", "rank=0,version=0,seqno=2", "rank=0,version=4,seqno=3"
    };
    for (String rule : rules) {
      String said = elastic(folder, program, "--restart", "--kill", rule);
      assertEquals(1, digests(said, 3).size(), said);
    }
    String[] fewer = {
      "--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=0,version=0,seqno=3"
    };
    assertEquals(1, digests(elastic(folder, program, fewer), 2).size());
  }

  /** What so many ranks have printed, each once. */
  private static Set<String> digests(String said, int ranks) {
    List<String> digests =
        said.lines()
            .filter(line -> line.contains("digest "))
            .map(line -> line.substring(line.indexOf("digest ")))
            .collect(Collectors.toList());
    assertEquals(ranks, digests.size(), said);
    return Set.copyOf(digests);
  }

  @Test
  void the_elastic_example_sees_each_sample_once_in_each_epoch_although_the_world_shrinks(
      @TempDir Path folder) throws Exception {
    Path script = folder.resolve("slots.sh");
    Files.writeString(script, "#!/bin/sh\necho localhost:3\n");
    assertTrue(script.toFile().setExecutable(true));
    String[] program = java(3, example("Elastic", folder), "Elastic", "3");
    String[] options = {
      "--min", "2",
      "--max", "3",
      "--discovery", script.toString(),
      "--elastic-timeout", "300ms",
      "--kill", "rank=1,version=50,seqno=0"
    };
    String said = elastic(folder, program, options);
    assertTrue(said.contains("so the world of 3 ranks goes on as one of 2"), said);
    String seen = "the model has seen 6000 samples in 3 epochs";
    assertEquals(2, said.split(seen, -1).length - 1, said);
  }

  @Test
  void a_world_grows_by_slots_that_a_discovery_names_and_goes_on_while_it_throws(
      @TempDir Path folder) throws Exception {
    Path out = folder.resolve("out");
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] program = java(2, classPath, "io.rejoin.elastic.CountingProgram", "3");
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("rejoin.test.launcher"));
    command.addAll(List.of("run", "--timeout", "100s", "--lost-after", "10s", "--discovery", "-"));
    command.addAll(List.of("--min", "2", "--max", "3", "--resize-interval", "100ms"));
    command.addAll(List.of(program));
    AtomicInteger asked = new AtomicInteger();
    Discovery discovery =
        () -> {
          if (asked.incrementAndGet() == 2) {
            throw new IOException("no scheduler\nat all");
          }
          return Map.of("localhost", asked.get() > 2 ? 3 : 2);
        };
    ProcessBuilder launcher =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(out.toFile());
    int status = Discovery.launch(launcher, discovery).waitFor();
    String said = Files.readString(out);
    assertEquals(0, status, said);
    String failed = "java.io.IOException: no scheduler at all; what it has named last holds";
    assertTrue(said.contains("--discovery -: " + failed), said);
    assertEquals(3, said.split(Pattern.quote("seen [1]"), -1).length - 1, said);
  }

  @Test
  void own_models_of_ranks_that_are_gone_are_given_to_others(@TempDir Path folder)
      throws Exception {
    String classPath = System.getProperty("rejoin.test.classpath");
    String[] program = java(4, classPath, "io.rejoin.OwnModelsProgram");
    String[] options = {
      "--min", "2", "--elastic-timeout", "300ms", "--kill", "rank=1,version=2,seqno=0"
    };
    String said = elastic(folder, program, options);
    String given = "rank 1, rank 2 of 4 ranks, given those of [1], right";
    assertEquals(1, said.split(Pattern.quote(given), -1).length - 1, said);
    assertEquals(3, said.split("refused by BAD_ARGUMENT", -1).length - 1, said);
  }

  @Test
  void the_guides_program_survives_by_the_guides_own_command(@TempDir Path folder)
      throws Exception {
    String guide = Files.readString(ROOT.resolve("docs/guides/own-training-loop.md"));
    String begin = "```java file=Loop.java\n";
    String program = guide.substring(guide.indexOf(begin) + begin.length());
    Path source = folder.resolve("Loop.java");
    Files.writeString(source, program.substring(0, program.indexOf("```")));
    assertTrue(
        guide.contains(
            "--kill rank=2,version=10,seqno=0 -- java -cp rejoin-core-0.1.0.jar Loop.java"));
    String classPath = System.getProperty("rejoin.test.classpath");
    String said = run(List.of("rank=2,version=10,seqno=0"), java(4, classPath, source.toString()));
    Set<String> means =
        said.lines()
            .filter(line -> line.contains("the mean is "))
            .map(line -> line.substring(line.indexOf("the mean")))
            .collect(Collectors.toSet());
    assertEquals(1, means.size(), said);
  }
}

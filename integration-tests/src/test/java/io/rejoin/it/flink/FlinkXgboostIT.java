package io.rejoin.it.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.Faults;
import io.rejoin.it.JavaProcess;
import io.rejoin.xgboost.XgboostVersion;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** XGBoost in Flink, unmodified, while TaskManagers die. */
@DisplayName("XGBoost trains the same model in Flink, byte for byte, whatever meets a TaskManager")
class FlinkXgboostIT {
  @Test
  @DisplayName("a TaskManager is killed in the middle of training")
  void training() throws Exception {
    Faults faults = Faults.parse("rank=1,version=9,at=bytes:0");
    check("xgboost-training", List.of(0, 1, 0), faults);
  }

  @Test
  @DisplayName("a TaskManager is killed while the bridge serves XGBoost, since the hook is off")
  void by_the_bridge() throws Exception {
    Faults faults = Faults.parse("rank=1,version=9,at=bytes:0");
    XgboostRun run = new XgboostRun("xgboost-bridge").setting("rejoin.hook", "off").faults(faults);
    check(run, List.of(0, 1, 0), "go through the bridge");
  }

  @Test
  @DisplayName("the TaskManager of rank 0 is killed, and the one that it comes back in, too")
  void rank_zero() throws Exception {
    Faults faults =
        Faults.parse("rank=0,version=5,at=bytes:0")
            .and("rank=0,incarnation=1,version=11,at=bytes:0");
    check("xgboost-zero", List.of(2, 0, 0), faults);
  }

  @Test
  @DisplayName("a TaskManager is killed before the first round, and another one at the end")
  void boot_and_end() throws Exception {
    Faults faults = Faults.parse("rank=2,version=boot,at=bytes:0").and("rank=1,at=finalize");
    check("xgboost-ends", List.of(0, 1, 1), faults);
  }

  @Test
  @DisplayName("a TaskManager is killed that has half of its rows, all of them in a checkpoint")
  void input() throws Exception {
    XgboostRun run =
        new XgboostRun("xgboost-input")
            .halfWay(
                half -> {
                  half.awaitOneMoreCheckpoint();
                  half.processOf(1).signal("KILL");
                });
    assertArrayEquals(XgboostRun.undisturbed(false), run.model());
    assertEquals(List.of(0, 1, 0), run.attempts());
  }

  @Test
  @DisplayName("Flink makes checkpoints while ranks train, and one of them is held up in a round")
  void checkpoints_go_on() throws Exception {
    Faults faults = Faults.parse("rank=1,version=9,at=bytes:0,do=delay:8s");
    XgboostRun run =
        new XgboostRun("xgboost-checkpoints")
            .faults(faults)
            .later(
                training -> {
                  training.awaitFired();
                  // One may have begun before; the other one has begun and ended meanwhile.
                  training.awaitOneMoreCheckpoint();
                  training.awaitOneMoreCheckpoint();
                });
    assertArrayEquals(XgboostRun.undisturbed(false), run.model());
    assertEquals(List.of(0, 0, 0), run.attempts());
  }

  @Test
  @DisplayName("in batch, behind an exchange whose data die with a TaskManager that is killed once")
  void batch() throws Exception {
    // The data may be those of all ranks, who begin a new gang then: a rule that kills would kill
    // in that one, too. So it stops, the test kills who is stopped first, and wakes who comes next.
    XgboostRun run =
        new XgboostRun("xgboost-batch")
            .batch()
            .faults(Faults.parse("rank=1,version=9,at=bytes:0,do=stop"))
            .later(FlinkXgboostIT::killOnce);
    assertArrayEquals(XgboostRun.undisturbed(true), run.model());
    assertTrue(run.attempts().get(1) > 0, "rank 1 has a second attempt");
  }

  private static void killOnce(XgboostRun run) throws Exception {
    FlinkProcess stopped = run.awaitStopped();
    assertEquals(run.processOf(1), stopped, "the process of rank 1");
    stopped.signal("KILL");
    run.wakeUntilTheEnd();
  }

  private static void check(String name, List<Integer> attempts, Faults faults) throws Exception {
    check(new XgboostRun(name).faults(faults), attempts, "are served by Rejoin's");
  }

  private static void check(XgboostRun run, List<Integer> attempts, String how) throws Exception {
    assertArrayEquals(XgboostRun.undisturbed(false), run.model());
    assertEquals(attempts, run.attempts());
    run.awaitLogged("XGBoost's collectives " + how);
  }

  @Test
  @DisplayName("classification, regression and ranking give the models of the estimator for Spark")
  void the_models_of_spark() throws Exception {
    Path folder = trainInSpark();
    assertEquals(
        XgboostVersion.loaded().toString(), Files.readString(folder.resolve("version")), "XGBoost");
    for (XgboostKind kind : XgboostKind.values()) {
      byte[] ofSpark = Files.readAllBytes(folder.resolve(kind.name()));
      byte[] ofFlink = new XgboostRun("xgboost-" + kind).kind(kind).model();
      assertArrayEquals(ofSpark, ofFlink, kind.name());
    }
  }

  /** The folder where {@link SparkModels}, with the same XGBoost, has left its models. */
  private static Path trainInSpark() throws Exception {
    Path folder = Clusters.withRejoinInLib().work().folder("models-of-spark");
    // The jar, where classes of Flink are beside those for Spark, and nothing of Flink's.
    String classPath =
        Stream.concat(
                FlinkJars.ofJob().stream().map(Path::toString),
                Stream.of(Files.readString(Path.of("build/classpath-spark35-xgb340.txt"))))
            .collect(Collectors.joining(File.pathSeparator));
    List<String> arguments =
        new ArrayList<>(List.of(folder.toString(), Integer.toString(XgboostRun.ROUNDS)));
    Arrays.stream(XgboostRun.LENGTHS).mapToObj(Long::toString).forEach(arguments::add);
    Path log = folder.resolve("spark.log");
    try (JavaProcess spark =
        new JavaProcess("Spark", SparkModels.class, arguments.toArray(new String[0]))
            .classPath(classPath)
            .memory("512m")
            .option("-XX:TieredStopAtLevel=1")
            .property("java.io.tmpdir", folder.toString())
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", log.toString())
            .start(folder.resolve("spark.out.log"))) {
      boolean hasEnded = spark.process().waitFor(XgboostRun.LIMIT.toSeconds(), TimeUnit.SECONDS);
      assertEquals(0, hasEnded ? spark.process().exitValue() : null, () -> "see " + log);
    }
    return folder;
  }
}

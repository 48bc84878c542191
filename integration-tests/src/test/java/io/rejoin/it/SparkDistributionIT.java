package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.rejoin.JobId;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.RejoinEstimator;
import io.rejoin.spark.RejoinListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.jar.Manifest;
import ml.dmlc.xgboost4j.java.Booster;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * What a user types, on a distribution as it is unpacked, with our jars by {@code --jars} or {@code
 * --packages}.
 */
@DisplayName("a Spark distribution")
class SparkDistributionIT {
  private static final Duration LIMIT = Duration.ofSeconds(400);
  private static final String KILL = Fault.of(1).version(5, 10_000).kill();

  private static StandaloneCluster cluster;

  @BeforeAll
  static void start() {
    Sessions.free();
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    cluster = StandaloneCluster.start("distribution", 4, Path.of("build/spark-" + version));
  }

  @AfterAll
  static void stop() {
    cluster.close();
  }

  @Test
  @DisplayName("spark-submit trains through a kill; listeners of its jar and of another one hear")
  void spark_submit_survives_a_kill() throws Exception {
    Path other = cluster.work().file("listener.jar");
    Jars.write(other, new Manifest(), OtherListener.class);
    List<String> command = Submission.command(cluster.home(), "spark-submit", settings());
    command.addAll(List.of("--jars", Submission.jars() + "," + other));
    String listeners = LostListener.class.getName() + "," + OtherListener.class.getName();
    command.addAll(List.of("--conf", "spark.rejoin.listeners=" + listeners));
    survives("spark-submit", command);
    String output = Files.readString(cluster.work().file("spark-submit.log"));
    for (String listener : List.of("LostListener", "OtherListener")) {
      String said = listener + " has seen rank 1 lost";
      assertEquals(2, output.split(said, -1).length, output);
    }
  }

  /** Not in the application's jar, as tests aren't: it gets one of its own. */
  public static final class OtherListener implements RejoinListener {
    @Override
    public void onEvent(JobId job, TrainingEvent event) {
      if (event.kind() == TrainingEvent.Kind.RANK_LOST) {
        System.out.println("OtherListener has seen rank " + event.number("rank") + " lost");
      }
    }
  }

  private static void survives(String name, List<String> command) throws Exception {
    // Only by this does a driver end when this process is killed.
    command.addAll(List.of("--driver-java-options", "-javaagent:" + cluster.leash()));
    command.addAll(List.of("--class", FitDriver.class.getName()));
    command.addAll(List.of(Submission.application().toString(), Recipe.BINARY.name(), "3", "10"));
    command.addAll(List.of("", KILL));
    try (Submission application = Submission.start(cluster, name, command)) {
      application.awaitEnd(LIMIT);
      application.assertSameModels(2);
      assertEquals(List.of("1"), application.facts("again"));
    }
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  @DisplayName("spark-submit gets our modules from a Maven repository by --packages")
  void spark_submit_takes_packages() throws Exception {
    Path repository = Path.of("build/m2").toAbsolutePath();
    assertTrue(
        Files.isDirectory(repository.resolve("io/rejoin")),
        () -> "no modules in " + repository + ": scripts/examples.sh publishes them");
    // As rejoin-spark_2.12-0.1.0.jar; its POM brings rejoin-core.
    String jar = Path.of(Submission.jarOf(RejoinEstimator.class)).getFileName().toString();
    String module = jar.replaceFirst("-([0-9][^-]*)\\.jar$", ":$1");
    Map<String, String> settings = settings();
    settings.put("spark.jars.ivy", cluster.work().folder("ivy").toString());
    List<String> command = Submission.command(cluster.home(), "spark-submit", settings);
    command.addAll(List.of("--packages", "io.rejoin:" + module));
    command.addAll(List.of("--repositories", repository.toUri().toString()));
    command.addAll(List.of("--jars", Submission.jarOf(Booster.class)));
    survives("packages", command);
  }

  @Test
  @EnabledIfSystemProperty(named = "rejoin.it.long", matches = "true")
  @DisplayName("spark-shell trains through a kill, and the models are the same")
  void spark_shell_survives_a_kill() throws Exception {
    String script = SCRIPT.replace("FILE", "" + Randhie.file());
    List<String> command = command("spark-shell");
    try (Submission shell = Submission.start(cluster, "spark-shell", command, script)) {
      shell.awaitEnd(LIMIT);
      shell.assertSameModels(2);
      List<String> means = shell.facts("mean");
      assertEquals(2, means.size(), shell.facts().toString());
      assertEquals(means.get(0), means.get(1));
      assertEquals(List.of("1", "2"), shell.facts("again"));
    }
  }

  @Test
  @DisplayName("spark-submit runs the example that Maven has built from our published modules")
  void spark_submit_runs_the_example() throws Exception {
    String version = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    assumeTrue(version.startsWith("3."), "examples/spark/pom.xml is for Spark 3.5");
    Path jar = Path.of("examples/spark/target/train-with-rejoin-1.jar").toAbsolutePath();
    assertTrue(Files.isRegularFile(jar), () -> "no " + jar + ": scripts/examples.sh builds it");
    // As its README says: all of ours is in that jar.
    List<String> command = Submission.command(cluster.home(), "spark-submit", settings());
    command.addAll(List.of("--driver-java-options", "-javaagent:" + cluster.leash()));
    command.addAll(List.of("--class", "example.KMeans", jar.toString()));
    command.addAll(List.of(Randhie.file().toString(), "3"));
    try (Submission example = Submission.start(cluster, "example", command)) {
      example.awaitEnd(LIMIT);
    }
    List<String> printed = Files.readAllLines(cluster.work().file("example.log"));
    List<String> centers = printed.stream().filter(line -> line.startsWith("[")).toList();
    assertEquals(1, centers.size(), printed.toString());
    String header = Files.readAllLines(Randhie.file()).get(0);
    int numbers = 8 * header.split(",").length;
    assertTrue(
        centers.get(0).matches("\\[(-?\\d[-.\\dE]*(, |\\]$)){" + numbers + "}"), centers.get(0));
  }

  /** A user's lines: the estimator, then a function of the shell's own. */
  private static final String SCRIPT =
      """
import io.rejoin.{Communicator, Faults, Reduction, TrainingEvent}
import io.rejoin.spark.{RejoinEstimator, RejoinSpark}
import ml.dmlc.xgboost4j.scala.spark.{XGBoostClassificationModel, XGBoostClassifier}
import org.apache.spark.ml.feature.VectorAssembler
import org.apache.spark.sql.Row
// This script is echoed, so that what it prints must not stand in it.
val mark = "@" + "@ "
val table = spark.read.option("header", true).option("inferSchema", true).csv("FILE")
val facts = Array("lncoins", "idp", "lpi", "physlm", "disea")
val assembler = new VectorAssembler().setInputCols(facts).setOutputCol("features")
val train = assembler.transform(table.selectExpr("*", "double(mdvis > 0) as label"))
val again = (e: TrainingEvent) => {
  if (e.kind == TrainingEvent.Kind.CAUGHT_UP) println(mark + "again " + e.number("rank"))
}
def stock = {
  val one = new XGBoostClassifier(Map("objective" -> "binary:logistic", "max_depth" -> 5))
  one.setNumWorkers(3).setNumRound(10).setMissing(0f).setSeedPerIteration(true)
}
def fit(faults: String): Unit = {
  val ours = new RejoinEstimator[XGBoostClassificationModel](stock)
  ours.setFaultsForTests(Faults.parse(faults)).setEventListener(e => again(e))
  val bytes = ours.fit(train).nativeBooster.toByteArray("ubj")
  println(mark + "model " + java.util.Arrays.hashCode(bytes))
}
fit("")
fit("rank=1,version=5,at=bytes:10000,do=kill")
def mean(faults: String): Unit = {
  val options = new RejoinSpark.Options().faultsForTests(Faults.parse(faults))
  options.eventListener(e => again(e))
  val sums = RejoinSpark.train(table, 3, (ranks: Communicator, rows: java.lang.Iterable[Row]) => {
    var step = ranks.load().version
    val sums = Array(0.0, 0.0)
    while (step < 5) {
      sums(0) = 0; sums(1) = 0
      rows.forEach { row => sums(0) += row.getAs[Double]("disea"); sums(1) += 1 }
      ranks.allreduce(sums, Reduction.SUM)
      ranks.checkpoint(Array[Byte](1))
      step += 1
    }
    sums
  }, options)
  println(mark + "mean " + sums(0) / sums(1))
}
mean("")
mean("rank=2,version=3,seqno=0,do=kill")
System.exit(0)
""";

  /** The command of the documents, with what this cluster needs. */
  private static List<String> command(String client) {
    List<String> command = Submission.command(cluster.home(), client, settings());
    command.addAll(List.of("--jars", Submission.jars()));
    return command;
  }

  private static Map<String, String> settings() {
    Map<String, String> settings = cluster.configuration();
    settings.put("spark.cores.max", "4");
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    return settings;
  }
}

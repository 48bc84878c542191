package io.rejoin.it.flink;

import io.rejoin.flink.Rejoin;
import io.rejoin.flink.TrainedModel;
import io.rejoin.it.Terminal;
import io.rejoin.it.Terminal.Tone;
import io.rejoin.it.WorkDirectory;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * {@code make demo-flink}: online logistic regression on a Flink distribution as it is unpacked,
 * fed from files; undisturbed, and with a TaskManager killed in the middle. It ends with status 0
 * only if both models are the same, byte for byte, and each row is in them once.
 *
 * <p>Settings are system properties: {@code version} (the one at which the TaskManager is killed)
 * and {@code rank} (whose TaskManager that is).
 */
public final class FlinkDemo {
  private static final Path HOME = Path.of("build/flink-2.3.0");
  private static final int RANKS = 3;
  private static final int FILES = 6;
  private static final int TIMES = 3;
  private static final int BATCH = 100;
  private static final int ROWS_PER_SECOND = 2000;
  private static final int VERSION = Integer.getInteger("version", 80);
  private static final int RANK = Integer.getInteger("rank", 1);
  private static final Duration LIMIT = Duration.ofSeconds(120);
  private static final Pattern SENTENCE =
      Pattern.compile("(INFO|WARN|ERROR) +io\\.rejoin\\.job +\\[] - job \\w+: (.*)");

  private final Terminal terminal = Terminal.standard();
  private final FlinkCluster cluster;
  private final Path rows;
  private final Path warmUp;
  private final long count;
  private int said;

  /** What a training has come to. */
  private record Result(
      String name, DemoTrainer.Model model, String digest, List<Integer> attempts, double seconds) {
    private long restarted() {
      return attempts.stream().mapToInt(Integer::intValue).sum();
    }
  }

  private FlinkDemo(FlinkCluster cluster) throws IOException {
    this.cluster = cluster;
    rows = cluster.work().folder("rows");
    count = DemoData.write(rows, TIMES, FILES);
    warmUp = cluster.work().folder("warm-up-rows");
    DemoData.write(warmUp, 1, FILES);
  }

  /** No arguments; see the class. */
  public static void main(String[] arguments) throws Exception {
    if (RANK < 0 || RANK >= RANKS || VERSION < 1) {
      System.out.printf(
          "-Drank=%d -Dversion=%d: expected a rank from 0 to %d, and a version of at least 1%n",
          RANK, VERSION, RANKS - 1);
      System.exit(2);
    }
    WorkDirectory work = WorkDirectory.fresh("demo-flink-client");
    System.setProperty("rejoin.it.log", work.file("client.log").toString());
    System.setProperty("log4j2.configurationFile", "rejoin-it-log4j2.properties");
    int status;
    try (FlinkCluster cluster =
        FlinkCluster.named("demo-flink").distribution(HOME).taskManagers(RANKS + 1).start()) {
      status = new FlinkDemo(cluster).run();
    }
    System.exit(status);
  }

  private int run() throws Exception {
    terminal.print("Rejoin: lock-step training in Flink that survives a killed TaskManager.");
    terminal.print(
        String.format(
            Locale.ROOT,
            "RAND Health Insurance Experiment, %d times: %,d rows from %d files; %d ranks, batches"
                + " of %d rows each.",
            TIMES,
            count,
            FILES,
            RANKS,
            BATCH));
    terminal.title(
        "1. A whole Flink distribution: a JobManager and TaskManagers, each in its own process");
    terminal.line(
        String.format(
            "%s is process %d, web pages at http://127.0.0.1:%d",
            cluster.jobManager().name(), cluster.jobManager().pid(), cluster.rest().port()));
    cluster
        .taskManagers()
        .forEach(each -> terminal.line(each.name() + " is process " + each.pid() + ", one slot"));

    terminal.line("a short training warms the JVMs up");
    job("warm-up", warmUp, 10 * ROWS_PER_SECOND).awaitEnd(LIMIT);

    terminal.title("2. Undisturbed");
    Result undisturbed = train("undisturbed", false);
    terminal.title(
        "3. Again; SIGKILL to the TaskManager of rank "
            + RANK
            + " when version "
            + VERSION
            + " is there");
    Result disturbed = train("one kill", true);
    table(List.of(undisturbed, disturbed));
    boolean agree =
        undisturbed.digest.equals(disturbed.digest)
            && undisturbed.model.hasEachOnce(count)
            && disturbed.model.hasEachOnce(count);
    terminal.print(
        agree
            ? terminal.paint(
                Tone.GOOD, "Both models are the same, byte for byte, and have each row once.")
            : terminal.paint(Tone.BAD, "THE MODELS DIFFER, or rows are amiss: this must not be."));
    return agree ? 0 : 1;
  }

  private Result train(String name, boolean kill) throws Exception {
    Path folder = folder(name);
    said = cluster.jobManager().logged().length();
    long start = System.nanoTime();
    FlinkJob job = job(name, rows, ROWS_PER_SECOND);
    Thread telling = new Thread(() -> tell(folder));
    telling.setDaemon(true);
    telling.start();
    if (kill) {
      kill(job, folder);
    }
    String end = job.awaitEnd(LIMIT);
    double seconds = (System.nanoTime() - start) / 1e9;
    telling.interrupt();
    telling.join();
    if (!end.equals("FINISHED")) {
      throw new IllegalStateException("the job " + name + " is " + end + ": " + job.failures());
    }
    TrainedModel last = LatestModel.in(folder);
    DemoTrainer.Model model = last.read(new DemoTrainer(DemoData.FEATURES));
    String digest = LatestModel.digest(last.getBytes());
    terminal.line(
        Tone.GOOD,
        String.format(
            Locale.ROOT, "model %s, version %d, after %.1f s", digest, last.getVersion(), seconds));
    return new Result(name, model, digest, job.attempts("train DemoTrainer"), seconds);
  }

  private Path folder(String name) throws IOException {
    return cluster.work().folder(name.replace(' ', '-'));
  }

  /** Submits a training on these files, of so many rows a second for each rank. */
  private FlinkJob job(String name, Path lines, int rowsPerSecond) throws Exception {
    StreamExecutionEnvironment environment =
        cluster.environment(
            Map.of(
                "execution.checkpointing.interval", "500 ms",
                "rejoin.batch.rows", Integer.toString(BATCH),
                "rejoin.emit.versions", "1",
                "rejoin.log.level", "error"));
    environment.setParallelism(RANKS);
    Rejoin.train(
            Rejoin.source(
                    environment,
                    FileSource.forRecordStreamFormat(
                            new TextLineInputFormat(),
                            new org.apache.flink.core.fs.Path(lines.toUri()))
                        .build(),
                    WatermarkStrategy.noWatermarks(),
                    "rows")
                .map(new DemoData.Reader(rowsPerSecond)),
            new DemoTrainer(DemoData.FEATURES))
        .map(new LatestModel(folder(name)))
        .sinkTo(new DiscardingSink<>());
    return cluster.submit(environment, name);
  }

  private void kill(FlinkJob job, Path folder) throws Exception {
    Waiting.untilTrue(
        "version " + VERSION + " is there", LIMIT, () -> LatestModel.version(folder) >= VERSION);
    FlinkProcess disturbed = cluster.taskManager(job.taskManagerOf("train DemoTrainer", RANK));
    terminal.line(
        Tone.BAD,
        "rank "
            + RANK
            + ": "
            + disturbed.name()
            + " (process "
            + disturbed.pid()
            + ") is killed by SIGKILL");
    disturbed.signal("KILL");
  }

  /** What the JobManager says of the job, and the versions that have come downstream. */
  private void tell(Path folder) {
    int shown = 0;
    try {
      while (true) {
        sentences().forEach(this::sentence);
        int version = LatestModel.version(folder);
        if (version >= shown + 20) {
          shown = version - version % 20;
          terminal.grow("versions", Integer.toString(shown));
        }
        Thread.sleep(50);
      }
    } catch (InterruptedException over) {
      Thread.currentThread().interrupt();
    } catch (IOException gone) {
      terminal.line(Tone.BAD, "the JobManager's log can't be read: " + gone.getMessage());
    }
  }

  private List<String[]> sentences() throws IOException {
    String log = cluster.jobManager().logged();
    int whole = log.lastIndexOf('\n') + 1;
    List<String[]> sentences = new ArrayList<>();
    Matcher match = SENTENCE.matcher(log.substring(Math.min(said, whole), whole));
    while (match.find()) {
      sentences.add(new String[] {match.group(1), match.group(2)});
    }
    said = Math.max(said, whole);
    return sentences;
  }

  private void sentence(String[] sentence) {
    Tone tone =
        sentence[0].equals("INFO")
            ? Tone.PLAIN
            : sentence[1].contains("is lost") ? Tone.BAD : Tone.HEALING;
    terminal.line(tone, sentence[1]);
  }

  private void table(List<Result> results) {
    terminal.print("");
    row("", results, Result::name);
    terminal.print("  " + String.join("", Collections.nCopies(32 + 20 * results.size(), "-")));
    row("model, SHA-256", results, Result::digest);
    row("rows trained", results, each -> String.format(Locale.ROOT, "%,d", each.model.rows()));
    row(
        "rows lost or trained twice",
        results,
        each -> each.model.hasEachOnce(count) ? "0" : "SOME");
    row("subtasks restarted", results, each -> each.restarted() + " of " + RANKS);
    row("whole job, seconds", results, each -> seconds(each.seconds));
    row(
        "seconds lost by the kill",
        results,
        each -> each == results.get(0) ? "-" : seconds(each.seconds - results.get(0).seconds));
    terminal.print("");
  }

  private void row(
      String name, List<Result> results, java.util.function.Function<Result, String> cell) {
    StringBuilder line = new StringBuilder("  ").append(String.format("%-32s", name));
    results.forEach(each -> line.append(String.format("%20s", cell.apply(each))));
    terminal.print(line.toString());
  }

  private static String seconds(double seconds) {
    return String.format(Locale.ROOT, "%.1f", seconds);
  }
}

package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** A {@link FitDriver}, or a driver like it, in a process of its own, and what it reports. */
final class FitProcess implements AutoCloseable {
  private final JavaProcess driver;
  private final List<String> facts = new ArrayList<>();
  private boolean ended;

  /**
   * Starts one.
   *
   * @param folder for its temporary files
   * @param arguments of {@link FitDriver}
   */
  FitProcess(Map<String, String> settings, String folder, String... arguments) throws IOException {
    this(new JavaProcess("driver", FitDriver.class, arguments), settings, folder);
  }

  /** Starts another driver; {@code folder} is for its temporary files. */
  FitProcess(JavaProcess process, Map<String, String> settings, String folder) throws IOException {
    StandaloneCluster cluster = Sessions.cluster();
    driver =
        process
            .interruptible()
            .memory("1g")
            // What a master in this very process wants, as local-cluster has it.
            .environment("SPARK_HOME", cluster.work().folder("home").toString())
            .environment(
                "SPARK_SCALA_VERSION", settings.get("spark.executorEnv.SPARK_SCALA_VERSION"))
            .property("java.io.tmpdir", folder)
            .property("rejoin.it.data", Randhie.file().getParent().toString())
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", cluster.work().file("fit-driver.log").toString());
    settings.forEach(driver::property);
    Process started = driver.startPiped().process();
    for (java.io.InputStream stream :
        new java.io.InputStream[] {started.getInputStream(), started.getErrorStream()}) {
      Thread reader = new Thread(() -> read(stream), "driver-output");
      reader.setDaemon(true);
      reader.start();
    }
  }

  private void read(java.io.InputStream stream) {
    try (BufferedReader in =
        new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        if (line.startsWith(FitDriver.PREFIX)) {
          synchronized (facts) {
            facts.add(line.substring(FitDriver.PREFIX.length()));
            facts.notifyAll();
          }
        }
      }
    } catch (IOException closed) {
      // What it had to say is there.
    }
    synchronized (facts) {
      ended = true;
      facts.notifyAll();
    }
  }

  /**
   * Waits for the end of all trainings, whose models must be the same; returns in what order models
   * and restored ranks were told of, like "model, again 1, model".
   */
  String trainings(long seconds) throws InterruptedException {
    await("end", of -> true, seconds);
    List<String> told = facts();
    List<String> models = new ArrayList<>();
    List<String> order = new ArrayList<>();
    for (String fact : told) {
      if (fact.startsWith("model ")) {
        models.add(fact);
        order.add("model");
      } else if (fact.startsWith("again ")) {
        order.add(fact);
      }
    }
    assertEquals(1, Set.copyOf(models).size(), () -> "models: " + told);
    return String.join(", ", order);
  }

  /** Waits for the first fact that begins with this word and is as wanted; returns its value. */
  String await(String word, Predicate<String> wanted, long seconds) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    synchronized (facts) {
      for (; ; ) {
        for (String fact : facts) {
          if (fact.startsWith(word + " ") && wanted.test(fact.substring(word.length() + 1))) {
            return fact.substring(word.length() + 1);
          }
        }
        long left = deadline - System.nanoTime();
        if (left <= 0 || ended) {
          throw new AssertionError(
              driver
                  + (ended ? " ended" : " is late")
                  + "; wanted "
                  + word
                  + ", it reported "
                  + facts);
        }
        TimeUnit.NANOSECONDS.timedWait(facts, left);
      }
    }
  }

  /** All that it has reported until now. */
  List<String> facts() {
    synchronized (facts) {
      return new ArrayList<>(facts);
    }
  }

  Process process() {
    return driver.process();
  }

  @Override
  public void close() {
    driver.close();
  }
}

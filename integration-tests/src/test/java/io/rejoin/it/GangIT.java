package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The example's k-means by RejoinSpark.train, on executors without XGBoost. */
@DisplayName("any training in a gang, without XGBoost on any class path")
class GangIT {
  private static final Duration LIMIT = Duration.ofSeconds(200);
  private static final int WORKERS = 3;

  @TempDir Path temporary;

  @Test
  void killed_executors_rejoin_and_the_model_is_the_same() throws Exception {
    Sessions.free();
    String undisturbed = model("", 0);
    assertEquals(undisturbed, model("rank=1,version=9,seqno=0,do=kill", 1));
    assertEquals(
        undisturbed,
        model("rank=0,version=4,seqno=0,do=kill|rank=2,version=20,at=checkpoint,do=kill", 2));
  }

  /** The digest of the model, of a training in which so many ranks come back. */
  private String model(String faults, int again) throws Exception {
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.cores.max", "4");
    settings.put("spark.executor.extraClassPath", withoutXgboost());
    JavaProcess process =
        new JavaProcess(
                "driver",
                GangDriver.class,
                Integer.toString(WORKERS),
                Randhie.file().toString(),
                faults)
            .classPath(withoutXgboost());
    try (FitProcess driver = new FitProcess(process, settings, temporary.toString())) {
      String model = driver.await("model", digest -> true, LIMIT.toSeconds());
      assertEquals("false", driver.await("xgboost", there -> true, 1));
      long seen = driver.facts().stream().filter(fact -> fact.startsWith("again")).count();
      assertTrue(seen == again, () -> "who was restored: " + driver.facts());
      return model;
    }
  }

  private static String withoutXgboost() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(entry -> !entry.contains("xgboost4j"))
        .collect(Collectors.joining(File.pathSeparator));
  }
}

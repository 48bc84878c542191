package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

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
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.cores.max", "4");
    settings.put("spark.executor.extraClassPath", withoutXgboost());
    String[] arguments = {
      Integer.toString(WORKERS),
      Randhie.file().toString(),
      "",
      "rank=1,version=9,seqno=0,do=kill",
      "rank=0,version=4,seqno=0,do=kill|rank=2,version=20,at=checkpoint,do=kill"
    };
    JavaProcess process =
        new JavaProcess("driver", GangDriver.class, arguments).classPath(withoutXgboost());
    try (FitProcess driver = new FitProcess(process, settings, temporary.toString())) {
      assertEquals(
          "model, again 1, model, again 0, again 2, model", driver.trainings(LIMIT.toSeconds()));
      assertEquals("false", driver.await("xgboost", there -> true, 1));
    }
  }

  private static String withoutXgboost() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(entry -> !entry.contains("xgboost4j"))
        .collect(Collectors.joining(File.pathSeparator));
  }
}

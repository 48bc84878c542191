package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Master and worker in the driver's process, executors in processes of their own. */
@DisplayName("in local-cluster mode")
class LocalClusterIT {
  private static final Duration LIMIT = Duration.ofSeconds(200);

  @Test
  void a_killed_executor_is_survived(@TempDir Path temporary) throws Exception {
    String calm = model(temporary, "");
    assertEquals(calm, model(temporary, Fault.of(1).version(5, 10_000).kill()));
  }

  private static String model(Path temporary, String faults) throws Exception {
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.put("spark.master", "local-cluster[4,1,900]");
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    settings.remove("spark.executor.cores");
    try (FitProcess driver =
        new FitProcess(settings, temporary.toString(), Recipe.BINARY.name(), "3", "10", faults)) {
      String model = driver.await("model", digest -> true, LIMIT.toSeconds());
      boolean again = driver.facts().stream().anyMatch(fact -> fact.startsWith("again"));
      assertTrue(again != faults.isEmpty(), () -> "who was restored: " + driver.facts());
      return model;
    }
  }
}

package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** Spark on YARN, in short; {@link YarnLongIT} has the rest. */
@DisplayName("on YARN")
class YarnIT {
  private static YarnApplications yarn;

  @BeforeAll
  static void start() {
    yarn = YarnApplications.start();
  }

  @AfterAll
  static void stop() {
    if (yarn != null) {
      yarn.close();
    }
  }

  @Test
  void a_container_that_is_killed_comes_back_and_the_model_is_the_same() throws Exception {
    aContainerIsKilled("client");
  }

  @Test
  void in_cluster_mode_a_container_that_is_killed_comes_back_and_the_model_is_the_same()
      throws Exception {
    aContainerIsKilled("cluster");
  }

  private static void aContainerIsKilled(String mode) throws Exception {
    String kill = Fault.of(1).version(5, 10_000).kill();
    try (Submission application = yarn.submit(mode, yarn.settings(), "10", "", kill)) {
      application.awaitEnd(YarnApplications.LIMIT);
      application.assertSameModels(2);
      assertEquals(List.of("1"), application.facts("again"));
      assertEquals(List.of("0", "1"), application.facts("deaths"), "it counts: YARN calls it ours");
    }
  }
}

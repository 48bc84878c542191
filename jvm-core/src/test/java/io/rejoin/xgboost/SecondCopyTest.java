package io.rejoin.xgboost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.DoctoredClassPath;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two class loaders have a Rejoin each, with its own native library, and one XGBoost. */
class SecondCopyTest {
  private static void isHooked(Map<?, ?> reported) {
    assertEquals("all 2 ranks can", reported.get("reason"));
    assertEquals("true", reported.get("hooked"));
  }

  @Test
  void a_second_copy_of_rejoin_leaves_xgboost_to_the_first_one_and_trains_through_the_bridge(
      @TempDir Path folder) throws Throwable {
    String spill = folder.toString();
    Map<String, String> first = SmallTraining.reported(spill);
    isHooked(first);
    try (DoctoredClassPath path = new DoctoredClassPath(folder).onlyRejoin()) {
      String training = SmallTraining.class.getName();
      for (int again = 0; again < 2; again++) {
        Map<?, ?> second = (Map<?, ?>) path.call(training, "reported", spill);
        assertEquals("false", second.get("hooked"), second.toString());
        String reason = (String) second.get("reason");
        assertTrue(reason.startsWith("rank 0 can't: the collective's functions of "), reason);
        assertTrue(reason.contains("libxgboost4j"), reason);
        assertTrue(reason.contains("were replaced by ") && reason.contains("rejoin_jni"), reason);
        assertTrue(reason.lines().count() == 1, reason);
        assertEquals(first.get("model"), second.get("model"));
        Map<String, String> after = SmallTraining.reported(spill);
        isHooked(after);
        assertEquals(first, after);
      }
    }
  }
}

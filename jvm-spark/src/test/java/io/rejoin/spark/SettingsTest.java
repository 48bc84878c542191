package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class SettingsTest {
  private static Settings with(String key, String value) {
    return Settings.of(Collections.singletonMap(key, value));
  }

  private static String refused(String key, String value) {
    RejoinException failure = assertThrows(RejoinException.class, () -> with(key, value));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    return failure.text();
  }

  @Test
  void nothing_has_to_be_set() {
    Settings settings = Settings.of(Collections.emptyMap());
    assertEquals(InputMode.REPLICATE, settings.input());
    assertEquals(2, settings.replicas());
    assertEquals(1500, settings.lostMillis());
    assertFalse(settings.encrypt());
  }

  @Test
  void times_and_sizes_have_units() {
    assertEquals(3000, with("spark.rejoin.lost.after", "3s").lostMillis());
    assertEquals(1L << 30, with("spark.rejoin.log.memory", "1g").logMemoryBytes());
    assertEquals(InputMode.CHECKPOINT, with("spark.rejoin.input", "Checkpoint").input());
  }

  @Test
  void what_can_not_be_is_refused_with_what_was_expected() {
    assertTrue(refused("spark.rejoin.input", "cache").contains("replicate, reread or checkpoint"));
    assertTrue(refused("spark.rejoin.input.replicas", "0").contains("1 to 40"));
    assertTrue(refused("spark.rejoin.input.replicas", "two").contains("a whole number"));
    assertTrue(refused("spark.rejoin.lost.after", "soon").contains("a time such as"));
    assertTrue(
        refused("spark.rejoin.lost.after", "250ms").contains("twice spark.rejoin.heartbeat"));
    assertTrue(refused("spark.rejoin.agent.ports", "all").contains("40000-40100"));
    assertTrue(refused("spark.rejoin.encrypt", "maybe").contains("true or false"));
    assertTrue(refused("spark.rejoin.hook", "on").contains("auto or off"));
  }

  @Test
  void a_misspelt_setting_is_refused_and_those_of_others_are_not_looked_at() {
    assertTrue(refused("spark.rejoin.input.replica", "3").contains("spark.rejoin.input.replica;"));
    Settings.of(Collections.singletonMap("spark.rejoined", "x"));
  }

  @Test
  void links_are_encrypted_when_the_network_of_spark_is_unless_said_otherwise() {
    Map<String, String> map = new HashMap<>();
    map.put("spark.network.crypto.enabled", "true");
    assertTrue(Settings.of(map).encrypt());
    map.put("spark.rejoin.encrypt", "false");
    assertFalse(Settings.of(map).encrypt());
  }

  /** The table of the user's guide: name, default, meaning. */
  private static Map<String, String> documented() throws IOException {
    Path guide = Path.of("docs", "spark.md");
    if (!Files.exists(guide)) {
      guide = Path.of("..").resolve(guide);
    }
    Map<String, String> settings = new TreeMap<>();
    Matcher row =
        Pattern.compile("(?m)^\\| `(spark\\.rejoin\\.[a-z.]+)` \\| (.*?) \\|")
            .matcher(Files.readString(guide));
    while (row.find()) {
      settings.put(row.group(1), row.group(2).replace("`", ""));
    }
    return settings;
  }

  @Test
  void the_guide_lists_every_setting_with_its_default() throws IOException {
    Map<String, String> documented = documented();
    assertEquals(Settings.defaults().keySet(), documented.keySet());
    documented.remove("spark.rejoin.encrypt"); // Its default is a sentence.
    documented.forEach((name, value) -> assertEquals(Settings.defaults().get(name), value, name));
    // Saying the defaults is the same as saying nothing.
    assertEquals(2, Settings.of(documented).replicas());
  }
}

package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SparkSettingsTest {
  private static SettingValues with(String key, String value) {
    return SparkSettings.of(Collections.singletonMap(key, value));
  }

  private static String refused(String key, String value) {
    RejoinException failure = assertThrows(RejoinException.class, () -> with(key, value));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().startsWith(key), failure.text());
    return failure.text();
  }

  @Test
  void nothing_has_to_be_set() {
    SettingValues settings = SparkSettings.of(Collections.emptyMap());
    assertEquals("replicate", settings.text(SparkSettings.INPUT));
    assertEquals(2, settings.number(SparkSettings.REPLICAS));
    assertEquals(1500, settings.number(CommonSettings.LOST_AFTER));
    assertFalse(settings.flag(CommonSettings.ENCRYPT));
  }

  @Test
  void what_can_not_be_is_refused_with_what_was_expected() {
    assertTrue(refused("spark.rejoin.input", "cache").contains("replicate, reread or checkpoint"));
    assertTrue(refused("spark.rejoin.input.replicas", "0").contains("1 to 40"));
    assertTrue(refused("spark.rejoin.input.replicas", "two").contains("a whole number"));
    assertTrue(
        refused("spark.rejoin.lost.after", "250ms").contains("twice spark.rejoin.heartbeat"));
    assertTrue(refused("spark.rejoin.hook", "on").contains("auto or off"));
    assertEquals("checkpoint", with("spark.rejoin.input", "Checkpoint").text(SparkSettings.INPUT));
  }

  @Test
  void a_misspelt_setting_is_refused_and_those_of_others_are_not_looked_at() {
    RejoinException failure =
        assertThrows(RejoinException.class, () -> with("spark.rejoin.input.replica", "3"));
    assertTrue(failure.text().contains("spark.rejoin.input.replica;"), failure.text());
    SparkSettings.of(Collections.singletonMap("spark.rejoined", "x"));
  }

  @Test
  void links_are_encrypted_when_the_network_of_spark_is_unless_said_otherwise() {
    Map<String, String> map = new HashMap<>();
    map.put("spark.network.crypto.enabled", "true");
    assertTrue(SparkSettings.of(map).flag(CommonSettings.ENCRYPT));
    assertTrue(
        SparkSettings.of(Map.of("spark.ssl.rpc.enabled", "true")).flag(CommonSettings.ENCRYPT));
    map.put("spark.rejoin.encrypt", "false");
    assertFalse(SparkSettings.of(map).flag(CommonSettings.ENCRYPT));
  }

  @Test
  void the_table_of_the_guide_is_that_of_the_settings() throws IOException {
    Path guide = Path.of("docs", "spark.md");
    String text = Files.readString(Files.exists(guide) ? guide : Path.of("..").resolve(guide));
    int begin = text.indexOf("| setting | default |");
    String documented = text.substring(begin, text.indexOf("\n\n", begin) + 1);
    assertEquals(SparkSettings.TABLE.markdown(), documented);
  }
}

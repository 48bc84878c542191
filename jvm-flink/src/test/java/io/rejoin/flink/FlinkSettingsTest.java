package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.junit.jupiter.api.Test;

class FlinkSettingsTest {
  @Test
  void the_table_of_the_guide_is_that_of_the_settings() throws IOException {
    Path guide = Path.of("docs", "flink.md");
    String text = Files.readString(Files.exists(guide) ? guide : Path.of("..").resolve(guide));
    int begin = text.indexOf("| setting | default |");
    String documented = text.substring(begin, text.indexOf("\n\n", begin) + 1);
    assertEquals(FlinkSettings.TABLE.markdown(), documented);
  }

  @Test
  void each_setting_but_that_for_tests_is_an_option_of_flink() throws IllegalAccessException {
    String markdown = FlinkSettings.TABLE.markdown();
    int options = 0;
    for (Field field : RejoinOptions.class.getFields()) {
      ConfigOption<?> option = (ConfigOption<?>) field.get(null);
      assertNotNull(option.defaultValue(), option.key());
      assertTrue(markdown.contains("| `" + option.key() + "` |"), option.key());
      options++;
    }
    assertEquals(markdown.split("\n").length - 2 - 1, options, "all but rejoin.faults");
  }

  @Test
  void what_is_set_by_flinks_options_is_read() {
    Configuration configuration = new Configuration();
    configuration.set(RejoinOptions.BATCH_WAIT, Duration.ofMillis(1500));
    configuration.set(RejoinOptions.LOG_MEMORY, MemorySize.ofMebiBytes(3));
    configuration.set(RejoinOptions.ALLOW_REGION_RESTART, true);
    configuration.set(RejoinOptions.CALL_TIMEOUT, Duration.ofMinutes(2));
    SettingValues values = FlinkSettings.of(configuration.toMap(), true);
    assertEquals(1500, values.number(FlinkSettings.BATCH_WAIT));
    assertEquals(120_000, values.number(CommonSettings.CALL_TIMEOUT));
    assertTrue(values.flag(FlinkSettings.ALLOW_REGION_RESTART));
    assertEquals(3 << 20, values.number(io.rejoin.settings.CommonSettings.LOG_MEMORY));
    // As Flink writes them: "0 ms" and "200000001 bytes".
    configuration.set(RejoinOptions.BATCH_WAIT, Duration.ZERO);
    configuration.set(RejoinOptions.LOG_MEMORY, new MemorySize(200_000_001));
    values = FlinkSettings.of(configuration.toMap(), false);
    assertEquals(0, values.number(FlinkSettings.BATCH_WAIT));
    assertEquals(200_000_001, values.number(CommonSettings.LOG_MEMORY));
  }

  @Test
  void a_batch_waits_for_all_its_rows_where_inputs_end() {
    assertEquals(0, FlinkSettings.of(Map.of(), true).number(FlinkSettings.BATCH_WAIT));
    assertEquals(100, FlinkSettings.of(Map.of(), false).number(FlinkSettings.BATCH_WAIT));
  }
}

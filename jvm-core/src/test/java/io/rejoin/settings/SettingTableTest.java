package io.rejoin.settings;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SettingTableTest {
  private static String refused(String name, String value) {
    RejoinException failure =
        assertThrows(RejoinException.class, () -> CommonSettings.of(Map.of(name, value)));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, failure.code());
    assertTrue(failure.text().contains(name + " is \"" + value + "\""), failure.text());
    return failure.text();
  }

  private static long number(Setting setting, String value) {
    return CommonSettings.of(Map.of(setting.name(), value)).number(setting);
  }

  @Test
  void times_and_sizes_have_units_and_spaces_before_them_as_in_flink() {
    assertEquals(3_000, number(CommonSettings.LOST_AFTER, "3s"));
    assertEquals(3_000, number(CommonSettings.LOST_AFTER, " 3 S "));
    assertEquals(450, number(CommonSettings.LOST_AFTER, "450"));
    assertEquals(600_000, number(CommonSettings.LEASE, "10min"));
    assertEquals(172_800_000, number(CommonSettings.LEASE, "2d"));
    assertEquals(1L << 30, number(CommonSettings.LOG_MEMORY, "1g"));
    assertEquals(256L << 20, number(CommonSettings.LOG_MEMORY, "256 mb"));
    assertEquals(20_000, number(CommonSettings.LOG_MEMORY, "20000"));
    assertEquals(7, number(CommonSettings.LOG_MEMORY, "7b"));
  }

  @Test
  void what_can_not_be_is_refused_with_what_was_expected() {
    for (String value : List.of("soon", "-1s", "1.5s", "3 years", "", "0", "99999999999999999d")) {
      assertTrue(refused("lease", value).contains("a time such as"), value);
    }
    for (String value : List.of("much", "1x", "1mm", "0g", "999999999999999999p")) {
      assertTrue(refused("log.memory", value).contains("a size such as"), value);
    }
    assertTrue(refused("agent.ports", "all").contains("40000-40100"));
    assertTrue(refused("encrypt", "maybe").contains("true or false"));
    assertTrue(refused("log.level", "loud").contains("debug or trace"));
  }

  @Test
  void a_default_that_is_none_is_found_when_the_table_is_made() {
    assertThrows(
        RejoinException.class, () -> Setting.of("wait", SettingType.TIME, "a while", "how long"));
  }

  @Test
  void the_tracker_and_agents_are_told_what_concerns_them_in_their_units() {
    SettingValues values = CommonSettings.of(Map.of("lease", "2s", "log.memory", "1k"));
    assertEquals("2000", values.forTracker().get("lease.millis"));
    assertEquals("1024", values.forAgent().get("log.memory.bytes"));
    assertEquals("0", values.forAgent().get("ports"));
    SettingValues other = values.with(CommonSettings.LEASE, "3s");
    assertEquals("3000", other.forTracker().get("lease.millis"));
    assertEquals("2000", values.forTracker().get("lease.millis"));
  }

  @Test
  void only_where_ports_were_chosen_does_a_failure_to_listen_name_their_setting() {
    RejoinException taken = new RejoinException(RejoinException.Code.IO, "all ports are taken");
    SettingValues any = CommonSettings.of(Map.of());
    assertEquals(taken, any.portsAreTaken(CommonSettings.AGENT_PORTS, taken));
    RejoinException reported =
        CommonSettings.of(Map.of("agent.ports", "40000-40001"))
            .portsAreTaken(CommonSettings.AGENT_PORTS, taken);
    assertEquals(RejoinException.Code.BAD_ARGUMENT, reported.code());
    assertTrue(reported.text().contains("agent.ports is 40000-40001"), reported.text());
  }
}

package io.rejoin.settings;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * The settings of a way in, which all begin with one prefix, for instance {@code spark.rejoin.}.
 */
public final class SettingTable {
  private final String prefix;
  private final String guide;
  private final List<Setting> settings;

  /**
   * A table.
   *
   * @param prefix with the dot at its end
   * @param guide the document that has this table, for errors
   */
  public SettingTable(String prefix, String guide, List<Setting> settings) {
    this.prefix = prefix;
    this.guide = guide;
    this.settings = Collections.unmodifiableList(new ArrayList<>(settings));
  }

  /** The name with the prefix of the way in, for instance {@code spark.rejoin.heartbeat}. */
  public String name(Setting setting) {
    return prefix + setting.name();
  }

  /**
   * Reads all settings of a configuration, and looks at no other name. A misspelt name is refused,
   * so that it can't be overlooked.
   *
   * @param defaults what counts instead of the table's default
   * @throws RejoinException BAD_ARGUMENT with the name, what was seen and what was expected
   */
  public SettingValues read(Map<String, String> configuration, Map<Setting, String> defaults) {
    TreeSet<String> unknown = new TreeSet<>();
    configuration.keySet().stream().filter(name -> name.startsWith(prefix)).forEach(unknown::add);
    SettingValues values = new SettingValues(prefix);
    for (Setting setting : settings) {
      String name = name(setting);
      unknown.remove(name);
      String otherwise = defaults.getOrDefault(setting, setting.defaultText());
      values.put(setting, configuration.getOrDefault(name, otherwise));
    }
    if (!unknown.isEmpty()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "unknown setting "
              + String.join(", ", unknown)
              + "; "
              + guide
              + " lists those there are");
    }
    CommonSettings.check(values);
    return values;
  }

  /** The table of the guide, in Markdown: name, default, meaning. */
  public String markdown() {
    StringBuilder text = new StringBuilder("| setting | default | meaning |\n|---|---|---|\n");
    for (Setting setting : settings) {
      text.append("| `").append(name(setting)).append("` | ").append(setting.shownDefault());
      text.append(" | ").append(setting.meaning()).append(" |\n");
    }
    return text.toString();
  }
}

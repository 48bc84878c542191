package io.rejoin.settings;

import java.util.Optional;

/**
 * A setting of a way in: its name without the way in's prefix, type, default and meaning. Checks,
 * native settings and the tables of the user's guides all come from it ({@link SettingTable}).
 * Immutable; two settings are the same if they have one name.
 */
public final class Setting {
  private final String name;
  private final SettingType type;
  private final String defaultText;
  private final String shownDefault;
  private final String meaning;
  private final String trackerKey;
  private final String agentKey;

  private Setting(
      String name,
      SettingType type,
      String defaultText,
      String shownDefault,
      String meaning,
      String trackerKey,
      String agentKey) {
    type.read(name, defaultText);
    this.name = name;
    this.type = type;
    this.defaultText = defaultText;
    this.shownDefault = shownDefault;
    this.meaning = meaning;
    this.trackerKey = trackerKey;
    this.agentKey = agentKey;
  }

  /**
   * A setting that only the way in itself reads.
   *
   * @param name without prefix, for instance {@code slots.timeout}
   * @param defaultText as a user would write it; of the given type
   * @param meaning for the user's guide, in Markdown
   */
  public static Setting of(String name, SettingType type, String defaultText, String meaning) {
    return new Setting(name, type, defaultText, "`" + defaultText + "`", meaning, null, null);
  }

  /** The same with another default, and what the user's guide says that it is. */
  public Setting withDefault(String other, String shown) {
    return new Setting(name, type, other, shown, meaning, trackerKey, agentKey);
  }

  /** The same with another meaning, where a way in has more to say. */
  public Setting withMeaning(String other) {
    return new Setting(name, type, defaultText, shownDefault, other, trackerKey, agentKey);
  }

  /** The same, passed to the native tracker under this key. */
  public Setting toTracker(String key) {
    return new Setting(name, type, defaultText, shownDefault, meaning, key, agentKey);
  }

  /** The same, passed to a native agent under this key. */
  public Setting toAgent(String key) {
    return new Setting(name, type, defaultText, shownDefault, meaning, trackerKey, key);
  }

  /** The name without the prefix of the way in. */
  public String name() {
    return name;
  }

  /** The default, as a user would write it. */
  public String defaultText() {
    return defaultText;
  }

  SettingType type() {
    return type;
  }

  String shownDefault() {
    return shownDefault;
  }

  String meaning() {
    return meaning;
  }

  Optional<String> trackerKey() {
    return Optional.ofNullable(trackerKey);
  }

  Optional<String> agentKey() {
    return Optional.ofNullable(agentKey);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Setting && ((Setting) other).name.equals(name);
  }

  @Override
  public int hashCode() {
    return name.hashCode();
  }

  @Override
  public String toString() {
    return name;
  }
}

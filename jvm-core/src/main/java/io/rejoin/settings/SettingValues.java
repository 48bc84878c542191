package io.rejoin.settings;

import io.rejoin.RejoinException;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a user has set, checked; immutable, and sent to tasks as it is. Errors name settings as the
 * user does.
 */
public final class SettingValues implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String prefix;
  private final LinkedHashMap<String, Object> values = new LinkedHashMap<>();
  private final LinkedHashMap<String, String> tracker = new LinkedHashMap<>();
  private final LinkedHashMap<String, String> agent = new LinkedHashMap<>();

  SettingValues(String prefix) {
    this.prefix = prefix;
  }

  /** The full name of a setting, for messages. */
  public String name(Setting setting) {
    return prefix + setting.name();
  }

  /** A time in milliseconds, a size in bytes, or a whole number. */
  public long number(Setting setting) {
    return (Long) value(setting);
  }

  /** The value of a setting of type {@link SettingType#FLAG}. */
  public boolean flag(Setting setting) {
    return (Boolean) value(setting);
  }

  /** The value of a setting that is a choice or a range of ports, as written. */
  public String text(Setting setting) {
    return (String) value(setting);
  }

  /** The same with another value for one setting, where something else of the framework decides. */
  public SettingValues with(Setting setting, String text) {
    SettingValues other = new SettingValues(prefix);
    other.values.putAll(values);
    other.tracker.putAll(tracker);
    other.agent.putAll(agent);
    other.put(setting, text);
    return other;
  }

  /** The values that the native tracker takes, by its keys. */
  public Map<String, String> forTracker() {
    return Collections.unmodifiableMap(tracker);
  }

  /**
   * The values that a native agent takes, under its own keys and in its own units (milliseconds,
   * bytes).
   */
  public Map<String, String> forAgent() {
    return Collections.unmodifiableMap(agent);
  }

  /**
   * What a failure to listen means where only the ports of this setting may be used: the range is
   * to be changed. Any other failure stays what it is.
   */
  public RejoinException portsAreTaken(Setting ports, RejoinException failure) {
    return portsAreTaken(ports, name(ports), failure);
  }

  /** The same for ports that a user may have set by another name. */
  public RejoinException portsAreTaken(Setting ports, String name, RejoinException failure) {
    if (text(ports).equals("0") || failure.code() != RejoinException.Code.IO) {
      return failure;
    }
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        failure.text() + " (" + name + " is " + text(ports) + ")",
        failure);
  }

  void put(Setting setting, String text) {
    Object value = setting.type().read(name(setting), text);
    values.put(setting.name(), value);
    setting.trackerKey().ifPresent(key -> pass(key, value, tracker));
    setting.agentKey().ifPresent(key -> pass(key, value, agent));
  }

  /** An empty text stands for none, and the native side hears nothing of it. */
  private static void pass(String key, Object value, Map<String, String> to) {
    if (value.toString().isEmpty()) {
      to.remove(key);
    } else {
      to.put(key, value.toString());
    }
  }

  private Object value(Setting setting) {
    Object value = values.get(setting.name());
    if (value == null) {
      throw new IllegalArgumentException("there is no setting " + name(setting));
    }
    return value;
  }
}

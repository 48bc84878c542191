package io.rejoin;

import io.rejoin.settings.SettingValues;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.LinkedHashMap;

/** The settings that an agent is started with. */
public final class AgentSettings implements Serializable {
  private static final long serialVersionUID = 1L;

  private final LinkedHashMap<String, String> values = new LinkedHashMap<>();

  /** For a tracker at host:port. */
  public AgentSettings(String tracker) {
    values.put("tracker", tracker);
  }

  private AgentSettings(AgentSettings from) {
    values.putAll(from.values);
  }

  /** A copy, to be completed by the process that opens the agent. */
  public AgentSettings copy() {
    return new AgentSettings(this);
  }

  /** The framework's name of the executor, the address to listen on, and the host's name. */
  public AgentSettings place(String executor, String address, String hostname) {
    return set("executor", executor).set("host", address).set("hostname", hostname);
  }

  /** What a user has set ({@link io.rejoin.settings.CommonSettings}); defaults count otherwise. */
  public AgentSettings with(SettingValues set) {
    values.putAll(set.forAgent());
    return this;
  }

  /**
   * The file in which the tracker says where it is, in its folder of state ({@link
   * Tracker.Settings#state}): looked into again whenever the tracker is out of reach, so that one
   * that has come back at another address is found.
   */
  public AgentSettings joinFile(Path file) {
    return set("join.file", file.toAbsolutePath().toString());
  }

  /** Directory for logs that don't fit into memory. */
  public AgentSettings spillDirectory(String directory) {
    return set("spill.dir", directory);
  }

  /**
   * Durable checkpoints: every so many versions (from 1 on) one is written to a directory that is
   * there and that all processes of the job see. Should all of them die at once, the newest whole
   * one is gone on from. (For another file system: {@link DurableCheckpoints}.)
   */
  public AgentSettings durable(String directory, int every) {
    return set("durable.dir", directory).set("durable.every", Integer.toString(every));
  }

  AgentSettings durable(int every, String name) {
    set("durable.every", Integer.toString(every));
    return name == null ? this : set("durable.name", name);
  }

  /**
   * How many other processes hold each rank's own model ({@link Communicator#checkpoint(byte[],
   * byte[])}), on other hosts where there are any (2): so many less one may die at the same moment
   * as the rank. At least 1, and the same at all ranks of a job; where there are fewer others, each
   * of them holds one. For a {@link Agent}; an agent of XGBoost's has no own models.
   */
  public AgentSettings ownCopies(int copies) {
    return set("own.copies", Integer.toString(copies));
  }

  String[] words(JobId job) {
    return Pairs.of(job, values);
  }

  private AgentSettings set(String key, String value) {
    values.put(key, value);
    return this;
  }
}

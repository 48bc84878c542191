package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * The settings {@code spark.rejoin.*}, from the session's configuration (which includes the
 * application's). Read and checked once, at the start of a fit; an unknown one is refused, so that
 * a misspelt one can't be overlooked.
 */
final class Settings {
  private static final String PREFIX = "spark.rejoin.";

  private final InputMode input;
  private final int replicas;
  private final int checkpointRounds;
  private final long heartbeatMillis;
  private final long lostMillis;
  private final long leaseMillis;
  private final long membersMillis;
  private final long trackerMillis;
  private final long slotsMillis;
  private final long queueMillis;
  private final String trackerPorts;
  private final String agentPorts;
  private final long logMemoryBytes;
  private final long logDiskBytes;
  private final boolean encrypt;
  private final boolean inPlace;
  private final boolean hook;
  private final String logLevel;

  private Settings(Reader reader) {
    input = InputMode.of(reader.text("input", "replicate"));
    replicas = reader.integer("input.replicas", 2, 1, 40);
    checkpointRounds = reader.integer("checkpoint.rounds", 0, 0, Integer.MAX_VALUE);
    heartbeatMillis = reader.millis("heartbeat", "200ms");
    lostMillis = reader.millis("lost.after", "1500ms");
    leaseMillis = reader.millis("lease", "60s");
    membersMillis = reader.millis("members.timeout", "10min");
    trackerMillis = reader.millis("tracker.timeout", "30s");
    slotsMillis = reader.millis("slots.timeout", "60s");
    queueMillis = reader.millis("queue.timeout", "24h");
    trackerPorts = reader.ports("tracker.ports");
    agentPorts = reader.ports("agent.ports");
    logMemoryBytes = reader.bytes("log.memory", "256m");
    logDiskBytes = reader.bytes("log.disk", "16g");
    encrypt = reader.flag("encrypt", reader.encryptedNetwork());
    inPlace = reader.flag("inplace", true);
    hook = reader.choice("hook", "auto", "off").equals("auto");
    logLevel = reader.level("log.level", "warn");
    reader.refuseUnknown();
    if (lostMillis < 2 * heartbeatMillis) {
      throw bad(
          "lost.after",
          lostMillis + " ms",
          "at least twice spark.rejoin.heartbeat (" + heartbeatMillis + " ms)");
    }
  }

  /** The settings of a session. */
  static Settings of(SparkSession session) {
    Map<String, String> all = new TreeMap<>();
    Iterator<Tuple2<String, String>> entries = session.conf().getAll().iterator();
    while (entries.hasNext()) {
      Tuple2<String, String> entry = entries.next();
      all.put(entry._1(), entry._2());
    }
    return of(all);
  }

  static Settings of(Map<String, String> configuration) {
    return new Settings(new Reader(configuration));
  }

  /** Every setting there is, by its full name, with the default as a user would write it. */
  static Map<String, String> defaults() {
    Reader reader = new Reader(Collections.emptyMap());
    new Settings(reader);
    return reader.defaults;
  }

  InputMode input() {
    return input;
  }

  int replicas() {
    return replicas;
  }

  int checkpointRounds() {
    return checkpointRounds;
  }

  long heartbeatMillis() {
    return heartbeatMillis;
  }

  long lostMillis() {
    return lostMillis;
  }

  long leaseMillis() {
    return leaseMillis;
  }

  long membersMillis() {
    return membersMillis;
  }

  long trackerMillis() {
    return trackerMillis;
  }

  long slotsMillis() {
    return slotsMillis;
  }

  long queueMillis() {
    return queueMillis;
  }

  String trackerPorts() {
    return trackerPorts;
  }

  String agentPorts() {
    return agentPorts;
  }

  long logMemoryBytes() {
    return logMemoryBytes;
  }

  long logDiskBytes() {
    return logDiskBytes;
  }

  boolean encrypt() {
    return encrypt;
  }

  boolean inPlace() {
    return inPlace;
  }

  boolean hook() {
    return hook;
  }

  String logLevel() {
    return logLevel;
  }

  /**
   * What a failure to listen means where only these ports may be used: the range is to be changed.
   * Any other failure stays what it is.
   */
  static RejoinException portsAreTaken(String key, String ports, RejoinException failure) {
    if (ports.equals("0") || failure.code() != RejoinException.Code.IO) {
      return failure;
    }
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        failure.text() + " (" + PREFIX + key + " is " + ports + ")",
        failure);
  }

  private static RejoinException bad(String key, String seen, String expected) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        PREFIX + key + " is \"" + seen + "\"; expected " + expected);
  }

  /** Takes one after the other, and knows afterwards which nobody asked for. */
  private static final class Reader {
    private final Map<String, String> left = new TreeMap<>();
    private final Map<String, String> defaults = new TreeMap<>();
    private final boolean encryptedNetwork;

    Reader(Map<String, String> configuration) {
      configuration.forEach(
          (key, value) -> {
            if (key.startsWith(PREFIX)) {
              left.put(key.substring(PREFIX.length()), value);
            }
          });
      encryptedNetwork = Boolean.parseBoolean(configuration.get("spark.network.crypto.enabled"));
    }

    boolean encryptedNetwork() {
      return encryptedNetwork;
    }

    String text(String key, String otherwise) {
      defaults.put(PREFIX + key, otherwise);
      String value = left.remove(key);
      return value == null ? otherwise : value.trim();
    }

    int integer(String key, int otherwise, int least, int most) {
      String value = text(key, Integer.toString(otherwise));
      try {
        int number = Integer.parseInt(value);
        if (number >= least && number <= most) {
          return number;
        }
      } catch (NumberFormatException e) {
        throw bad(key, value, "a whole number");
      }
      throw bad(
          key, value, most == Integer.MAX_VALUE ? "at least " + least : least + " to " + most);
    }

    long millis(String key, String otherwise) {
      String value = text(key, otherwise);
      try {
        long millis = JavaUtils.timeStringAsMs(value);
        if (millis > 0) {
          return millis;
        }
      } catch (NumberFormatException e) {
        throw bad(key, value, "a time such as 200ms, 30s or 10min");
      }
      throw bad(key, value, "more than 0");
    }

    long bytes(String key, String otherwise) {
      String value = text(key, otherwise);
      try {
        long bytes = JavaUtils.byteStringAsBytes(value);
        if (bytes > 0) {
          return bytes;
        }
      } catch (NumberFormatException e) {
        throw bad(key, value, "a size such as 256m or 16g");
      }
      throw bad(key, value, "more than 0");
    }

    String ports(String key) {
      String value = text(key, "0");
      if (!value.matches("0|\\d{1,5}-\\d{1,5}")) {
        throw bad(key, value, "0 for any port, or a range such as 40000-40100");
      }
      return value;
    }

    boolean flag(String key, boolean otherwise) {
      String value = text(key, Boolean.toString(otherwise));
      if (!value.equals("true") && !value.equals("false")) {
        throw bad(key, value, "true or false");
      }
      return Boolean.parseBoolean(value);
    }

    /** One of two, of which the first is the default. */
    String choice(String key, String first, String second) {
      String value = text(key, first);
      if (!value.equals(first) && !value.equals(second)) {
        throw bad(key, value, first + " or " + second);
      }
      return value;
    }

    String level(String key, String otherwise) {
      String value = text(key, otherwise);
      if (!value.matches("off|error|warn|info|debug|trace")) {
        throw bad(key, value, "off, error, warn, info, debug or trace");
      }
      return value;
    }

    void refuseUnknown() {
      if (!left.isEmpty()) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "unknown setting "
                + PREFIX
                + String.join(", " + PREFIX, left.keySet())
                + "; docs/spark.md lists those there are");
      }
    }
  }
}

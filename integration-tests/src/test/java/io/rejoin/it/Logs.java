package io.rejoin.it;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;

/** Collects what Rejoin logs in this process, until it is closed. */
final class Logs implements AutoCloseable {
  private final List<String> lines = new CopyOnWriteArrayList<>();
  private final Logger logger = (Logger) LogManager.getLogger("io.rejoin");
  private final Level least;
  private final AbstractAppender appender =
      new AbstractAppender("rejoin-test", null, null, true, Property.EMPTY_ARRAY) {
        @Override
        public void append(LogEvent event) {
          if (event.getLevel().isMoreSpecificThan(least)) {
            lines.add(event.getMessage().getFormattedMessage());
          }
        }
      };

  private final Level before = logger.getLevel();

  private Logs(Level least) {
    this.least = least;
    if (before.isMoreSpecificThan(least)) {
      Configurator.setLevel(logger.getName(), least);
    }
    appender.start();
    logger.addAppender(appender);
  }

  /** Collects warnings and errors. */
  static Logs collect() {
    return new Logs(Level.WARN);
  }

  /** Collects what is said for the record, too. */
  static Logs collectAll() {
    return new Logs(Level.INFO);
  }

  /** Collects everything, and has everything said. */
  static Logs collectTrace() {
    return new Logs(Level.TRACE);
  }

  /** Those that say this. */
  List<String> with(String part) {
    return lines.stream().filter(line -> line.contains(part)).collect(Collectors.toList());
  }

  /**
   * Those that say this, once there are so many of them: events are delivered beside the training,
   * and may reach the log after its end.
   */
  List<String> awaited(String part, int count) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
    while (with(part).size() < count && System.nanoTime() < deadline) {
      TimeUnit.MILLISECONDS.sleep(20);
    }
    return with(part);
  }

  @Override
  public void close() {
    logger.removeAppender(appender);
    Configurator.setLevel(logger.getName(), before);
    appender.stop();
  }
}

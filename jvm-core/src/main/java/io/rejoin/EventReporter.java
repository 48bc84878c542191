package io.rejoin;

import io.rejoin.TrainingEvent.Kind;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reports in the driver's log ({@code io.rejoin.job}) what happens to a job, in sentences; what is
 * routine only at the level debug.
 */
public final class EventReporter implements Consumer<TrainingEvent> {
  private static final Logger LOG = LoggerFactory.getLogger("io.rejoin.job");

  /** What is worth a warning whatever its fields say. */
  private static final Map<Kind, String> WARNINGS =
      Map.of(
          Kind.RANK_LOST,
          "rank {rank} on {place} is lost, {silent_millis} ms after its last sign of"
              + " life: {reason} (death {deaths} of this rank)",
          Kind.RESTORED,
          "rank {rank} is restored to version {version} (round {round}), {bytes} bytes from"
              + " {source} in {millis} ms",
          Kind.CAUGHT_UP,
          "rank {rank} works with the others again after {millis} ms: {replayed_in} bytes replayed,"
              + " {regenerated} compared, {rounds_again} rounds computed again",
          Kind.RANK_REFUSED,
          "attempt {stage}.{task} of rank {rank} is refused: {reason}",
          Kind.ROLLED_BACK,
          "all ranks go back to version {version}: {reason}",
          Kind.RESIZED,
          "there are {world} ranks from now on: {reason}");

  private final String job;
  private final SettingValues settings;
  private final JobTotals totals = new JobTotals();
  private TrainingEvent first;
  private long logBytes;
  private long spilledBytes;
  private long checkpointBytes;
  private String transport = "";

  /** Of this job; {@code settings} know the names that its user has for them. */
  public EventReporter(JobId job, SettingValues settings) {
    this.job = job.brief();
    this.settings = settings;
  }

  @Override
  public void accept(TrainingEvent event) {
    first = first == null ? event : first;
    totals.accept(event);
    switch (event.kind()) {
      case RANK_JOINED:
        if (event.text("incarnation").equals("0")) {
          info(event.sentence("rank {rank} is on {place}"));
        } else {
          warn(
              event.sentence(
                  "rank {rank} is back on {place} after {vacant_millis} ms, as"
                      + " incarnation {incarnation}"));
        }
        break;
      case AGENT_SLOW:
        warn(
            event.sentence(
                "{place} is slow: its agent answers, but its Java threads haven't run"
                    + " for {silent_millis} ms; a collection of garbage, or too much other load"));
        break;
      case AGENT_RUNS:
        warn(event.sentence("{place} runs again after {silent_millis} ms"));
        break;
      case PRINTED:
        info(event.sentence("rank {rank}: {text}"));
        break;
      case SPARE_STANDS_BY:
        info(event.sentence("task {index} on {place} stands by as a spare"));
        break;
      case SPARE_TOOK:
        warn(
            event.sentence(
                "rank {rank} goes to the spare on {place}, {vacant_millis} ms after its"
                    + " loss: {reason} ({spares} more stand by)"));
        break;
      case HOOK_AGREED:
        boolean hooked = Boolean.parseBoolean(event.text("hooked"));
        String how = hooked ? "are served by Rejoin's" : "go through the bridge";
        transport = event.sentence("XGBoost's collectives " + how + " ({reason})");
        info(transport);
        break;
      case LINK_BROKEN:
      case STRANGER_REFUSED:
      case FAULT_FIRED:
      case KILL_WANTED:
        warn(event);
        break;
      case USAGE:
        logBytes = Math.max(logBytes, event.number("log_bytes_peak"));
        spilledBytes = Math.max(spilledBytes, event.number("spilled_bytes"));
        checkpointBytes = Math.max(checkpointBytes, event.number("checkpoint_bytes"));
        LOG.debug("job {}: {}", job, event);
        break;
      case JOB_ENDED:
        info("ended " + summary(event) + event.sentence(", with model {digest}; ") + held());
        break;
      case JOB_FAILED:
        LOG.error(
            "job {}: failed {}: {}", job, summary(event), event.sentence("{code}: {message}"));
        break;
      default:
        if (WARNINGS.containsKey(event.kind())) {
          warn(event.sentence(WARNINGS.get(event.kind())));
        } else {
          LOG.debug("job {}: {}", job, event);
        }
        break;
    }
  }

  private String summary(TrainingEvent end) {
    return totals.summary(first.atNanos(), end.atNanos());
  }

  private String held() {
    return String.format(
        Locale.ROOT,
        "the most that one executor held: logs of %d bytes in memory (%s) and %d on disk (%s),"
            + " checkpoints of %d bytes%s",
        logBytes,
        settings.name(CommonSettings.LOG_MEMORY),
        spilledBytes,
        settings.name(CommonSettings.LOG_DISK),
        checkpointBytes,
        transport.isEmpty() ? "" : "; " + transport);
  }

  private void info(String sentence) {
    LOG.info("job {}: {}", job, sentence);
  }

  private void warn(Object what) {
    LOG.warn("job {}: {}", job, what);
  }
}

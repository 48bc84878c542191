package io.rejoin;

import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reports in the driver's log ({@code io.rejoin.job}) what happens to a job, in sentences; what is
 * routine only at the level debug.
 */
public final class EventReporter implements Consumer<TrainingEvent> {
  private static final Logger LOG = LoggerFactory.getLogger("io.rejoin.job");

  private final String job;
  private final SettingValues settings;
  private long logBytes;
  private long spilledBytes;
  private long checkpointBytes;
  private String way = "";

  /** Of this job; {@code settings} know the names that its user has for them. */
  public EventReporter(JobId job, SettingValues settings) {
    this.job = job.brief();
    this.settings = settings;
  }

  @Override
  public void accept(TrainingEvent event) {
    switch (event.kind()) {
      case RANK_LOST:
        LOG.warn(
            "job {}: rank {} on executor {} is lost, {} ms after its last sign of life: {} (death"
                + " {} of this rank)",
            job,
            event.text("rank"),
            event.text("executor"),
            event.text("silent_millis"),
            event.text("reason"),
            event.text("deaths"));
        break;
      case RANK_JOINED:
        if (event.text("incarnation").equals("0")) {
          LOG.info(
              "job {}: rank {} is on executor {}", job, event.text("rank"), event.text("executor"));
        } else {
          LOG.warn(
              "job {}: rank {} is back on executor {} after {} ms, as incarnation {}",
              job,
              event.text("rank"),
              event.text("executor"),
              event.text("vacant_millis"),
              event.text("incarnation"));
        }
        break;
      case RESTORED:
        LOG.warn(
            "job {}: rank {} is restored to version {} (round {}), {} bytes from {} in {} ms",
            job,
            event.text("rank"),
            event.text("version"),
            event.text("round"),
            event.text("bytes"),
            event.text("source"),
            event.text("millis"));
        break;
      case CAUGHT_UP:
        LOG.warn(
            "job {}: rank {} works with the others again after {} ms: {} bytes replayed, {}"
                + " compared, {} rounds computed again",
            job,
            event.text("rank"),
            event.text("millis"),
            event.text("replayed_in"),
            event.text("regenerated"),
            event.text("rounds_again"));
        break;
      case RANK_REFUSED:
        LOG.warn(
            "job {}: attempt {}.{} of rank {} is refused: {}",
            job,
            event.text("stage"),
            event.text("task"),
            event.text("rank"),
            event.text("reason"));
        break;
      case ROLLED_BACK:
        LOG.warn(
            "job {}: everybody goes back to version {}: {}",
            job,
            event.text("version"),
            event.text("reason"));
        break;
      case HOOK_AGREED:
        way =
            Boolean.parseBoolean(event.text("hooked"))
                ? "XGBoost's collectives are served by Rejoin's (" + event.text("reason") + ")"
                : "XGBoost's collectives go through the bridge (" + event.text("reason") + ")";
        LOG.info("job {}: {}", job, way);
        break;
      case LINK_BROKEN:
      case STRANGER_REFUSED:
      case FAULT_FIRED:
      case KILL_WANTED:
        LOG.warn("job {}: {}", job, event);
        break;
      case USAGE:
        logBytes = Math.max(logBytes, event.number("log_bytes_peak"));
        spilledBytes = Math.max(spilledBytes, event.number("spilled_bytes"));
        checkpointBytes = Math.max(checkpointBytes, event.number("checkpoint_bytes"));
        LOG.debug("job {}: {}", job, event);
        break;
      case JOB_ENDED:
        LOG.info(
            "job {}: ended with model {} after {} deaths; the most that one executor held: logs of"
                + " {} bytes in memory ({}) and {} on disk ({}), checkpoints of {} bytes{}",
            job,
            event.text("digest"),
            event.text("deaths"),
            logBytes,
            settings.name(CommonSettings.LOG_MEMORY),
            spilledBytes,
            settings.name(CommonSettings.LOG_DISK),
            checkpointBytes,
            way.isEmpty() ? "" : "; " + way);
        break;
      case JOB_FAILED:
        LOG.error("job {}: failed: {}: {}", job, event.text("code"), event.text("message"));
        break;
      default:
        LOG.debug("job {}: {}", job, event);
        break;
    }
  }
}

package io.rejoin.flink;

import io.rejoin.settings.SettingValues;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Which versions go downstream: rank 0's, every so many or after so long a time, and the last. */
final class Emission {
  private static final int MOST_WAITING = 8;

  private final Subtask<? extends RankOperator<?, TrainedModel>> subtask;
  private final boolean emits;
  private final long versions;
  private final long nanos;
  private long last = System.nanoTime();
  private long newest;
  // Models that wait for Flink's thread, each with its bytes: those beyond are waited for.
  private final Semaphore room = new Semaphore(MOST_WAITING);

  Emission(Subtask<? extends RankOperator<?, TrainedModel>> subtask, SettingValues settings) {
    this.subtask = subtask;
    this.emits = subtask.rank() == 0;
    this.versions = settings.number(FlinkSettings.EMIT_VERSIONS);
    this.nanos = TimeUnit.MILLISECONDS.toNanos(settings.number(FlinkSettings.EMIT_INTERVAL));
  }

  /** Waits where downstream takes models more slowly than they come. */
  void complete(VersionState state) throws InterruptedException {
    long now = System.nanoTime();
    boolean due = versions > 0 ? state.version() % versions == 0 : now - last >= nanos;
    // Another gang may begin at an older version: downstream never sees a model go back.
    if (emits && due && state.version() > newest) {
      last = now;
      newest = state.version();
      emit(state, false);
    }
  }

  void last(VersionState state) throws InterruptedException {
    if (emits) {
      emit(state, true);
    }
  }

  private void emit(VersionState state, boolean isLast) throws InterruptedException {
    room.acquire();
    subtask
        .operator()
        .emit(
            new TrainedModel(subtask.job(), state.version(), isLast, state.model()), room::release);
  }
}

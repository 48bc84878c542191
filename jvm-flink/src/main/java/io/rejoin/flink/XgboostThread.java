package io.rejoin.flink;

import io.rejoin.RankTask;
import io.rejoin.RowFingerprint;
import io.rejoin.settings.CommonSettings;
import io.rejoin.settings.SettingValues;
import io.rejoin.xgboost.TrainingLoop;
import io.rejoin.xgboost.TrainingResult;
import io.rejoin.xgboost.XgboostAgent;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The thread of a rank that trains with XGBoost, whose communicator belongs to one thread. It
 * begins when the rank has all its rows.
 */
final class XgboostThread extends GangThread {
  private static final Logger LOG = LoggerFactory.getLogger(XgboostThread.class);

  private final XgboostSpec spec;
  private final boolean inOrder;
  private final RankRows rows;
  private final SettingValues settings;
  private final Subtask<XgboostOperator> subtask;
  private final XgboostMetrics metrics;
  private RowFingerprint fingerprint;
  private TrainingResult result;

  XgboostThread(
      XgboostSpec spec,
      boolean inOrder,
      RankRows rows,
      SettingValues settings,
      Subtask<XgboostOperator> subtask) {
    super(subtask, subtask.operator().getUserCodeClassloader());
    this.spec = spec;
    this.inOrder = inOrder;
    this.rows = rows;
    this.settings = settings;
    this.subtask = subtask;
    this.metrics = new XgboostMetrics(subtask.metrics());
  }

  @Override
  void release() {
    // A watch frees the thread from XGBoost and from waiting for others: it asks the subtask.
  }

  @Override
  void work() throws Exception {
    fingerprint = rows.arrange(subtask.rank(), inOrder);
    metrics.hasRows(fingerprint.rows());
    LOG.info("{}: has all its rows: {}", this, fingerprint);
    // That all is trained is the coordinator's to say: when it has the result, ranks may end.
    End end =
        stay(
            XgboostAgent.class,
            XgboostAgent::open,
            (gang, agent) -> {
              train(gang, agent);
              return false;
            });
    if (subtask.rank() == 0 && !end.isStop) {
      emit(result == null ? TrainingResult.of(end.result) : result);
    }
  }

  @Override
  Offer offer(int ended) {
    boolean needsResult = subtask.rank() == 0 && result == null;
    return new Offer(subtask.rank(), subtask.attempt(), 0, "", ended, subtask.jobManager())
        .rows(fingerprint, subtask.executor())
        .resultFrom(needsResult ? 0 : -1);
  }

  private void train(Answer gang, XgboostAgent agent) {
    // All have all of their rows, so from here on any may end first.
    subtask.operator().ending();
    long members = settings.number(CommonSettings.MEMBERS_TIMEOUT);
    result =
        new TrainingLoop(agent, spec.training(subtask.world(), gang.rows, settings))
            .onProgress(new Beginning(gang)::at)
            .run(
                new RankTask(subtask.rank(), 0, subtask.attempt(), members, members),
                rows::matrices,
                subtask)
            .orElse(result);
  }

  /** Tells the coordinator when the rank holds the gang's state. */
  private final class Beginning {
    private final Answer gang;
    private boolean reported;

    Beginning(Answer gang) {
      this.gang = gang;
    }

    void at(int round) {
      metrics.at(round);
      if (reported) {
        return;
      }
      reported = true;
      LOG.info("{}: begins at round {} of gang {}", XgboostThread.this, round, gang.gang);
      try {
        subtask.ask(new Started(subtask.rank(), subtask.attempt(), gang.gang));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while the JobManager was reported", e);
      }
    }
  }

  private void emit(TrainingResult trained) {
    Map<String, float[]> scores = new TreeMap<>();
    trained
        .metrics()
        .forEach((name, all) -> scores.put(name, Arrays.copyOf(all, trained.rounds())));
    LOG.info("{}: all is trained, {} rounds", this, trained.rounds());
    subtask
        .operator()
        .emit(new XgboostModel(subtask.job(), trained.rounds(), scores, trained.model()), () -> {});
  }
}

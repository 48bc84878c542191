package io.rejoin.spark.testing;

import io.rejoin.Faults;
import io.rejoin.RejoinException;
import io.rejoin.TrainingEvent;
import io.rejoin.spark.RejoinEstimator;
import io.rejoin.xgboost.XgboostVersion;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import ml.dmlc.xgboost4j.java.XGBoostError;
import ml.dmlc.xgboost4j.scala.spark.XGBoostModel;
import org.apache.commons.codec.digest.DigestUtils;
import org.apache.spark.ml.Model;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;

/**
 * Trains twice on the same data, undisturbed and with ranks killed at chosen rounds, and compares
 * the models.
 *
 * <pre>{@code
 * new Survival<>(estimator).kill(1, 5).assertSameModel(train);   // master local[3,4]
 * }</pre>
 *
 * <p>In local mode a killed rank's task throws; on a cluster its executor gets SIGKILL. The data
 * has to give the same rows in the same order and the same number of partitions as workers at each
 * reading (cache it after a repartition), or the two trainings see different data.
 */
public final class Survival<M extends Model<M>> {
  private static final String ROUNDS = "spark.rejoin.checkpoint.rounds";
  private static final int RELOAD_ROUNDS = 10;

  private final RejoinEstimator<M> estimator;
  private final List<int[]> kills = new ArrayList<>();

  /** Tries this estimator, which is not changed. */
  public Survival(RejoinEstimator<M> estimator) {
    this.estimator = estimator;
  }

  /** Kills the first incarnation of a rank when it comes to a round, both counted from 0. */
  public Survival<M> kill(int rank, int round) {
    kills.add(new int[] {rank, round});
    return this;
  }

  /**
   * Trains twice.
   *
   * @throws RejoinException when a training fails, or TIMED_OUT when a kill never happened, because
   *     its round is never reached or its rank doesn't exist
   */
  public Report<M> run(Dataset<?> dataset) {
    SparkSession session = dataset.sparkSession();
    boolean keeps = XgboostVersion.loaded().keepsBooster();
    // Versions are as many rounds as a checkpoint is apart. From 3.3 on this changes nothing in the
    // model; up to 3.2 it is
    // part of it, so there the user's own setting stays.
    String before =
        session.conf().getOption(ROUNDS).isDefined() ? session.conf().get(ROUNDS) : null;
    int apart =
        keeps ? 1 : before == null || before.equals("0") ? RELOAD_ROUNDS : Integer.parseInt(before);
    session.conf().set(ROUNDS, Integer.toString(apart));
    try {
      M undisturbed =
          estimator.copy(ParamMap.empty()).setFaultsForTests(Faults.none()).fit(dataset);
      List<TrainingEvent> events = Collections.synchronizedList(new ArrayList<>());
      M disturbed =
          estimator
              .copy(ParamMap.empty())
              .setFaultsForTests(faults(apart, session.sparkContext().isLocal()))
              .setEventListener(events::add)
              .fit(dataset);
      Report<M> report = new Report<>(undisturbed, disturbed, new ArrayList<>(events));
      if (report.kills() < kills.size()) {
        throw new RejoinException(
            RejoinException.Code.TIMED_OUT,
            "only "
                + report.kills()
                + " of "
                + kills.size()
                + " kills happened; look at the ranks and rounds asked for");
      }
      return report;
    } finally {
      if (before == null) {
        session.conf().unset(ROUNDS);
      } else {
        session.conf().set(ROUNDS, before);
      }
    }
  }

  /** Trains twice, and throws an AssertionError unless the models are the same, byte for byte. */
  public Report<M> assertSameModel(Dataset<?> dataset) {
    Report<M> report = run(dataset);
    if (!report.sameModel()) {
      throw new AssertionError(
          "the model after "
              + report.kills()
              + " kills has SHA-256 "
              + report.disturbedDigest()
              + ", without them "
              + report.undisturbedDigest());
    }
    return report;
  }

  private Faults faults(int apart, boolean local) {
    Faults faults = Faults.none();
    for (int[] kill : kills) {
      String moment = "rank=" + kill[0] + ",version=" + kill[1] / apart + ",at=bytes:0";
      faults.and(moment + ",do=" + (local ? "throw" : "kill"));
    }
    return faults;
  }

  /** The two trainings and whether their models are the same. */
  public static final class Report<M extends Model<M>> {
    private final M undisturbed;
    private final M disturbed;
    private final List<TrainingEvent> events;

    Report(M undisturbed, M disturbed, List<TrainingEvent> events) {
      this.undisturbed = undisturbed;
      this.disturbed = disturbed;
      this.events = Collections.unmodifiableList(events);
    }

    /** The model of the training without a kill. */
    public M undisturbed() {
      return undisturbed;
    }

    /** The model of the training with kills. */
    public M disturbed() {
      return disturbed;
    }

    /** What happened in the training with kills. */
    public List<TrainingEvent> events() {
      return events;
    }

    /** How many kills happened. */
    public int kills() {
      return (int)
          events.stream().filter(event -> event.kind() == TrainingEvent.Kind.FAULT_FIRED).count();
    }

    /** Whether the models are the same, byte for byte. */
    public boolean sameModel() {
      return undisturbedDigest().equals(disturbedDigest());
    }

    /** SHA-256 of the model's bytes in XGBoost's {@code ubj} format. */
    public String undisturbedDigest() {
      return digest(undisturbed);
    }

    /** SHA-256 of the model's bytes in XGBoost's {@code ubj} format. */
    public String disturbedDigest() {
      return digest(disturbed);
    }

    private static String digest(Model<?> model) {
      try {
        return DigestUtils.sha256Hex(((XGBoostModel<?>) model).nativeBooster().toByteArray("ubj"));
      } catch (XGBoostError e) {
        throw new RejoinException(
            RejoinException.Code.INTERNAL, "the model can't be written to memory", e);
      }
    }
  }
}

package io.rejoin.xgboost;

import io.rejoin.RankTask;
import io.rejoin.RejoinException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntConsumer;
import ml.dmlc.xgboost4j.java.Booster;
import ml.dmlc.xgboost4j.java.Communicator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoost;
import ml.dmlc.xgboost4j.java.XGBoostError;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One incarnation of a rank from its start to the job's end. What it computes is what XGBoost4J's
 * own loop computes; in between it reports to the agent at which version it is, always before the
 * first byte of that version.
 */
final class Incarnation {
  private static final Logger LOG = LoggerFactory.getLogger(Incarnation.class);

  private final XgboostMember member;
  private final RankTask rankTask;
  private final TrainingSpec spec;
  private final XgboostVersion version;
  private final IntConsumer listener;
  private final XgboostMember.Start start;
  private final Laps laps = new Laps();

  Incarnation(
      XgboostMember member,
      RankTask rankTask,
      TrainingSpec spec,
      XgboostVersion version,
      IntConsumer listener) {
    this.member = member;
    this.rankTask = rankTask;
    this.spec = spec;
    this.version = version;
    this.listener = listener;
    this.start = member.start();
  }

  /** Returns when all ranks have reached the end: rank 0's result, if it wasn't over before. */
  Optional<TrainingResult> run(Matrices.SourceByWorld source) throws Exception {
    if (start.over()) {
      return Optional.empty();
    }
    Outcome outcome = start.complete() ? restoredOutcome() : train(source);
    Optional<TrainingResult> result =
        rankTask.rank() == 0 ? Optional.of(outcome.result()) : Optional.empty();
    byte[] bytes = result.map(TrainingResult::toBytes).orElse(null);
    member.finish(outcome.rounds(), outcome.model(), bytes, rankTask.finishMillis());
    return result;
  }

  /** Nothing is left to train: the others wait only for this rank's report. */
  private Outcome restoredOutcome() {
    Checkpoint checkpoint =
        Checkpoint.of(member.checkpoint().orElseThrow(() -> missing("checkpoint")));
    byte[] bytes = checkpoint.progress();
    if (bytes == null) {
      bytes = member.local().orElseThrow(() -> missing("local state"));
    }
    Progress progress = Progress.of(bytes, Progress.names(bytes), spec.rounds());
    if (progress.round() < spec.rounds() && !progress.shouldStop(spec.earlyStoppingRounds())) {
      throw new RejoinException(
          RejoinException.Code.INCOMPATIBLE,
          "the training that this one goes on from had ended after "
              + progress.round()
              + " rounds, and this one has "
              + spec.rounds()
              + ". Begin it as a job of another name, or remove the checkpoints of the former one");
    }
    return new Outcome(checkpoint, progress);
  }

  private Outcome train(Matrices.SourceByWorld source) throws Exception {
    Map<String, Object> arguments = communicatorArguments(member.communicator(version.wire()));
    try {
      // A failed start leaves a communicator of one rank behind: never go on after it.
      Communicator.init(arguments);
      checkWorld();
      laps.lap("connecting");
      try (Matrices matrices = open(source)) {
        laps.lap("matrices");
        return new Training(matrices.byName()).run();
      }
    } finally {
      try {
        Communicator.shutdown();
      } catch (XGBoostError | RuntimeException ignored) {
        // After a worker was freed its sockets are gone and the farewell fails; a later start on
        // this thread works.
      }
    }
  }

  /**
   * A failure to read the input may heal with a retry (a lost block, a lost shuffle file), unlike
   * one of training.
   */
  private Matrices open(Matrices.SourceByWorld source) throws Exception {
    try {
      return source.open(start.world());
    } catch (XGBoostError e) {
      throw new RejoinException(
          RejoinException.Code.IO,
          "the matrices of " + rankTask + " can't be built: " + e.getMessage(),
          e);
    }
  }

  private void checkWorld() throws XGBoostError {
    int world = Communicator.getWorldSize();
    int rank = Communicator.getRank();
    int expected = spec.world() == 0 ? start.world() : spec.world();
    if (world != expected || rank != rankTask.rank()) {
      throw new RejoinException(
          RejoinException.Code.INTERNAL,
          "XGBoost's communicator says rank "
              + rank
              + " of "
              + world
              + ", expected rank "
              + rankTask.rank()
              + " of "
              + expected);
    }
  }

  /** XGBoost wants numbers where numbers are meant. */
  private static Map<String, Object> communicatorArguments(Map<String, String> words) {
    Map<String, Object> arguments = new HashMap<>();
    words.forEach(
        (key, value) -> {
          boolean number =
              key.endsWith("_port") || key.endsWith("_timeout") || key.endsWith("_retry");
          arguments.put(key, number ? (Object) Integer.valueOf(value) : value);
        });
    return arguments;
  }

  private RejoinException missing(String what) {
    return new RejoinException(
        RejoinException.Code.INTERNAL,
        rankTask + " starts at version " + start.version() + " but was given no " + what);
  }

  /** The model and the evaluations at the end of training, before they are reported. */
  private final class Outcome {
    private final Checkpoint checkpoint;
    private final Progress progress;

    Outcome(Checkpoint checkpoint, Progress progress) {
      this.checkpoint = checkpoint;
      this.progress = progress;
    }

    int rounds() {
      return progress.round();
    }

    byte[] model() {
      return checkpoint.model();
    }

    /**
     * For the driver. Scores that only this rank knows are written into the model here and not
     * before.
     */
    TrainingResult result() throws XGBoostError {
      if (spec.evaluation() == null || !progress.hasBest()) {
        return new TrainingResult(checkpoint.model(), rounds(), progress.metrics());
      }
      Booster booster = load(checkpoint.model());
      try {
        setBest(booster, progress);
        return new TrainingResult(booster.toByteArray("ubj"), rounds(), progress.metrics());
      } finally {
        booster.dispose();
      }
    }
  }

  private static void setBest(Booster booster, Progress progress) throws XGBoostError {
    booster.setAttr("best_iteration", String.valueOf(progress.best()));
    booster.setAttr("best_score", String.valueOf(progress.bestScore()));
  }

  private static Booster load(byte[] model) throws XGBoostError {
    try {
      return XGBoost.loadModel(model);
    } catch (java.io.IOException e) {
      throw new XGBoostError("the model can't be read from memory", e);
    }
  }

  /** The rounds of one incarnation, from opening the matrices to the last update. */
  private final class Training {
    private final LinkedHashMap<String, DMatrix> byName;
    private final DMatrix[] matrices;
    private final String[] names;
    private final Progress progress;

    private int at;

    /** The first round of this version. */
    private int began;

    private byte[] bytes;
    private Checkpoint checkpoint;
    private Booster booster;

    /** Under a user's objective; null for XGBoost's own. */
    private InitialMargins margins;

    Training(Map<String, DMatrix> byName) {
      this.byName = new LinkedHashMap<>(byName);
      this.matrices = byName.values().toArray(new DMatrix[0]);
      this.names = byName.keySet().toArray(new String[0]);
      this.at = start.version();
      this.bytes = member.checkpoint().orElse(null);
      this.checkpoint = bytes == null ? null : Checkpoint.of(bytes);
      this.progress = restoredProgress();
      this.began = progress.round();
    }

    private Progress restoredProgress() {
      if (checkpoint == null) {
        return new Progress(names, spec.rounds());
      }
      Optional<byte[]> kept =
          spec.evaluation() == null ? Optional.ofNullable(checkpoint.progress()) : member.local();
      return Progress.of(kept.orElseThrow(() -> missing("local state")), names, spec.rounds());
    }

    Outcome run() throws XGBoostError {
      try {
        if (spec.sketchesLazily()) {
          XGBoost.train(
                  matrices[0],
                  spec.warmUpParameters(),
                  1,
                  new LinkedHashMap<>(),
                  spec.warmUpObjective(),
                  null)
              .dispose();
        }
        laps.lap("sketch");
        if (spec.objective() != null) {
          margins = new InitialMargins(spec, matrices, byName);
        }
        if (version.keepsBooster()) {
          makeBooster();
          // It isn't loaded again.
          margins = null;
        }
        laps.lap("model");
        enter(false);
        LOG.info("{} is at version {}, round {}: {}", rankTask, at, progress.round(), laps);
        int next = nextCheckpoint();
        listener.accept(progress.round());
        while (!done()) {
          trainOneRound();
          listener.accept(progress.round());
          if (done() || progress.round() == next || isWantedEarly()) {
            take();
            enter(done());
            next = nextCheckpoint();
          } else if (start.incarnation() > 0) {
            member.beginRound(progress.round());
          }
        }
        if (checkpoint == null) {
          // No round was wanted at all: the untrained model is the result.
          makeBooster();
          take();
          enter(true);
        }
        return new Outcome(checkpoint, progress);
      } finally {
        if (booster != null) {
          booster.dispose();
        }
      }
    }

    private boolean done() {
      return progress.round() >= spec.rounds() || progress.shouldStop(spec.earlyStoppingRounds());
    }

    /**
     * Whether a checkpoint is taken although it isn't its turn: the same answer at all ranks, and
     * for those that come back. Where the Booster is kept a checkpoint changes nothing in the
     * model.
     */
    private boolean isWantedEarly() {
      return spec.checkpointsOnNotice()
          && version.keepsBooster()
          && start.hooked()
          && member.checkpointsEarly(at);
    }

    private int nextCheckpoint() {
      long logged = checkpoint == null ? 0 : checkpoint.loggedPerRound();
      return progress.round()
          + spec.rhythm().roundsAfter(checkpoint == null ? 0 : checkpoint.length(), logged);
    }

    private void trainOneRound() throws XGBoostError {
      checkWorld();
      int round = progress.round();
      if (spec.objective() != null) {
        booster.update(matrices[0], round, spec.objective());
      } else {
        booster.update(matrices[0], round);
      }
      float[] scores = new float[matrices.length];
      String evaluated =
          spec.evaluation() != null
              ? booster.evalSet(matrices, names, spec.evaluation(), scores)
              : booster.evalSet(matrices, names, round, scores);
      if (round == 0) {
        progress.direction(XGBoost.isMaximizeEvaluation(evaluated, names, spec.parameters()));
      }
      if (rankTask.rank() == 0 && spec.prints(round)) {
        member.print(evaluated);
      }
      boolean better = progress.note(scores);
      if (better && spec.evaluation() == null) {
        setBest(booster, progress);
      }
      if (spec.evaluation() != null && spec.earlyStoppingRounds() > 0) {
        agreeOnStop();
      }
    }

    /**
     * A user's evaluation sees only this rank's rows, so ranks may differ about stopping. The stock
     * loop would then wait for those that have left; here it is an error.
     */
    private void agreeOnStop() {
      float mine = progress.shouldStop(spec.earlyStoppingRounds()) ? 1 : 0;
      float any = Communicator.allReduce(new float[] {mine}, Communicator.OpType.MAX)[0];
      float all = Communicator.allReduce(new float[] {mine}, Communicator.OpType.MIN)[0];
      if (any != all) {
        throw new RejoinException(
            RejoinException.Code.TRAINING_FAILED,
            "ranks disagree whether to stop after round "
                + (progress.round() - 1)
                + " ("
                + rankTask
                + " would "
                + (mine > 0 ? "stop" : "go on")
                + "): the custom evaluation is computed from each rank's own rows. Use one of"
                + " XGBoost's own metrics for early stopping, or train without it");
      }
    }

    /** Ends a version: the state that the next one starts from. */
    private void take() throws XGBoostError {
      byte[] global = spec.evaluation() == null ? progress.toBytes() : null;
      checkpoint = withLogged(global, booster.toByteArray("ubj"));
      bytes = checkpoint.toBytes();
      at++;
      began = progress.round();
    }

    /**
     * Where the next interval depends on it, the ranks agree on what a round logs. Each has counted
     * exactly, and counts the same when it repeats the version, so this is a collective call like
     * any other.
     */
    private Checkpoint withLogged(byte[] global, byte[] model) {
      long known = checkpoint == null ? 0 : checkpoint.loggedPerRound();
      Checkpoint next = new Checkpoint(global, model, known);
      if (done() || !spec.rhythm().asksForLogged(next.length(), known)) {
        return next;
      }
      long logged = spec.rhythm().logged(member.logged(), member.loggedTogether());
      float mine = (float) logged / (progress.round() - began);
      float most = Communicator.allReduce(new float[] {mine}, Communicator.OpType.MAX)[0];
      return new Checkpoint(global, model, (long) most);
    }

    private void enter(boolean complete) throws XGBoostError {
      byte[] local = spec.evaluation() == null ? null : progress.toBytes();
      member.enter(at, progress.round(), bytes, local, complete);
      if (!version.keepsBooster() && !complete) {
        // Up to 3.2 part of the samplers' state is not in the model: all ranks start each version
        // with a new Booster.
        makeBooster();
      }
    }

    private void makeBooster() throws XGBoostError {
      if (booster != null) {
        booster.dispose();
      }
      if (checkpoint == null) {
        booster =
            XGBoost.train(
                matrices[0],
                spec.parameters(),
                0,
                new LinkedHashMap<>(byName),
                null,
                null,
                null,
                0);
      } else {
        booster = load(checkpoint.model());
        booster.setParams(spec.parametersOfLoaded());
        if (margins != null) {
          margins.lendTo(booster);
        }
      }
    }
  }
}

package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.api.common.BatchShuffleMode;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.BatchExecutionOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.HeartbeatManagerOptions;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.streaming.api.transformations.PartitionTransformation;
import org.apache.flink.streaming.api.transformations.SideOutputTransformation;
import org.apache.flink.streaming.api.transformations.SourceTransformation;
import org.apache.flink.streaming.api.transformations.UnionTransformation;
import org.apache.flink.streaming.api.transformations.WithBoundedness;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;
import org.apache.flink.streaming.runtime.partitioner.StreamPartitioner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What of a job's graph and schedulers decides whether a subtask can be restarted alone. Flink
 * restarts all subtasks that are connected by pipelined edges: with forward edges alone those are
 * one subtask of each operator.
 */
final class JobShape {
  private static final Logger LOG = LoggerFactory.getLogger(JobShape.class);
  private static final Duration LONG_INTERVAL = Duration.ofSeconds(1);
  // By their names: they are in another class of Flink 1.20 than of 2.x.
  private static final ConfigOption<Duration> CHECKPOINT_INTERVAL =
      ConfigOptions.key("execution.checkpointing.interval")
          .durationType()
          .defaultValue(Duration.ZERO);
  private static final ConfigOption<String> CHECKPOINT_MODE =
      ConfigOptions.key("execution.checkpointing.mode").stringType().defaultValue("EXACTLY_ONCE");

  private final ReadableConfig configuration;
  private final List<Edge> edges = new ArrayList<>();
  private final Set<Transformation<?>> all = new LinkedHashSet<>();

  private JobShape(ReadableConfig configuration) {
    this.configuration = configuration;
  }

  /** That of a job with these transformations and all that they come from. */
  static JobShape of(Collection<Transformation<?>> last, ReadableConfig configuration) {
    JobShape shape = new JobShape(configuration);
    for (Transformation<?> one : last) {
      shape.all.addAll(one.getTransitivePredecessors());
    }
    for (Transformation<?> one : shape.all) {
      if (!isVirtual(one)) {
        for (Transformation<?> input : one.getInputs()) {
          shape.addEdges(input, one, null);
        }
      }
    }
    return shape;
  }

  /** Whether all sources end. */
  boolean isBounded() {
    return all.stream()
        .filter(one -> one instanceof WithBoundedness)
        .allMatch(one -> ((WithBoundedness) one).getBoundedness() == Boundedness.BOUNDED);
  }

  /** Whether each subtask has its rows in one order: those of one source's subtask. */
  boolean keepsOrder() {
    return edges.stream().allMatch(Edge::isForward) && joins().isEmpty();
  }

  /** The operators that take rows from several edges, as they come. */
  private List<Transformation<?>> joins() {
    return operators().stream()
        .filter(one -> edges.stream().filter(edge -> edge.to == one).count() > 1)
        .collect(Collectors.toList());
  }

  /**
   * Refuses rows of several inputs, where they aren't put into an order of their own: a restarted
   * subtask would have them in another one, and end the job.
   *
   * @throws RejoinException BAD_ARGUMENT with the operator, and what to do
   */
  void checkOrder(SettingValues settings) {
    if (settings.flag(FlinkSettings.ALLOW_REGION_RESTART)) {
      return;
    }
    for (Transformation<?> join : joins()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          "\""
              + join.getName()
              + "\" takes rows of several inputs as they come, so that a subtask that is restarted"
              + " would have them in another order than before, and the job would end with"
              + " MISMATCH: train on one input, or run in BATCH, where rows are put into an order;"
              + " or set "
              + settings.name(FlinkSettings.ALLOW_REGION_RESTART)
              + " to true, if such an end is better than none");
    }
  }

  /**
   * Refuses what makes Flink restart all subtasks when one is lost, or run several of one, rows
   * that Flink may give twice, and a job that can't have its slots; tells of what recovery lacks,
   * and of heartbeats with which it takes long.
   *
   * @throws RejoinException BAD_ARGUMENT with the edge or the setting, and what to do
   */
  void check(Transformation<?> trainer, SettingValues settings) {
    checkRestarts(trainer, settings);
    checkMode();
    // In batch what comes before and after the ranks may have its slots before and after them.
    JobSlots.of(isBatch() ? List.of(trainer) : operators()).check(configuration);
    warnings(trainer).forEach(LOG::warn);
    if (!settings.flag(FlinkSettings.ALLOW_REGION_RESTART)) {
      unseenWarning(trainer).ifPresent(LOG::warn);
    }
    heartbeatAdvice().ifPresent(LOG::info);
  }

  /** A snapshot would have rows that came behind its barrier, and that the source gives again. */
  private void checkMode() {
    String mode = configuration.get(CHECKPOINT_MODE);
    if (hasCheckpoints() && !mode.equalsIgnoreCase(CHECKPOINT_MODE.defaultValue())) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          CHECKPOINT_MODE.key()
              + " is "
              + mode
              + ", with which rows may be trained on twice after a restart from a checkpoint; set"
              + " it to "
              + CHECKPOINT_MODE.defaultValue());
    }
  }

  private boolean hasCheckpoints() {
    return !isBatch() && !configuration.get(CHECKPOINT_INTERVAL).isZero();
  }

  /** What recovery lacks by the configuration that the job is submitted with, and its sources. */
  List<String> warnings(Transformation<?> trainer) {
    List<String> warnings = new ArrayList<>();
    String strategy = configuration.get(RestartStrategyOptions.RESTART_STRATEGY);
    if (strategy == null && !hasCheckpoints()) {
      warnings.add(
          RestartStrategyOptions.RESTART_STRATEGY.key()
              + " isn't set, and without checkpoints of Flink's it is none then: the first death"
              + " ends the job. Set it to exponential-delay");
    }
    if (!isBatch() && !hasCheckpoints()) {
      warnings.add(
          CHECKPOINT_INTERVAL.key()
              + " isn't set: a subtask that is lost reads its input from the beginning, and should"
              + " all die at once, training begins anew. Savepoints are at-least-once then: where"
              + " the trainer has several inputs, take one by `flink stop` alone");
    }
    endWarning(trainer).ifPresent(warnings::add);
    for (Transformation<?> one : trainer.getTransitivePredecessors()) {
      if (one instanceof SourceTransformation && one.getParallelism() > 1) {
        Source<?, ?, ?> source = ((SourceTransformation<?, ?, ?>) one).getSource();
        if (!(source instanceof NumberedSource)) {
          warnings.add(
              "the source \""
                  + one.getName()
                  + "\" isn't taken by Rejoin.source: if it gives splits to whichever reader asks"
                  + " first, as files do, a subtask that is lost may read other rows, and the job"
                  + " ends with MISMATCH (docs/flink.md, Sources)");
        }
      }
    }
    return warnings;
  }

  /**
   * What a Table program takes from a stream isn't among an environment's transformations, and no
   * part of Flink that is called while the graph is made knows all of it.
   */
  Optional<String> unseenWarning(Transformation<?> trainer) {
    if (isBatch() || edges.stream().anyMatch(edge -> edge.from == trainer)) {
      return Optional.empty();
    }
    return Optional.of(
        "nothing is seen that takes the models of \""
            + trainer.getName()
            + "\". Where a Table or an SQL statement does, edges below aren't checked: by a"
            + " grouping, a join or another parallelism there a single subtask couldn't be"
            + " restarted alone, and one death restarts all from Flink's last checkpoint. See in"
            + " Flink's web page that all edges are FORWARD, or write models by a sink of the"
            + " DataStream API");
  }

  /**
   * At the end of its input a rank waits for the end of training. Barriers pass it there as those
   * of a source, whose chain it is in; those that come from another task it doesn't read any more.
   */
  private Optional<String> endWarning(Transformation<?> trainer) {
    JobShape input = of(List.of(trainer), configuration);
    List<Transformation<?>> above = input.operators();
    boolean ends =
        above.stream()
            .filter(one -> one instanceof WithBoundedness)
            .anyMatch(one -> ((WithBoundedness) one).getBoundedness() == Boundedness.BOUNDED);
    boolean inOneTask = input.keepsOrder() && JobSlots.of(above).groups() == 1;
    if (!hasCheckpoints() || !ends || inOneTask) {
      return Optional.empty();
    }
    return Optional.of(
        "\""
            + trainer.getName()
            + "\" isn't in one task with its source, by its slot sharing group or its inputs: from"
            + " the end of a rank's input to the end of training no checkpoint or savepoint is"
            + " completed, and where that takes longer than execution.checkpointing.timeout the job"
            + " fails. Give both the same slot sharing group, and the trainer one input by a"
            + " forward edge");
  }

  private void checkRestarts(Transformation<?> trainer, SettingValues settings) {
    if (configuration.get(BatchExecutionOptions.SPECULATIVE_ENABLED)) {
      throw refused(
          BatchExecutionOptions.SPECULATIVE_ENABLED.key() + " is true",
          "a rank can't run twice at a time; set it to false");
    }
    if (settings.flag(FlinkSettings.ALLOW_REGION_RESTART)) {
      return;
    }
    if (isBatch()) {
      checkShuffle(trainer);
      return;
    }
    String allow =
        "; or set "
            + settings.name(FlinkSettings.ALLOW_REGION_RESTART)
            + " to true: one death then restarts all subtasks from Flink's last checkpoint, and"
            + " behind an exchange the job ends with MISMATCH where rows come in another order";
    String scheduler = String.valueOf(configuration.get(JobManagerOptions.SCHEDULER));
    if (configuration.get(JobManagerOptions.SCHEDULER_MODE) != null) {
      throw refused(
          JobManagerOptions.SCHEDULER_MODE.key()
              + " is "
              + configuration.get(JobManagerOptions.SCHEDULER_MODE),
          "this mode restarts all subtasks whenever one is lost; remove it" + allow);
    }
    if (scheduler.equalsIgnoreCase("adaptive")) {
      throw refused(
          JobManagerOptions.SCHEDULER.key() + " is adaptive",
          "this scheduler restarts all subtasks whenever one is lost; set it to default" + allow);
    }
    for (Edge edge : connected(trainer)) {
      if (!edge.isForward()) {
        throw refused(edge.toString(), edge.advice() + allow);
      }
    }
  }

  /**
   * In batch an exchange is blocking, unless Flink is told otherwise. One that can't be read twice
   * has its producers restarted with a rank, and with them all that read from them.
   */
  private void checkShuffle(Transformation<?> trainer) {
    BatchShuffleMode mode = configuration.get(ExecutionOptions.BATCH_SHUFFLE_MODE);
    if (mode != BatchShuffleMode.ALL_EXCHANGES_PIPELINED
        && mode != BatchShuffleMode.ALL_EXCHANGES_HYBRID_SELECTIVE) {
      return;
    }
    for (Edge edge : connected(trainer)) {
      if (!edge.isForward()) {
        throw refused(
            ExecutionOptions.BATCH_SHUFFLE_MODE.key() + " is " + mode + ", and " + edge,
            "set it to " + BatchShuffleMode.ALL_EXCHANGES_BLOCKING);
      }
    }
  }

  /**
   * Refuses sources that Flink holds back until others have come as far, where a batch waits for
   * its rows without a time: each would wait for the other.
   *
   * @throws RejoinException BAD_ARGUMENT with the source and the setting, and what to do
   */
  void checkAlignment(Transformation<?> trainer, SettingValues settings) {
    if (settings.number(FlinkSettings.BATCH_WAIT) > 0) {
      return;
    }
    for (Transformation<?> one : trainer.getTransitivePredecessors()) {
      if (one instanceof SourceTransformation
          && ((SourceTransformation<?, ?, ?>) one)
              .getWatermarkStrategy()
              .getAlignmentParameters()
              .isEnabled()) {
        throw new RejoinException(
            RejoinException.Code.BAD_ARGUMENT,
            "the source \""
                + one.getName()
                + "\" has watermark alignment, and "
                + settings.name(FlinkSettings.BATCH_WAIT)
                + " is 0: a source that Flink holds back for others would be waited for without"
                + " end. Set "
                + settings.name(FlinkSettings.BATCH_WAIT)
                + " to a time, or take the source without alignment");
      }
    }
  }

  /**
   * What to say of heartbeats by which Flink takes long to notice that a TaskManager was killed.
   * They are the cluster's; a job knows what stands in the configuration that it is submitted with.
   */
  Optional<String> heartbeatAdvice() {
    Duration interval = configuration.get(HeartbeatManagerOptions.HEARTBEAT_INTERVAL);
    boolean isOneProcess = "local".equals(configuration.get(DeploymentOptions.TARGET));
    if (isOneProcess || interval.compareTo(LONG_INTERVAL) <= 0) {
      return Optional.empty();
    }
    return Optional.of(
        HeartbeatManagerOptions.HEARTBEAT_INTERVAL.key()
            + " is "
            + interval.toMillis()
            + " ms in the configuration that this job is submitted with: after about so long Flink"
            + " notices a killed TaskManager, and training waits for it. In the configuration of"
            + " JobManager and TaskManagers set it to 500 ms, and leave "
            + HeartbeatManagerOptions.HEARTBEAT_TIMEOUT.key()
            + " ("
            + configuration.get(HeartbeatManagerOptions.HEARTBEAT_TIMEOUT).toMillis()
            + " ms) as it is: a short one kills TaskManagers in garbage collections");
  }

  private List<Transformation<?>> operators() {
    return all.stream().filter(one -> !isVirtual(one)).collect(Collectors.toList());
  }

  /** Whether stages of it run one after the other. */
  boolean isBatch() {
    RuntimeExecutionMode mode = configuration.get(ExecutionOptions.RUNTIME_MODE);
    return mode == RuntimeExecutionMode.BATCH
        || mode == RuntimeExecutionMode.AUTOMATIC && isBounded();
  }

  /**
   * Refuses a job whose rows aren't all there before training begins.
   *
   * @throws RejoinException BAD_ARGUMENT with what to do
   */
  void refuseStreaming(String what) {
    if (!isBatch()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT,
          what
              + " trains on all rows in an order of their own, and so in BATCH execution alone;"
              + " this job runs in STREAMING. Set "
              + ExecutionOptions.RUNTIME_MODE.key()
              + "=BATCH, or take Rejoin.train, which trains on rows as they come");
    }
  }

  /** The edges of what is connected with a transformation, above and below. */
  private List<Edge> connected(Transformation<?> from) {
    List<Edge> connected = new ArrayList<>();
    Set<Transformation<?>> reached = new LinkedHashSet<>(Set.of(from));
    ArrayDeque<Transformation<?>> next = new ArrayDeque<>(reached);
    while (!next.isEmpty()) {
      Transformation<?> one = next.poll();
      for (Edge edge : edges) {
        if (edge.from == one || edge.to == one) {
          if (!connected.contains(edge)) {
            connected.add(edge);
          }
          Transformation<?> other = edge.from == one ? edge.to : edge.from;
          if (reached.add(other)) {
            next.add(other);
          }
        }
      }
    }
    return connected;
  }

  private void addEdges(
      Transformation<?> from, Transformation<?> to, StreamPartitioner<?> partitioner) {
    if (!isVirtual(from)) {
      edges.add(new Edge(from, to, partitioner));
      return;
    }
    StreamPartitioner<?> how =
        from instanceof PartitionTransformation
            ? ((PartitionTransformation<?>) from).getPartitioner()
            : partitioner;
    for (Transformation<?> input : from.getInputs()) {
      addEdges(input, to, how);
    }
  }

  /** Whether it is no operator of its own, but says something of an edge. */
  private static boolean isVirtual(Transformation<?> one) {
    return one instanceof PartitionTransformation
        || one instanceof UnionTransformation
        || one instanceof SideOutputTransformation;
  }

  private static RejoinException refused(String seen, String advice) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        seen + ", and so a single subtask couldn't be restarted alone: " + advice);
  }

  private static final class Edge {
    private final Transformation<?> from;
    private final Transformation<?> to;
    private final StreamPartitioner<?> partitioner;

    Edge(Transformation<?> from, Transformation<?> to, StreamPartitioner<?> partitioner) {
      this.from = from;
      this.to = to;
      this.partitioner = partitioner;
    }

    boolean isForward() {
      return partitioner == null ? isAsWide() : partitioner instanceof ForwardPartitioner;
    }

    private boolean isAsWide() {
      return from.getParallelism() == to.getParallelism();
    }

    String advice() {
      return isAsWide()
          ? "partition the rows where they come from (a source whose splits have one owner each)"
          : "give both the same parallelism";
    }

    @Override
    public String toString() {
      String how =
          partitioner == null
              ? "of parallelism " + from.getParallelism() + " to " + to.getParallelism()
              : "by " + partitioner;
      return "the edge \"" + from.getName() + "\" → \"" + to.getName() + "\" goes " + how;
    }
  }
}

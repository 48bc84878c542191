package io.rejoin.flink;

import io.rejoin.GangTask;
import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.apache.flink.api.common.TaskInfo;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.util.SerializedValue;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The subtask that a rank lives in, as the rank's thread sees it. */
final class Subtask<O extends RankOperator<?, ?>> implements TrainerContext, GangTask.Place {
  private static final Logger LOG = LoggerFactory.getLogger(Subtask.class);
  private static final long ANSWER_SECONDS = 60;

  private final O operator;
  private final Environment environment;
  private final TaskInfo info;
  private volatile boolean cancelled;

  Subtask(O operator) {
    this.operator = operator;
    this.environment = operator.getContainingTask().getEnvironment();
    this.info = operator.getRuntimeContext().getTaskInfo();
  }

  @Override
  public int rank() {
    return info.getIndexOfThisSubtask();
  }

  @Override
  public int world() {
    return info.getNumberOfParallelSubtasks();
  }

  /** Flink's number of this attempt. */
  int attempt() {
    return info.getAttemptNumber();
  }

  /** Flink's job. */
  String job() {
    return environment.getJobID().toString();
  }

  O operator() {
    return operator;
  }

  @Override
  public Map<String, String> parameters() {
    return operator.getRuntimeContext().getGlobalJobParameters();
  }

  @Override
  public MetricGroup metrics() {
    return operator.getMetricGroup();
  }

  /**
   * One process of Flink hosts ranks of several jobs and slots; its number tells it from others.
   */
  @Override
  public String executor() {
    return "TaskManager " + hostname() + " " + ProcessHandle.current().pid();
  }

  @Override
  public String hostname() {
    return environment.getTaskManagerInfo().getTaskManagerExternalAddress();
  }

  @Override
  public String spillDirectory() {
    return environment.getTaskManagerInfo().getTmpDirectories()[0];
  }

  @Override
  public boolean firstTry() {
    return attempt() == 0;
  }

  @Override
  public Optional<String> cancelled() {
    return cancelled ? Optional.of("Flink ended its task") : Optional.empty();
  }

  /** Flink wants the task's end. */
  void cancel() {
    cancelled = true;
  }

  /**
   * The address at which this process was told to find the JobManager; empty with high
   * availability.
   */
  String jobManager() {
    return environment
        .getTaskManagerInfo()
        .getConfiguration()
        .getOptional(JobManagerOptions.ADDRESS)
        .orElse("");
  }

  /** The coordinator's answer. */
  Answer ask(CoordinationRequest request) throws IOException, InterruptedException {
    try {
      return unwrapped(send(request).get(ANSWER_SECONDS, TimeUnit.SECONDS));
    } catch (TimeoutException e) {
      throw noAnswer("within " + ANSWER_SECONDS + " s", e);
    } catch (ExecutionException | ClassNotFoundException e) {
      throw noAnswer("but a failure (the cause)", e);
    }
  }

  private IOException noAnswer(String how, Exception cause) {
    return new IOException(
        "the JobManager gave no answer to rank "
            + rank()
            + " "
            + how
            + "; Flink tries this task again. Where it stays so, see in the JobManager's log"
            + " whether it lives, and on the network whether this TaskManager reaches it",
        cause);
  }

  /** The same without waiting for it: {@code then} gets it on another thread, or null: none. */
  void ask(CoordinationRequest request, Consumer<Answer> then) throws IOException {
    send(request)
        .whenComplete(
            (response, failure) -> {
              Answer answer = null;
              try {
                answer = failure == null ? unwrapped(response) : null;
              } catch (IOException | ClassNotFoundException e) {
                LOG.warn("rank {} can't read what the JobManager has answered", rank(), e);
              }
              then.accept(answer);
            });
  }

  private CompletableFuture<CoordinationResponse> send(CoordinationRequest request)
      throws IOException {
    return environment
        .getOperatorCoordinatorEventGateway()
        .sendRequestToCoordinator(operator.getOperatorID(), new SerializedValue<>(request));
  }

  private Answer unwrapped(CoordinationResponse response)
      throws IOException, ClassNotFoundException {
    return Answer.unwrapped(response, operator.getUserCodeClassloader());
  }
}

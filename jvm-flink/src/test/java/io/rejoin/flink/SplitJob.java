package io.rejoin.flink;

import io.rejoin.Communicator;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A training in this process on rows that are numbered by split, and what disturbs it. */
final class SplitJob {
  private static final AtomicInteger IDS = new AtomicInteger();
  private static final Map<Integer, SplitJob> ALL = new ConcurrentHashMap<>();
  private static final long MINUTES = 5;
  // Fewer than all ranks have room for.
  private static final long ENOUGH_ROWS = 400;

  /** How many attempts each subtask has had. */
  final Map<Integer, Integer> attempts = new ConcurrentHashMap<>();

  /** How many rows have come out of the source, again or for the first time. */
  final AtomicLong read = new AtomicLong();

  /** How many rows the model had that training began with. */
  final AtomicLong begun = new AtomicLong(-1);

  private final int id = IDS.incrementAndGet();
  private final int world;
  private final Configuration settings = LocalJob.settings(20, 3);
  private final CountDownLatch version = new CountDownLatch(1);
  private final AtomicBoolean hasFailed = new AtomicBoolean();
  private int slow = -1;
  private int failing = -1;
  private long failingRow;
  private int wanted = Integer.MAX_VALUE;
  private boolean opensLate;
  private boolean isPlain;
  private boolean isOther;
  private volatile TrainedModel last;

  SplitJob(int world) {
    this.world = world;
    ALL.put(id, this);
    set("rejoin.buffer.batches", "40");
  }

  SplitJob set(String key, String value) {
    settings.setString(key, value);
    return this;
  }

  /** Rows come late in this subtask. */
  SplitJob slow(int subtask) {
    slow = subtask;
    return this;
  }

  /** This subtask fails once, at its row of this number. */
  SplitJob failing(int subtask, long row) {
    failing = subtask;
    failingRow = row;
    return this;
  }

  /** Rows come before the trainer is open. */
  SplitJob opensLate() {
    opensLate = true;
    return this;
  }

  /** The trainer gets rows without their numbers. */
  SplitJob plain() {
    isPlain = true;
    return this;
  }

  /** Rows are other ones from a subtask's second attempt on. */
  SplitJob otherTheSecondTime() {
    isOther = true;
    return this;
  }

  /** It goes on from a savepoint. */
  SplitJob from(String savepoint) {
    return set("execution.state-recovery.path", savepoint);
  }

  /** To the end; the last model. */
  long[] run(Function<StreamExecutionEnvironment, SplitStream<Long>> rows) throws Exception {
    begin(rows).getJobExecutionResult().get(MINUTES, TimeUnit.MINUTES);
    return new Checksum().read(last.getBytes());
  }

  /** Until this version is trained; a savepoint. */
  String stop(
      int atVersion, Path directory, Function<StreamExecutionEnvironment, SplitStream<Long>> rows)
      throws Exception {
    wanted = atVersion;
    JobClient job = begin(rows);
    CompletableFuture<?> ended = job.getJobExecutionResult();
    while (!version.await(100, TimeUnit.MILLISECONDS)) {
      if (ended.isDone()) {
        throw new AssertionError("ended before version " + atVersion + ": " + ended.get());
      }
    }
    return job.stopWithSavepoint(false, directory.toUri().toString(), SavepointFormatType.CANONICAL)
        .get(MINUTES, TimeUnit.MINUTES);
  }

  private JobClient begin(Function<StreamExecutionEnvironment, SplitStream<Long>> rows)
      throws Exception {
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(world, settings);
    int own = id;
    SplitStream<Long> all = rows.apply(environment).map(new Disturbance(id)).uid("rows");
    (isPlain ? Rejoin.train(plain(all), new Watched(id)) : Rejoin.train(all, new Watched(id)))
        .uid("train")
        .map(
            model -> {
              ALL.get(own).last = model;
              return model;
            })
        .sinkTo(new DiscardingSink<>());
    return environment.executeAsync();
  }

  private static DataStream<Long> plain(SplitStream<Long> rows) {
    return rows.records()
        .filter(record -> NumberedRow.row(record) != null)
        .map(record -> NumberedRow.<Long>row(record))
        .returns(Types.LONG);
  }

  private static final class Disturbance extends RichMapFunction<Long, Long> {
    private static final long serialVersionUID = 1L;

    private final int id;
    private transient int subtask;
    private transient long rows;

    Disturbance(int id) {
      this.id = id;
    }

    @Override
    public void open(OpenContext context) {
      subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
      ALL.get(id).attempts.merge(subtask, 1, Integer::sum);
    }

    @Override
    public Long map(Long row) throws Exception {
      SplitJob job = ALL.get(id);
      job.read.incrementAndGet();
      if (subtask == job.slow && rows % 50 == 0) {
        Thread.sleep(5);
      }
      if (subtask == job.failing && rows == job.failingRow && !job.hasFailed.getAndSet(true)) {
        throw new IllegalStateException("a test lets a subtask fail");
      }
      rows++;
      return job.isOther && job.attempts.get(subtask) > 1 ? row + 3 : row;
    }
  }

  /** Takes its time where a version is waited for, so that the job doesn't end before. */
  private static final class Watched extends Checksum {
    private static final long serialVersionUID = 1L;

    private final int id;
    private transient int versions;

    Watched(int id) {
      this.id = id;
    }

    @Override
    public long[] open(TrainerContext context) throws Exception {
      SplitJob job = ALL.get(id);
      while (job.opensLate && job.read.get() < ENOUGH_ROWS) {
        Thread.sleep(1);
      }
      return super.open(context);
    }

    @Override
    public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
      SplitJob job = ALL.get(id);
      job.begun.compareAndSet(-1, model[ROWS]);
      if (++versions >= job.wanted) {
        job.version.countDown();
        Thread.sleep(20);
      }
      return super.onBatch(batch, ranks, model);
    }
  }
}

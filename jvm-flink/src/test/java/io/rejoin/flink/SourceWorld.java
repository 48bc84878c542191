package io.rejoin.flink;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;
import org.apache.flink.metrics.groups.SplitEnumeratorMetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.types.Row;
import org.apache.flink.util.UserCodeClassLoader;

/**
 * A numbered source's enumerator and readers as Flink runs them, in one thread. What readers say is
 * under way until it is delivered, for each reader in its order.
 */
final class SourceWorld<S extends SourceSplit, E> {
  /** What Flink's snapshot has of the source. */
  static final class Snapshot {
    private final byte[] enumerator;
    private final List<List<byte[]>> readers = new ArrayList<>();

    Snapshot(byte[] enumerator) {
      this.enumerator = enumerator;
    }
  }

  private final NumberedSource<?, S, E> source;
  private final SimpleVersionedSerializer<NumberedSplit<S>> splits;
  private final SimpleVersionedSerializer<OwnersState<S, E>> states;
  private final Map<Integer, ReaderInfo> registered = new HashMap<>();
  private final Queue<Runnable> ofEnumerator = new ArrayDeque<>();
  private final List<One> readers = new ArrayList<>();
  private SplitEnumerator<NumberedSplit<S>, OwnersState<S, E>> enumerator;

  private SourceWorld(NumberedSource<?, S, E> source) {
    this.source = source;
    this.splits = source.getSplitSerializer();
    this.states = source.getEnumeratorCheckpointSerializer();
  }

  /** A job that begins. */
  static <S extends SourceSplit, E> SourceWorld<S, E> of(NumberedSource<?, S, E> source, int world)
      throws Exception {
    SourceWorld<S, E> all = new SourceWorld<>(source);
    all.begin(world, null);
    return all;
  }

  /** A job that goes on from a snapshot. */
  static <S extends SourceSplit, E> SourceWorld<S, E> restored(
      NumberedSource<?, S, E> source, int world, Snapshot from) throws Exception {
    SourceWorld<S, E> all = new SourceWorld<>(source);
    all.begin(world, from);
    return all;
  }

  private void begin(int world, Snapshot from) throws Exception {
    Context context = new Context(world);
    enumerator =
        from == null
            ? source.createEnumerator(context)
            : source.restoreEnumerator(
                context, states.deserialize(states.getVersion(), from.enumerator));
    enumerator.start();
    List<byte[]> all = new ArrayList<>();
    if (from != null) {
      from.readers.forEach(all::addAll);
    }
    for (int reader = 0; reader < world; reader++) {
      One one = new One(reader, world);
      readers.add(one);
      if (from != null && from.readers.size() == world) {
        one.start(from.readers.get(reader));
      } else {
        // As Flink does with what readers of another parallelism had.
        int each = (all.size() + world - reader - 1) / (world - reader);
        List<byte[]> some = all.subList(0, each);
        one.start(some);
        some.clear();
      }
    }
  }

  int world() {
    return readers.size();
  }

  /** What a reader has given, in order, as split, number and row. */
  List<Row> rows(int reader) {
    return readers.get(reader).rows;
  }

  /** What readers have said is delivered. */
  void deliver() {
    while (!underWay().isEmpty()) {
      underWay().get(0).poll().run();
    }
  }

  private List<Queue<Runnable>> underWay() {
    List<Queue<Runnable>> all = new ArrayList<>();
    readers.forEach(one -> all.add(one.said));
    all.add(ofEnumerator);
    all.removeIf(Queue::isEmpty);
    return all;
  }

  /** A reader is polled once. */
  InputStatus poll(int reader) throws Exception {
    return readers.get(reader).poll();
  }

  /** Readers are polled in turns as the random numbers have it, until all have ended. */
  void run(Random random, int steps) throws Exception {
    for (int step = 0; step < steps && readers.stream().anyMatch(one -> !one.hasEnded); step++) {
      int what = random.nextInt(readers.size() + 1);
      if (what < readers.size()) {
        readers.get(what).poll();
      } else if (!underWay().isEmpty()) {
        underWay().get(random.nextInt(underWay().size())).poll().run();
      }
    }
  }

  boolean hasEnded() {
    return readers.stream().allMatch(one -> one.hasEnded);
  }

  Snapshot snapshot() throws Exception {
    Snapshot snapshot = new Snapshot(states.serialize(enumerator.snapshotState(1)));
    for (One one : readers) {
      List<byte[]> bytes = new ArrayList<>();
      for (NumberedSplit<S> split : one.reader.snapshotState(1)) {
        bytes.add(splits.serialize(split));
      }
      snapshot.readers.add(bytes);
      one.since.clear();
    }
    return snapshot;
  }

  /** A reader dies, and comes back as it was in a snapshot, the newest; null for none. */
  void fail(int reader, Snapshot from) throws Exception {
    One old = readers.get(reader);
    registered.remove(reader);
    enumerator.addSplitsBack(new ArrayList<>(old.since), reader);
    One one = new One(reader, readers.size());
    one.rows.addAll(old.rows);
    readers.set(reader, one);
    one.start(from == null ? List.of() : from.readers.get(reader));
  }

  /** What all readers have given by split and number. */
  Map<String, Row> byNumber() {
    Map<String, Row> all = new TreeMap<>();
    readers.forEach(
        one ->
            one.rows.forEach(
                row -> all.put(NumberedRow.split(row) + "#" + NumberedRow.number(row), row)));
    return all;
  }

  private final class One implements ReaderOutput<Row>, SourceReaderContext {
    private final int index;
    private final int world;
    private final List<Row> rows = new ArrayList<>();
    private final List<NumberedSplit<S>> since = new ArrayList<>();
    // Dies with it.
    private final Queue<Runnable> said = new ArrayDeque<>();
    private final SourceReader<Row, NumberedSplit<S>> reader;
    private boolean isLast;
    private boolean hasEnded;

    One(int index, int world) throws Exception {
      this.index = index;
      this.world = world;
      this.reader = source.createReader(this);
    }

    void start(List<byte[]> from) throws Exception {
      List<NumberedSplit<S>> restored = new ArrayList<>();
      for (byte[] bytes : from) {
        restored.add(splits.deserialize(splits.getVersion(), bytes));
      }
      if (!restored.isEmpty()) {
        reader.addSplits(restored);
      }
      said.add(
          () -> {
            registered.put(index, new ReaderInfo(index, "host"));
            enumerator.addReader(index);
          });
      reader.start();
    }

    InputStatus poll() throws Exception {
      InputStatus status =
          !hasEnded && reader.isAvailable().isDone()
              ? reader.pollNext(this)
              : InputStatus.NOTHING_AVAILABLE;
      hasEnded |= status == InputStatus.END_OF_INPUT;
      return hasEnded ? InputStatus.END_OF_INPUT : status;
    }

    @Override
    public void collect(Row row) {
      rows.add(row);
    }

    @Override
    public void collect(Row row, long timestamp) {
      rows.add(row);
    }

    @Override
    public SourceOutput<Row> createOutputForSplit(String split) {
      return this;
    }

    @Override
    public void releaseOutputForSplit(String split) {}

    @Override
    public void emitWatermark(Watermark watermark) {}

    @Override
    public void markIdle() {}

    @Override
    public void markActive() {}

    @Override
    public void sendSplitRequest() {
      said.add(() -> enumerator.handleSplitRequest(index, "host"));
    }

    @Override
    public int getIndexOfSubtask() {
      return index;
    }

    @Override
    public int currentParallelism() {
      return world;
    }

    @Override
    public SourceReaderMetricGroup metricGroup() {
      throw new UnsupportedOperationException();
    }

    @Override
    public Configuration getConfiguration() {
      return new Configuration();
    }

    @Override
    public String getLocalHostName() {
      return "host";
    }

    @Override
    public void sendSourceEventToCoordinator(SourceEvent event) {
      throw new UnsupportedOperationException();
    }

    @Override
    public UserCodeClassLoader getUserCodeClassLoader() {
      throw new UnsupportedOperationException();
    }
  }

  private final class Context implements SplitEnumeratorContext<NumberedSplit<S>> {
    private final int world;

    Context(int world) {
      this.world = world;
    }

    @Override
    public void assignSplits(SplitsAssignment<NumberedSplit<S>> assignment) {
      assignment
          .assignment()
          .forEach(
              (reader, some) -> {
                if (!registered.containsKey(reader)) {
                  throw new IllegalArgumentException("reader " + reader + " isn't there");
                }
                if (readers.get(reader).isLast) {
                  // By then its reader may have ended.
                  throw new IllegalStateException(
                      "reader " + reader + " was told that no splits follow, and gets " + some);
                }
                readers.get(reader).since.addAll(some);
                readers.get(reader).reader.addSplits(some);
              });
    }

    @Override
    public void signalNoMoreSplits(int reader) {
      readers.get(reader).isLast = true;
      readers.get(reader).reader.notifyNoMoreSplits();
    }

    @Override
    public int currentParallelism() {
      return world;
    }

    @Override
    public Map<Integer, ReaderInfo> registeredReaders() {
      return Collections.unmodifiableMap(registered);
    }

    @Override
    public <T> void callAsync(Callable<T> callable, BiConsumer<T, Throwable> handler) {
      ofEnumerator.add(
          () -> {
            T result;
            try {
              result = callable.call();
            } catch (Exception e) {
              throw new IllegalStateException(e);
            }
            handler.accept(result, null);
          });
    }

    @Override
    public <T> void callAsync(
        Callable<T> callable, BiConsumer<T, Throwable> handler, long delay, long every) {
      callAsync(callable, handler);
    }

    @Override
    public void runInCoordinatorThread(Runnable what) {
      ofEnumerator.add(what);
    }

    @Override
    public SplitEnumeratorMetricGroup metricGroup() {
      return UnregisteredMetricsGroup.createSplitEnumeratorMetricGroup();
    }

    @Override
    public void sendEventToSourceReader(int reader, SourceEvent event) {
      throw new UnsupportedOperationException();
    }
  }
}

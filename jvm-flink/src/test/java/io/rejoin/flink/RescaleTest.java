package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.LongStream;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.junit.jupiter.api.Test;

/**
 * Ranks with real buffers in a small world of their own: a job is stopped again and again with
 * snapshots that are no cut of versions, and restored at another parallelism, where Flink's way of
 * giving out states has brought rows of one split to several ranks.
 */
class RescaleTest {
  private static final int SPLITS = 5;
  private static final int ROWS = 60;
  private static final int LIMIT = 12;
  private static final int BATCH = 4;
  private static final long TIME_IS_OVER = -1;

  /** What a subtask has in a snapshot: the operator's state, and where its splits go on. */
  private static final class Snapshot {
    private final byte[] state;
    private final Map<String, Integer> next;

    Snapshot(byte[] state, Map<String, Integer> next) {
      this.state = state;
      this.next = next;
    }
  }

  private static final class Rank {
    private final RowBuffer<String> rows = new RowBuffer<>(LIMIT, String::hashCode, () -> {});
    private final TreeMap<String, Integer> next = new TreeMap<>();

    Snapshot snapshot(int world) throws Exception {
      DataOutputSerializer state = new DataOutputSerializer(64);
      RankState.of(world, true, rows).write(StringSerializer.INSTANCE, String::hashCode, state);
      return new Snapshot(state.getCopyOfBuffer(), new TreeMap<>(next));
    }
  }

  private static final class Job {
    private final Random random;
    private final List<Rank> ranks = new ArrayList<>();
    // The rows of each version that counts.
    private final List<List<String>> trained = new ArrayList<>();
    private int rereadFrom = Integer.MAX_VALUE;

    Job(long seed) {
      random = new Random(seed);
    }

    /**
     * The rows of a split: some don't pass the filter, and one of them may be another one today.
     */
    String row(String split, int number) {
      if (Math.floorMod((split + number).hashCode(), 3) == 0) {
        return null;
      }
      return split + ":" + number + (number >= rereadFrom ? "x" : "");
    }

    /** Whether a row passes the filter from one number to before another one. */
    boolean rowsBetween(String split, long from, long to) {
      return LongStream.range(from, to).anyMatch(number -> row(split, (int) number) != null);
    }

    void begin(int world) {
      for (int rank = 0; rank < world; rank++) {
        ranks.add(new Rank());
      }
      for (int split = 0; split < SPLITS; split++) {
        ranks.get(split % world).next.put("s" + split, 0);
      }
      load(VersionState.of(0, Positions.NONE, new byte[0]));
    }

    void load(VersionState state) {
      ranks.forEach(rank -> rank.rows.load(state));
    }

    /** Some rows come; false when none is left. */
    boolean read(int times) {
      for (int i = 0; i < times; i++) {
        Rank rank = ranks.get(random.nextInt(ranks.size()));
        for (Map.Entry<String, Integer> split : rank.next.entrySet()) {
          if (split.getValue() < ROWS && !rank.rows.isFull()) {
            String row = row(split.getKey(), split.getValue());
            long hash = row == null ? 0 : row.hashCode();
            new Inbox<>(rank.rows, 1).add(split.getKey(), split.getValue(), row, hash);
            split.setValue(split.getValue() + 1);
            break;
          }
        }
      }
      return ranks.stream().anyMatch(r -> r.next.values().stream().anyMatch(n -> n < ROWS));
    }

    /** A version, in lock step. */
    void train() throws Exception {
      List<List<Share>> shares = new ArrayList<>();
      for (Rank rank : ranks) {
        shares.add(rank.rows.await(BATCH, TIME_IS_OVER));
      }
      List<String> batch = new ArrayList<>();
      for (int rank = 0; rank < ranks.size(); rank++) {
        List<String> rows = ranks.get(rank).rows.rows(shares.get(rank));
        assertTrue(rows.size() <= BATCH, () -> rows.toString());
        batch.addAll(rows);
      }
      VersionState before = ranks.get(0).rows.newest();
      Positions positions = before.positions().plus(shares, true);
      VersionState next = VersionState.of(before.version() + 1, positions, new byte[0]);
      ranks.forEach(rank -> rank.rows.complete(next));
      trained.add(batch);
    }

    /** Each rank's snapshot, with a while between them. */
    List<Snapshot> stop() throws Exception {
      List<Snapshot> snapshots = new ArrayList<>();
      for (Rank rank : ranks) {
        snapshots.add(rank.snapshot(ranks.size()));
        // Rows that come after a snapshot come again after the restore.
        read(random.nextInt(8));
        for (int versions = random.nextInt(3); versions > 0; versions--) {
          train();
        }
      }
      return snapshots;
    }

    void restore(int world, List<Snapshot> snapshots) throws Exception {
      ranks.clear();
      VersionState newest = null;
      for (int rank = 0; rank < world; rank++) {
        ranks.add(new Rank());
      }
      for (int i = 0; i < snapshots.size(); i++) {
        // Whole states, in a row, to as many ranks as there are.
        Rank holder = ranks.get(i * world / Math.max(world, snapshots.size()));
        RankState<String> state =
            RankState.read(
                new DataInputDeserializer(snapshots.get(i).state),
                StringSerializer.INSTANCE,
                getClass().getClassLoader());
        state.refuseOther(world, true, "train");
        holder.rows.restore(state.newest(), state.kept());
        boolean isNewer = newest == null || state.newest().version() > newest.version();
        newest = isNewer ? state.newest() : newest;
        // Flink gives splits that are being read to any reader.
        snapshots
            .get(i)
            .next
            .forEach((split, next) -> ranks.get(random.nextInt(world)).next.put(split, next));
      }
      trained.subList(newest.version(), trained.size()).clear();
      List<Positions> read = new ArrayList<>();
      for (Rank rank : ranks) {
        rank.rows.restoredRead().ifPresent(own -> read.add(Positions.of(own.bytes())));
      }
      // Some rows come before a rank hears of the others'.
      read(random.nextInt(8));
      ranks.forEach(rank -> rank.rows.othersRead(read));
      load(newest);
    }

    void finish() throws Exception {
      for (int versions = 0; read(5); versions++) {
        assertTrue(versions < 10 * ROWS * SPLITS, "rows aren't read for ever");
        train();
      }
      ranks.forEach(rank -> rank.rows.end());
      for (int versions = 0; ranks.stream().anyMatch(rank -> !rank.rows.hasEnded()); versions++) {
        assertTrue(versions < ROWS * SPLITS, "rows wait for ever");
        train();
      }
    }
  }

  private static void assertEachRowIsTrainedOnce(Job job, long seed) {
    TreeMap<String, List<String>> trained = new TreeMap<>();
    for (List<String> version : job.trained) {
      for (String row : version) {
        trained.computeIfAbsent(row.substring(0, 2), split -> new ArrayList<>()).add(row);
      }
    }
    for (int split = 0; split < SPLITS; split++) {
      List<String> expected = new ArrayList<>();
      for (int number = 0; number < ROWS; number++) {
        String row = job.row("s" + split, number);
        if (row != null) {
          expected.add(row);
        }
      }
      assertEquals(expected, trained.get("s" + split), "seed " + seed);
    }
  }

  private static Job stoppedAndRestored(long seed, int times) throws Exception {
    Job job = new Job(seed);
    job.begin(1 + job.random.nextInt(4));
    for (int i = 0; i < times; i++) {
      for (int steps = job.random.nextInt(6); steps > 0; steps--) {
        job.read(job.random.nextInt(15));
        job.train();
      }
      job.restore(1 + job.random.nextInt(4), job.stop());
    }
    return job;
  }

  @Test
  void each_row_is_in_the_model_once_and_in_order_after_any_restores() throws Exception {
    for (long seed = 0; seed < 500; seed++) {
      Job job = stoppedAndRestored(seed, 4);
      job.finish();
      assertEachRowIsTrainedOnce(job, seed);
    }
  }

  @Test
  void rows_of_the_model_that_come_otherwise_after_a_restore_are_refused() throws Exception {
    int refused = 0;
    for (long seed = 0; seed < 200; seed++) {
      Job job = stoppedAndRestored(seed, 2);
      Positions model = job.ranks.get(0).rows.newest().positions();
      boolean isReread =
          job.ranks.stream()
              .flatMap(rank -> rank.next.entrySet().stream())
              .anyMatch(
                  next ->
                      job.rowsBetween(
                          next.getKey(), next.getValue(), model.consumed(next.getKey())));
      job.rereadFrom = 0;
      if (isReread) {
        refused++;
        RejoinException error = assertThrows(RejoinException.class, job::finish, "seed " + seed);
        assertEquals(RejoinException.Code.MISMATCH, error.code());
      } else {
        job.finish();
      }
    }
    assertTrue(refused > 20, "rows were read again in " + refused + " seeds");
  }
}

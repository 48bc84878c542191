package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Every kind of array and element, in every collective, with its value at every rank. */
class EveryCollectiveTest {
  private static final int WORLD = 3;
  private static final CallOptions NONE = CallOptions.NONE;

  /** Every rank's work on a thread of its own. */
  private static void all(Consumer<Communicator> work) throws Exception {
    JobId job = JobId.random();
    Secret secret = Secret.random();
    Communicator.Limits limits = new Communicator.Limits(30_000, 30_000, 30_000);
    ExecutorService threads = Executors.newFixedThreadPool(WORLD);
    try (Tracker tracker = Tracker.open(job, secret, new Tracker.Settings(WORLD, "127.0.0.1"));
        Agent agent =
            Agent.open(
                job,
                secret,
                new AgentSettings(tracker.address()).place("here", "127.0.0.1", "localhost"))) {
      List<Future<?>> results = new ArrayList<>();
      for (int rank = 0; rank < WORLD; rank++) {
        int own = rank;
        results.add(
            threads.submit(
                () -> {
                  try (Communicator ranks = agent.join(own, 0, 0, "a test", limits).orElseThrow()) {
                    ranks.load();
                    work.accept(ranks);
                  }
                }));
      }
      for (Future<?> result : results) {
        result.get();
      }
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void arrays_of_every_type() throws Exception {
    all(
        ranks -> {
          int own = ranks.rank();
          Communicator.Part part = ranks.part(own, 7, NONE);
          CallOptions boot = NONE.boot("spread");

          double[] doubles = {own + 0.5, 1};
          ranks.allreduce(doubles, Reduction.SUM);
          assertArrayEquals(new double[] {4.5, 3}, doubles);
          ranks.broadcast(doubles = new double[] {own}, 2);
          assertArrayEquals(new double[] {2}, doubles);
          assertArrayEquals(new double[] {0, 1, 2}, ranks.allgather(new double[] {own}));
          assertArrayEquals(new double[] {2, 2}, ranks.allgatherV(filled(own))[2]);
          double[] mine = ranks.reduceScatter(new double[7], Reduction.SUM, NONE);
          assertEquals(part.length(), mine.length);

          float[] floats = {own + 0.5f};
          ranks.allreduce(floats, Reduction.MAX);
          assertArrayEquals(new float[] {2.5f}, floats);
          ranks.broadcast(floats = new float[] {own}, 1, boot);
          assertArrayEquals(new float[] {1}, floats);
          assertArrayEquals(new float[] {0, 1, 2}, ranks.allgather(new float[] {own}));
          assertArrayEquals(new float[] {0, 0}, ranks.allgatherV(new float[own])[2]);
          float[] someFloats = ranks.reduceScatter(new float[] {1, 1, 1}, Reduction.SUM, NONE);
          assertArrayEquals(new float[] {3}, someFloats);

          long[] longs = {own, -own};
          ranks.allreduce(longs, Reduction.MIN);
          assertArrayEquals(new long[] {0, -2}, longs);
          ranks.allreduce(longs = new long[] {-own}, Element.U64, Reduction.MAX, NONE);
          assertArrayEquals(new long[] {-1}, longs, "the highest of those without a sign");
          ranks.broadcast(longs = new long[] {own}, 1);
          assertArrayEquals(new long[] {1}, longs);
          assertArrayEquals(new long[] {0, 1, 2}, ranks.allgather(new long[] {own}));
          assertEquals(2, ranks.allgatherV(new long[own])[2].length);
          long[] someLongs = ranks.reduceScatter(new long[] {7, 7, 7}, Reduction.SUM, NONE);
          assertArrayEquals(new long[] {21}, someLongs);

          int[] ints = {1 << own};
          ranks.allreduce(ints, Reduction.OR);
          assertArrayEquals(new int[] {7}, ints);
          ranks.broadcast(ints = new int[] {own}, 1);
          assertArrayEquals(new int[] {1}, ints);
          assertArrayEquals(new int[] {0, 1, 2}, ranks.allgather(new int[] {own}));
          assertEquals(2, ranks.allgatherV(new int[own])[2].length);
          int[] someInts = ranks.reduceScatter(new int[] {1, 1, 1}, Reduction.SUM, NONE);
          assertArrayEquals(new int[] {3}, someInts);

          short[] shorts = {(short) (own + 1)};
          ranks.allreduce(shorts, Reduction.PRODUCT);
          assertArrayEquals(new short[] {6}, shorts);
          short[] brains = {0x3F80};
          ranks.allreduce(brains, Element.BF16, Reduction.SUM, NONE);
          assertArrayEquals(new short[] {0x4040}, brains, "1 + 1 + 1 is 3");
          ranks.broadcast(shorts = new short[] {(short) own}, 1);
          assertArrayEquals(new short[] {1}, shorts);
          assertArrayEquals(new short[] {0, 1, 2}, ranks.allgather(new short[] {(short) own}));
          assertEquals(2, ranks.allgatherV(new short[own])[2].length);
          short[] halves = {0x3C00, 0x3C00, 0x3C00};
          short[] someHalves = ranks.reduceScatter(halves, Element.F16, Reduction.SUM, NONE);
          assertArrayEquals(new short[] {0x4200}, someHalves);

          byte[] bytes = {(byte) (100 + own)};
          ranks.allreduce(bytes, Element.U8, Reduction.MAX, NONE);
          assertArrayEquals(new byte[] {102}, bytes);
          ranks.allreduce(bytes = new byte[] {(byte) own}, Reduction.SUM);
          assertArrayEquals(new byte[] {3}, bytes);
          ranks.broadcast(bytes = new byte[] {(byte) own}, 1);
          assertArrayEquals(new byte[] {1}, bytes);
          assertArrayEquals(new byte[] {0, 1, 2}, ranks.allgather(new byte[] {(byte) own}));
          assertEquals(2, ranks.allgatherV(new byte[own])[2].length);
          byte[] someBytes = ranks.reduceScatter(new byte[] {1, 1, 1}, Reduction.SUM, NONE);
          assertArrayEquals(new byte[] {3}, someBytes);

          ranks.barrier(NONE.boot("met"));
          RejoinException misfit =
              assertThrows(
                  RejoinException.class,
                  () -> ranks.allreduce(new short[1], Element.F32, Reduction.SUM, NONE));
          assertEquals(RejoinException.Code.BAD_ARGUMENT, misfit.code());
          ranks.finish(new byte[0]);
        });
  }

  private static double[] filled(int own) {
    double[] values = new double[own];
    Arrays.fill(values, own);
    return values;
  }

  @Test
  void direct_buffers_of_every_element() throws Exception {
    all(
        ranks -> {
          for (Element element : Element.values()) {
            ByteBuffer ones = ones(element, 3);
            ByteBuffer part = memory(element.bytes());
            ranks.reduceScatter(ones, part, element, Reduction.SUM, NONE);
            ranks.allreduce(ones, element, Reduction.SUM, NONE);
            ByteBuffer three = ones.slice().order(ByteOrder.nativeOrder());
            three.limit(element.bytes());
            assertEquals(three, part, element + " in parts");
            assertEquals(3, value(element, ones), element.toString());
            ranks.broadcast(ones, element, 1, NONE);
            ByteBuffer gathered = memory(9 * element.bytes());
            ranks.allgather(ones, gathered, element, NONE);
            assertEquals(3, value(element, gathered), element.toString());
            ByteBuffer own = ones(element, ranks.rank());
            ByteBuffer[] parts = ranks.allgatherV(own, element, NONE);
            for (int each = 0; each < WORLD; each++) {
              assertEquals(each * element.bytes(), parts[each].remaining());
            }
            assertEquals(1, value(element, parts[2]), element.toString());
          }
          ranks.finish(new byte[0]);
        });
  }

  @Test
  void reducers_of_ones_own_from_left_to_right_over_parts_and_objects() throws Exception {
    Communicator.Fold digits =
        (left, right) -> {
          for (int at = 0; at < left.limit(); at += 8) {
            left.putLong(at, 10 * left.getLong(at) + right.getLong(at));
          }
        };
    all(
        ranks -> {
          ByteBuffer input = memory(8 * WORLD);
          for (int at = 0; at < WORLD; at++) {
            input.putLong(8 * at, ranks.rank() + 1);
          }
          ByteBuffer part = memory(8);
          ranks.reduceScatter(input, part, 8, "digits", digits, NONE);
          assertEquals(123, part.getLong(0));

          String[] words = {"no", "", "restart"};
          byte[] own = words[ranks.rank()].getBytes(StandardCharsets.UTF_8);
          byte[] all = ranks.allreduceObject(own, 20, "join", EveryCollectiveTest::joined, NONE);
          assertEquals("norestart", new String(all, StandardCharsets.UTF_8));
          RejoinException tooLong =
              assertThrows(
                  RejoinException.class,
                  () -> ranks.allreduceObject(new byte[21], 20, "join", (a, b) -> a, NONE));
          assertEquals(RejoinException.Code.BAD_ARGUMENT, tooLong.code());
          ranks.finish(new byte[0]);
        });
  }

  @Test
  void what_a_fold_of_objects_throws_is_the_cause_of_the_error() throws Exception {
    IllegalStateException bad = new IllegalStateException("can't be joined");
    Communicator.ObjectFold fold =
        (left, right) -> {
          throw bad;
        };
    List<Throwable> causes = Collections.synchronizedList(new ArrayList<>());
    all(
        ranks -> {
          RejoinException failure =
              assertThrows(
                  RejoinException.class,
                  () -> ranks.allreduceObject(new byte[1], 5, "bad", fold, NONE));
          assertEquals(RejoinException.Code.TRAINING_FAILED, failure.code());
          if (failure.getCause() != null) {
            causes.add(failure.getCause());
          }
        });
    assertTrue(!causes.isEmpty(), "one rank at least has called it");
    causes.forEach(cause -> assertSame(bad, cause));
  }

  private static byte[] joined(byte[] left, byte[] right) {
    byte[] both = Arrays.copyOf(left, left.length + right.length);
    System.arraycopy(right, 0, both, left.length, right.length);
    return both;
  }

  private static ByteBuffer memory(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  private static ByteBuffer ones(Element element, int count) {
    ByteBuffer buffer = memory(count * element.bytes());
    boolean little = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;
    for (int at = 0; at < buffer.limit(); at += element.bytes()) {
      switch (element) {
        case F16:
          buffer.putShort(at, (short) 0x3C00);
          break;
        case BF16:
          buffer.putShort(at, (short) 0x3F80);
          break;
        case F32:
          buffer.putFloat(at, 1);
          break;
        case F64:
          buffer.putDouble(at, 1);
          break;
        default:
          // The lowest byte of an integer.
          buffer.put(little ? at : at + element.bytes() - 1, (byte) 1);
      }
    }
    return buffer;
  }

  /** The first element, which is 1 or 3 for half precision. */
  private static double value(Element element, ByteBuffer buffer) {
    switch (element) {
      case F16:
        return buffer.getShort(0) == 0x4200 ? 3 : buffer.getShort(0) == 0x3C00 ? 1 : Double.NaN;
      case BF16:
        return buffer.getShort(0) == 0x4040 ? 3 : buffer.getShort(0) == 0x3F80 ? 1 : Double.NaN;
      case F32:
        return buffer.getFloat(0);
      case F64:
        return buffer.getDouble(0);
      case I8:
      case U8:
        return buffer.get(0);
      case I16:
      case U16:
        return buffer.getShort(0);
      case I32:
      case U32:
        return buffer.getInt(0);
      default:
        return buffer.getLong(0);
    }
  }
}

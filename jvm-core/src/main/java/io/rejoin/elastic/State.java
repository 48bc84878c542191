package io.rejoin.elastic;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * What a training goes on from: the values that it {@link #keep keeps}, which together are the
 * model of a checkpoint. Arrays are restored in place, so a program may hold on to them.
 *
 * <p>Values may differ between ranks before the training: where nothing is committed yet, all begin
 * with rank 0's. After each step they have to be equal at all ranks. All ranks keep the same values
 * in the same order, arrays of the same lengths. Numbers are arrays of one element.
 *
 * <pre>{@code
 * double[] mean = new double[1];
 * ElasticSampler sampler = new ElasticSampler(rows.length);
 * State state = new State().keep("mean", mean).keep("sampler", sampler);
 * Elastic.run("my program 1", state, ranks -> {
 *   while (sampler.epoch() < 3) {
 *     for (int[] mine : sampler.batches(ranks, 32)) {   // indices; empty at the tail
 *       double[] sums = sumsOf(rows, mine);
 *       ranks.allreduce(sums, Reduction.SUM);
 *       mean[0] += 0.1 * (sums[0] / sums[1] - mean[0]);
 *       state.commit();
 *     }
 *   }
 *   return mean[0];
 * });
 * }</pre>
 *
 * <p>One thread uses it, that of the program.
 */
public final class State {
  private final Map<String, Value> values = new LinkedHashMap<>();
  private final List<Runnable> callbacks = new ArrayList<>();
  private byte[] kept;
  private Communicator ranks;

  /** Keeps nothing yet. */
  public State() {}

  /**
   * Keeps a value under this name. Before the training begins.
   *
   * @return this
   * @throws RejoinException BAD_ARGUMENT for a name that is taken; BAD_STATE when the training has
   *     begun
   */
  public State keep(String name, Value value) {
    Objects.requireNonNull(value, "the value");
    if (ranks != null) {
      throw new RejoinException(
          Code.BAD_STATE, "the training has begun; keep " + name + " before it does");
    }
    if (values.putIfAbsent(name, value) != null) {
      throw new RejoinException(
          Code.BAD_ARGUMENT, "the state keeps a value " + name + " already; expected another name");
    }
    return this;
  }

  /** Keeps the elements of an array; else as {@link #keep(String, Value)}. */
  public State keep(String name, double[] array) {
    return keep(
        name,
        new Elements(
            name,
            array.length,
            Double.BYTES,
            into -> into.asDoubleBuffer().put(array),
            from -> from.asDoubleBuffer().get(array)));
  }

  /** Keeps the elements of an array; else as {@link #keep(String, Value)}. */
  public State keep(String name, float[] array) {
    return keep(
        name,
        new Elements(
            name,
            array.length,
            Float.BYTES,
            into -> into.asFloatBuffer().put(array),
            from -> from.asFloatBuffer().get(array)));
  }

  /** Keeps the elements of an array; else as {@link #keep(String, Value)}. */
  public State keep(String name, long[] array) {
    return keep(
        name,
        new Elements(
            name,
            array.length,
            Long.BYTES,
            into -> into.asLongBuffer().put(array),
            from -> from.asLongBuffer().get(array)));
  }

  /** Keeps the elements of an array; else as {@link #keep(String, Value)}. */
  public State keep(String name, int[] array) {
    return keep(
        name,
        new Elements(
            name,
            array.length,
            Integer.BYTES,
            into -> into.asIntBuffer().put(array),
            from -> from.asIntBuffer().get(array)));
  }

  /**
   * Ends the version: what is done until here is done, whoever comes or goes. At all ranks at the
   * same point. It is where the world may change: no other call looks for hosts that come or go,
   * and this one asks nobody for that.
   *
   * @throws RejoinException as {@link Communicator#checkpoint(byte[])}: RESIZED or ROLLED_BACK,
   *     too, which the program lets through; BAD_STATE outside of {@link Elastic#run}
   */
  public void commit() {
    if (ranks == null) {
      throw new RejoinException(
          Code.BAD_STATE, "a state is committed within Elastic.run, by the program that it calls");
    }
    byte[] now = encoded();
    ranks.checkpoint(now);
    kept = now;
  }

  /**
   * Puts back what was committed last (at the beginning: what all have begun with). Of this rank
   * alone.
   *
   * @throws RejoinException BAD_STATE before the training has begun
   */
  public void restore() {
    if (kept == null) {
      throw new RejoinException(
          Code.BAD_STATE, "nothing was kept yet: a state is restored within Elastic.run");
    }
    decode(kept);
  }

  /**
   * All ranks take rank 0's values, as they are there now, at all ranks at the same point. It is an
   * ordinary collective: a rank that is started again in the same version gets the same values.
   * Where nothing is committed yet it is done once before the program is called. What {@link
   * #restore} puts back stays what was committed last.
   *
   * @throws RejoinException as {@link Communicator#broadcast(byte[], int)}; INCOMPATIBLE where rank
   *     0 has other values, or arrays of other lengths; BAD_STATE outside of {@link Elastic#run}
   */
  public void sync() {
    if (ranks == null) {
      throw new RejoinException(
          Code.BAD_STATE, "a state is synced within Elastic.run, by the program that it calls");
    }
    decode(ofRank0());
  }

  /**
   * Calls this, with the newest commit restored, each time that the program begins again in this
   * process, and where it begins in another world than that which made the newest commit: so a
   * process that comes calls it as those do that stay. What it changes has to follow from the state
   * and the world, and it makes no collective calls.
   *
   * @return this
   */
  public State onReset(Runnable callback) {
    callbacks.add(Objects.requireNonNull(callback, "the callback"));
    return this;
  }

  /** The program's end, from wherever the job is; empty when the job was over. */
  <T> Optional<T> train(Communicator joined, Elastic.Program<T> program) throws Exception {
    Supplier<Optional<Communicator>> next = () -> Optional.of(joined);
    byte[] beginning = encoded();
    for (boolean again = false; ; again = true) {
      Optional<Communicator> there = next.get();
      if (there.isEmpty()) {
        return Optional.empty();
      }
      Communicator now = there.get();
      ranks = now;
      try {
        Optional<byte[]> committed = now.load().model();
        kept = committed.orElse(beginning);
        restore();
        if (again || now.former().isPresent()) {
          callbacks.forEach(Runnable::run);
        }
        if (committed.isEmpty()) {
          beginning = ofRank0();
          kept = beginning;
          restore();
        }
        T result = program.run(now);
        now.finish(encoded());
        now.close();
        return Optional.ofNullable(result);
      } catch (RejoinException failure) {
        if (failure.code() != Code.RESIZED && failure.code() != Code.ROLLED_BACK) {
          now.close();
          throw failure;
        }
      } catch (Exception | Error failure) {
        now.close();
        throw failure;
      }
      next = now::joinAgain;
    }
  }

  /**
   * Rank 0's values. A rank 0 that dies on the way may come back with other ones, of another
   * length; the others hear of that by the length, which goes with each try.
   */
  private byte[] ofRank0() {
    byte[] own = ranks.rank() == 0 ? encoded() : new byte[0];
    for (int length = 0; ; ) {
      ByteBuffer content = ByteBuffer.allocate(Math.addExact(Integer.BYTES, length));
      content.putInt(own.length);
      if (own.length == length) {
        content.put(own);
      }
      ranks.broadcast(content.array(), 0);
      int said = content.getInt(0);
      if (said == length) {
        return Arrays.copyOfRange(content.array(), Integer.BYTES, content.capacity());
      }
      length = said;
    }
  }

  /** All values, with their names. */
  byte[] encoded() {
    Map<byte[], byte[]> parts = new LinkedHashMap<>();
    int length = 0;
    for (Map.Entry<String, Value> value : values.entrySet()) {
      byte[] name = value.getKey().getBytes(StandardCharsets.UTF_8);
      byte[] saved = value.getValue().save();
      parts.put(name, saved);
      length = Math.addExact(length, 2 * Integer.BYTES + name.length + saved.length);
    }
    ByteBuffer into = ByteBuffer.allocate(length);
    parts.forEach(
        (name, saved) -> into.putInt(name.length).put(name).putInt(saved.length).put(saved));
    return into.array();
  }

  /** Puts them back. */
  void decode(byte[] state) {
    ByteBuffer from = ByteBuffer.wrap(state);
    try {
      for (Map.Entry<String, Value> value : values.entrySet()) {
        String name = new String(part(from), StandardCharsets.UTF_8);
        if (!name.equals(value.getKey())) {
          throw other("a value " + name + " where " + value.getKey() + " is expected");
        }
        value.getValue().restore(part(from));
      }
    } catch (BufferUnderflowException | NegativeArraySizeException cut) {
      throw other("no more values where others are expected");
    }
    if (from.hasRemaining()) {
      throw other("more values than this one keeps");
    }
  }

  private static byte[] part(ByteBuffer from) {
    int length = from.getInt();
    if (length > from.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] part = new byte[length];
    from.get(part);
    return part;
  }

  private static RejoinException other(String seen) {
    return new RejoinException(
        Code.INCOMPATIBLE,
        "the job's state has "
            + seen
            + "; it was committed by another program: keep the same values in the same order, and"
            + " say in the terms when they change");
  }

  /** What moves an array's elements to bytes, or back. */
  @FunctionalInterface
  private interface Move {
    void of(ByteBuffer bytes);
  }

  /** An array. */
  private static final class Elements implements Value {
    private final String name;
    private final int bytes;
    private final Move put;
    private final Move get;

    Elements(String name, int count, int size, Move put, Move get) {
      this.name = name;
      this.bytes = Math.multiplyExact(count, size);
      this.put = put;
      this.get = get;
    }

    @Override
    public byte[] save() {
      ByteBuffer into = ByteBuffer.allocate(bytes);
      put.of(into);
      return into.array();
    }

    @Override
    public void restore(byte[] saved) {
      if (saved.length != bytes) {
        throw other("an array " + name + " of " + saved.length + " bytes, not of " + bytes);
      }
      get.of(ByteBuffer.wrap(saved));
    }
  }
}

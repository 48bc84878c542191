package io.rejoin.elastic;

import io.rejoin.Communicator;
import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.SplittableRandom;

/**
 * Deals the samples 0 to {@code size} - 1 out, batch by batch, each of them once in an epoch.
 *
 * <p>Where it stands is the epoch and how many samples of it were dealt out, the same at all ranks.
 * So another world goes on exactly there: no sample is lost, and none is dealt out again that is in
 * a committed state ({@link State#keep(String, Value)}). Nothing is padded. The size, the seed and
 * whether it shuffles belong to its state: a rank that differs in one of them ends with
 * BAD_ARGUMENT when it restores what the others have.
 */
public final class ElasticSampler implements Value {
  /** The bytes of a size, a seed, and whether it shuffles. */
  private static final int DEALT = Integer.BYTES + Long.BYTES + 1;

  private final int size;
  private final long seed;
  private final boolean shuffle;
  private int epoch;
  private int done;

  /** Each epoch in another order, of the seed 0. */
  public ElasticSampler(int size) {
    this(size, 0, true);
  }

  /**
   * @param size the number of samples, at least 1
   * @param seed of the epochs' orders
   * @param shuffle whether each epoch has an order of its own; otherwise samples come as they are
   *     numbered
   * @throws RejoinException BAD_ARGUMENT for no samples
   */
  public ElasticSampler(int size, long seed, boolean shuffle) {
    this.size = atLeastOne("size", size);
    this.seed = seed;
    this.shuffle = shuffle;
  }

  /** The number of samples. */
  public int size() {
    return size;
  }

  /** How many epochs were dealt out. */
  public int epoch() {
    return epoch;
  }

  /** How many samples of the present epoch were dealt out. */
  public int done() {
    return done;
  }

  /**
   * The indices of this rank's samples, at most {@code batch} at a time, to the end of the epoch,
   * from where the sampler stands when it is iterated over.
   *
   * <p>All ranks get as many arrays; at the tail some have fewer indices, or none: so weigh what
   * you sum by how many there are. A batch counts as dealt out when it is given: commit when its
   * work is done.
   *
   * @throws RejoinException BAD_ARGUMENT for a batch of no samples
   */
  public Iterable<int[]> batches(Communicator ranks, int batch) {
    return batches(ranks.rank(), ranks.world(), batch);
  }

  Iterable<int[]> batches(int rank, int world, int batch) {
    atLeastOne("batch", batch);
    return () -> new Batches(order(), rank, world, batch);
  }

  @Override
  public byte[] save() {
    ByteBuffer saved = ByteBuffer.allocate(DEALT + 2 * Integer.BYTES).put(dealt());
    return saved.putInt(epoch).putInt(done).array();
  }

  /**
   * {@inheritDoc}
   *
   * @throws RejoinException BAD_ARGUMENT for the state of a sampler of another size, seed or
   *     shuffle, which has dealt other samples out
   */
  @Override
  public void restore(byte[] saved) {
    ByteBuffer from = ByteBuffer.wrap(saved);
    byte[] theirs = new byte[DEALT];
    if (saved.length == DEALT + 2 * Integer.BYTES) {
      from.get(theirs);
    }
    if (!Arrays.equals(theirs, dealt())) {
      ByteBuffer was = ByteBuffer.wrap(theirs);
      throw new RejoinException(
          Code.BAD_ARGUMENT,
          "the state is of an ElasticSampler of "
              + described(was.getInt(), was.getLong(), was.get() == 1)
              + ", this one is of "
              + described(size, seed, shuffle)
              + ": its samples were dealt out in another order. Make it as it was made then");
    }
    epoch = from.getInt();
    done = from.getInt();
  }

  /** What decides which samples are dealt out. */
  private byte[] dealt() {
    return ByteBuffer.allocate(DEALT)
        .putInt(size)
        .putLong(seed)
        .put((byte) (shuffle ? 1 : 0))
        .array();
  }

  private static String described(int size, long seed, boolean shuffle) {
    return size + " samples with the seed " + seed + (shuffle ? ", shuffled" : ", not shuffled");
  }

  /** The order of the present epoch's samples: of the seed and the epoch, on any JVM. */
  private int[] order() {
    int[] order = new int[size];
    Arrays.setAll(order, index -> index);
    // The next seed's epochs are no others of this one's.
    SplittableRandom random = new SplittableRandom(new SplittableRandom(seed).nextLong() + epoch);
    for (int left = size; shuffle && left > 1; left--) {
      int drawn = random.nextInt(left);
      int other = order[left - 1];
      order[left - 1] = order[drawn];
      order[drawn] = other;
    }
    return order;
  }

  private static int atLeastOne(String what, int number) {
    if (number < 1) {
      throw new RejoinException(
          Code.BAD_ARGUMENT, what + " is " + number + "; expected at least 1");
    }
    return number;
  }

  private final class Batches implements Iterator<int[]> {
    private final int[] order;
    private final int rank;
    private final int world;
    private final int batch;
    private boolean isOver;

    Batches(int[] order, int rank, int world, int batch) {
      this.order = order;
      this.rank = rank;
      this.world = world;
      this.batch = batch;
    }

    @Override
    public boolean hasNext() {
      return !isOver;
    }

    @Override
    public int[] next() {
      if (isOver) {
        throw new NoSuchElementException("the epoch is over");
      }
      // Numbers may be beyond the samples, and beyond an int.
      int begin = (int) Math.min(size, done + (long) rank * batch);
      int end = (int) Math.min(size, begin + (long) batch);
      done = (int) Math.min(size, done + (long) world * batch);
      if (done == size) {
        isOver = true;
        epoch++;
        done = 0;
      }
      return Arrays.copyOfRange(order, begin, end);
    }
  }
}

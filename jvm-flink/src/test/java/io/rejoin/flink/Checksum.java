package io.rejoin.flink;

import io.rejoin.Communicator;
import io.rejoin.Reduction;
import java.nio.ByteBuffer;
import java.util.List;

/** How many rows were trained on, their sum, and a digest of which were where in which batch. */
class Checksum implements TrainerFunction<Long, long[]> {
  private static final long serialVersionUID = 1L;

  static final int ROWS = 0;
  static final int SUM = 1;
  private static final int DIGEST = 2;

  @Override
  public long[] open(TrainerContext context) throws Exception {
    return new long[3];
  }

  @Override
  public long[] onBatch(List<Long> batch, Communicator ranks, long[] model) throws Exception {
    long[] sums = new long[2 + ranks.world()];
    for (long row : batch) {
      sums[ROWS]++;
      sums[SUM] += row;
      sums[2 + ranks.rank()] = 31 * sums[2 + ranks.rank()] + row;
    }
    ranks.allreduce(sums, Reduction.SUM);
    model[ROWS] += sums[ROWS];
    model[SUM] += sums[SUM];
    for (int rank = 0; rank < ranks.world(); rank++) {
      model[DIGEST] = 1_000_003 * model[DIGEST] + sums[2 + rank];
    }
    return model;
  }

  @Override
  public byte[] write(long[] model) {
    ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES * model.length);
    bytes.asLongBuffer().put(model);
    return bytes.array();
  }

  @Override
  public long[] read(byte[] bytes) {
    long[] model = new long[bytes.length / Long.BYTES];
    ByteBuffer.wrap(bytes).asLongBuffer().get(model);
    return model;
  }
}

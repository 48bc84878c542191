package io.rejoin.flink;

import java.io.Serializable;
import java.util.Arrays;

/**
 * The model of a version, as it goes downstream; a POJO to Flink. Within one attempt of rank 0's
 * task versions grow. After a recovery some may come again, with equal bytes.
 */
public final class TrainedModel implements Serializable {
  private static final long serialVersionUID = 1L;

  private String job = "";
  private int version;
  private boolean last;
  private byte[] bytes = {};

  /** An empty one, for Flink's serializer. */
  public TrainedModel() {}

  /** The model of a version. */
  public TrainedModel(String job, int version, boolean last, byte[] bytes) {
    this.job = job;
    this.version = version;
    this.last = last;
    this.bytes = bytes;
  }

  /** Flink's job id, 32 hexadecimal digits. */
  public String getJob() {
    return job;
  }

  /** Sets the job. */
  public void setJob(String job) {
    this.job = job;
  }

  /** How many batches all ranks together have trained on. */
  public int getVersion() {
    return version;
  }

  /** Sets the version. */
  public void setVersion(int version) {
    this.version = version;
  }

  /** Whether all inputs have ended and no other version follows. */
  public boolean isLast() {
    return last;
  }

  /** Sets whether it is the last one. */
  public void setLast(boolean last) {
    this.last = last;
  }

  /** What {@link TrainerFunction#write} has made of it. */
  public byte[] getBytes() {
    return bytes;
  }

  /** Sets the bytes. */
  public void setBytes(byte[] bytes) {
    this.bytes = bytes;
  }

  /** The model itself. */
  public <M> M read(TrainerFunction<?, M> trainer) throws Exception {
    return trainer.read(bytes);
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof TrainedModel)) {
      return false;
    }
    TrainedModel that = (TrainedModel) other;
    return job.equals(that.job)
        && version == that.version
        && last == that.last
        && Arrays.equals(bytes, that.bytes);
  }

  @Override
  public int hashCode() {
    return 31 * version + Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return "version " + version + (last ? " (last)" : "") + " of job " + job;
  }
}

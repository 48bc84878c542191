package io.rejoin.flink;

import java.io.Serializable;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.TypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInfoFactory;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;

/**
 * What {@link RejoinXGBoost} has trained, as it goes downstream; a POJO to Flink. {@code
 * XGBoost.loadModel(model.getBytes())} makes a Booster of it.
 */
@TypeInfo(XgboostModel.Factory.class)
public final class XgboostModel implements Serializable {
  private static final long serialVersionUID = 1L;

  private String job = "";
  private int rounds;
  private Map<String, float[]> metrics = new TreeMap<>();
  private byte[] bytes = {};

  /** An empty one, for Flink's serializer. */
  public XgboostModel() {}

  /** What a job has trained. */
  public XgboostModel(String job, int rounds, Map<String, float[]> metrics, byte[] bytes) {
    this.job = job;
    this.rounds = rounds;
    this.metrics = metrics;
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

  /** How many rounds were trained: as many as wanted, or fewer after an early stop. */
  public int getRounds() {
    return rounds;
  }

  /** Sets the number of rounds. */
  public void setRounds(int rounds) {
    this.rounds = rounds;
  }

  /**
   * The evaluation metric after each round, of {@code train} and, where there is one, {@code eval}.
   */
  public Map<String, float[]> getMetrics() {
    return metrics;
  }

  /** Sets the metrics. */
  public void setMetrics(Map<String, float[]> metrics) {
    this.metrics = metrics;
  }

  /** The model in XGBoost's format {@code ubj}. */
  public byte[] getBytes() {
    return bytes;
  }

  /** Sets the bytes. */
  public void setBytes(byte[] bytes) {
    this.bytes = bytes;
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof XgboostModel)) {
      return false;
    }
    XgboostModel that = (XgboostModel) other;
    return job.equals(that.job)
        && rounds == that.rounds
        && metrics.keySet().equals(that.metrics.keySet())
        && metrics.entrySet().stream()
            .allMatch(e -> Arrays.equals(e.getValue(), that.metrics.get(e.getKey())))
        && Arrays.equals(bytes, that.bytes);
  }

  @Override
  public int hashCode() {
    return 31 * rounds + Arrays.hashCode(bytes);
  }

  @Override
  public String toString() {
    return "model of " + rounds + " rounds, " + bytes.length + " bytes, of job " + job;
  }

  /** How Flink serializes it: without the factory some releases take the map for a generic type. */
  public static final class Factory extends TypeInfoFactory<XgboostModel> {
    @Override
    public TypeInformation<XgboostModel> createTypeInfo(
        Type type, Map<String, TypeInformation<?>> parameters) {
      return Types.POJO(
          XgboostModel.class,
          Map.of(
              "job",
              Types.STRING,
              "rounds",
              Types.INT,
              "metrics",
              Types.MAP(Types.STRING, Types.PRIMITIVE_ARRAY(Types.FLOAT)),
              "bytes",
              Types.PRIMITIVE_ARRAY(Types.BYTE)));
    }
  }
}

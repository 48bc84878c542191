package io.rejoin.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.rejoin.RejoinException;
import java.io.IOException;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.Estimator;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.ml.util.MLWritable;
import org.apache.spark.ml.util.MLWriter;

/**
 * A saved {@link RejoinEstimator}: metadata as Spark ML has it, so that pipelines find the class,
 * and the stock estimator as it saves itself.
 */
final class RejoinEstimatorStorage {
  private static final String STOCK = "stock";

  private RejoinEstimatorStorage() {}

  /** Writes the stock estimator with its parameters, and Rejoin's settings beside it. */
  static final class Writer extends MLWriter {
    private final RejoinEstimator<?> estimator;

    Writer(RejoinEstimator<?> estimator) {
      this.estimator = estimator;
    }

    @Override
    public void saveImpl(String path) {
      ObjectNode metadata = new ObjectMapper().createObjectNode();
      metadata.put("class", RejoinEstimator.class.getName());
      metadata.put("timestamp", System.currentTimeMillis());
      metadata.put("sparkVersion", sc().version());
      metadata.put("uid", estimator.uid());
      metadata.putObject("paramMap");
      metadata.putObject("defaultParamMap");
      metadata.put("stockClass", estimator.stock().getClass().getName());
      List<String> line = Collections.singletonList(metadata.toString());
      JavaSparkContext.fromSparkContext(sc())
          .parallelize(line, 1)
          .saveAsTextFile(new Path(path, "metadata").toString());
      try {
        ((MLWritable) estimator.stock()).write().save(new Path(path, STOCK).toString());
      } catch (IOException e) {
        throw new RejoinException(
            RejoinException.Code.IO, "the stock estimator can't be saved below " + path, e);
      }
    }
  }

  /** Reads what {@link Writer} has written. */
  static final class Reader extends MLReader<RejoinEstimator<?>> {
    @Override
    public RejoinEstimator<?> load(String path) {
      String line =
          JavaSparkContext.fromSparkContext(sc())
              .textFile(new Path(path, "metadata").toString(), 1)
              .first();
      try {
        JsonNode metadata = new ObjectMapper().readTree(line);
        Class<?> stock =
            Class.forName(
                metadata.get("stockClass").asText(),
                true,
                Thread.currentThread().getContextClassLoader());
        MLReader<?> reader = (MLReader<?>) stock.getMethod("read").invoke(null);
        return around(reader.load(new Path(path, STOCK).toString()));
      } catch (IOException | ReflectiveOperationException e) {
        throw new RejoinException(
            RejoinException.Code.INCOMPATIBLE,
            path + " holds no estimator that this version can read",
            e);
      }
    }

    @SuppressWarnings({"rawtypes", "unchecked"})
    private static RejoinEstimator<?> around(Object stock) {
      return new RejoinEstimator((Estimator) stock);
    }
  }
}

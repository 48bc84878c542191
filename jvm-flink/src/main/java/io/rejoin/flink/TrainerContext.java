package io.rejoin.flink;

import java.util.Map;
import org.apache.flink.metrics.MetricGroup;

/** Where a {@link TrainerFunction} runs. */
public interface TrainerContext {
  /** The number of this rank, from 0: the index of its subtask. */
  int rank();

  /** How many ranks train: the parallelism of the operator. */
  int world();

  /** The job's global parameters, which every subtask has. */
  Map<String, String> parameters();

  /** Metrics of this subtask, for the function's own. */
  MetricGroup metrics();
}

package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.Test;

class ExecutorMemoryTest {
  private static final long MB = 1 << 20;

  private final SparkConf conf = new SparkConf(false);

  private ExecutorMemory of(String master, long pageMegabytes, int ranks) {
    long matrix = ExecutorMemory.matrixBytes(pageMegabytes * MB);
    return ExecutorMemory.of(conf, master, matrix, 256 * MB - 1, ranks);
  }

  private String advice(long pageMegabytes, int ranks) {
    return of("yarn", pageMegabytes, ranks).tooLittle().orElse("enough");
  }

  @Test
  void matrices_of_all_ranks_of_an_executor_logs_and_the_jvm_are_counted() {
    String account = of("yarn", 100, 2).account();
    assertTrue(account.contains("957 MB beside its heap"), account);
    assertTrue(account.contains("501 for the matrices of 2"), account);
    assertTrue(account.contains("256 of logs (spark.rejoin.log.memory)"), account);
  }

  @Test
  void a_container_that_has_less_is_told_with_what_to_set() {
    assertTrue(advice(100, 1).contains("has 384 MB"), advice(100, 1));
    assertTrue(advice(100, 1).contains("by default"), advice(100, 1));
    assertTrue(
        advice(100, 1).contains("set spark.executor.memoryOverhead to 707m"), advice(100, 1));
    conf.set("spark.executor.memoryOverhead", "706m");
    assertTrue(advice(100, 1).contains("has 706 MB"), advice(100, 1));
    conf.set("spark.executor.memoryOverhead", "707");
    assertEquals("enough", advice(100, 1));
  }

  @Test
  void the_default_overhead_is_a_share_of_the_heap() {
    conf.set("spark.executor.memory", "8g");
    assertEquals("enough", advice(100, 1));
    conf.set("spark.executor.memoryOverheadFactor", "0.05");
    assertTrue(advice(100, 1).contains("has 409 MB"), advice(100, 1));
  }

  @Test
  void executors_that_are_no_containers_have_no_limit() {
    assertEquals(Optional.empty(), of("spark://here:7077", 10_000, 1).tooLittle());
    assertTrue(of("k8s://https://there", 10_000, 1).tooLittle().isPresent());
  }
}

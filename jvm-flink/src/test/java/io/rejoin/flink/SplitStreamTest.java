package io.rejoin.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.SerializedThrowable;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Rows that are numbered by split, on Flink in one process: the same model whatever happens
 * meanwhile.
 */
@Timeout(600)
class SplitStreamTest {
  private static final int FILES = 8;
  private static final int LAST = 40_000;
  // Every third number is filtered out.
  private static final long[] EXPECTED = {
    LAST - LAST / 3, LongStream.rangeClosed(1, LAST).filter(n -> n % 3 != 0).sum()
  };

  @TempDir static Path directory;

  /** Files of very different lengths. */
  @BeforeAll
  static void write() throws Exception {
    Path files = Files.createDirectory(directory.resolve("files"));
    long first = 1;
    for (int file = 0; file < FILES; file++) {
      long last = file == FILES - 1 ? LAST : first + (file * 7 % 5 + 1) * 1_500L;
      Files.writeString(
          files.resolve("part-" + file),
          LongStream.rangeClosed(first, last)
              .mapToObj(Long::toString)
              .collect(Collectors.joining("\n", "", "\n")));
      first = last + 1;
    }
  }

  private static SplitStream<Long> files(StreamExecutionEnvironment environment) {
    org.apache.flink.core.fs.Path files =
        new org.apache.flink.core.fs.Path(directory.resolve("files").toUri());
    return Rejoin.source(
            environment,
            FileSource.forRecordStreamFormat(new TextLineInputFormat(), files).build(),
            WatermarkStrategy.noWatermarks(),
            "files")
        .uid("files")
        .map(Long::valueOf, Types.LONG)
        .uid("numbers")
        .filter(number -> number % 3 != 0)
        .uid("not of three");
  }

  private static SplitStream<Long> numbers(StreamExecutionEnvironment environment) {
    return Rejoin.source(
            environment,
            new NumberSequenceSource(1, LAST),
            WatermarkStrategy.noWatermarks(),
            "numbers")
        .uid("numbers")
        .filter(number -> number % 3 != 0)
        .uid("not of three");
  }

  private static void assertEachRowIsTrainedOnce(long[] model) {
    assertEquals(EXPECTED[0], model[Checksum.ROWS], "rows");
    assertEquals(EXPECTED[1], model[Checksum.SUM], "sum");
  }

  @Test
  void files_give_the_same_model_whoever_is_late() throws Exception {
    long[] undisturbed = new SplitJob(3).run(SplitStreamTest::files);
    assertEachRowIsTrainedOnce(undisturbed);
    for (int late = 0; late < 3; late++) {
      assertArrayEquals(undisturbed, new SplitJob(3).slow(late).run(SplitStreamTest::files));
    }
  }

  @Test
  void numbers_give_the_same_model_whoever_is_late() throws Exception {
    long[] undisturbed = new SplitJob(3).run(SplitStreamTest::numbers);
    assertEachRowIsTrainedOnce(undisturbed);
    for (int late = 0; late < 3; late++) {
      assertArrayEquals(undisturbed, new SplitJob(3).slow(late).run(SplitStreamTest::numbers));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "50ms"})
  void a_subtask_that_fails_comes_back_to_its_own_splits_with_checkpoints_and_without(
      String interval) throws Exception {
    long[] undisturbed = new SplitJob(3).run(SplitStreamTest::files);
    SplitJob job = new SplitJob(3).slow(0).failing(1, 6_000);
    if (!interval.isEmpty()) {
      job.set("execution.checkpointing.interval", interval);
    }
    assertArrayEquals(undisturbed, job.run(SplitStreamTest::files));
    assertEquals(Map.of(0, 1, 1, 2, 2, 1), job.attempts);
  }

  @Test
  void a_training_goes_on_at_other_parallelisms_with_each_row_once() throws Exception {
    SplitJob three = new SplitJob(3);
    String first = three.stop(60, directory, SplitStreamTest::files);
    SplitJob two = new SplitJob(2).from(first);
    String second = two.stop(60, directory, SplitStreamTest::files);
    assertTrue(two.begun.get() > 0, "training went on from " + two.begun.get() + " rows");
    assertTrue(three.read.get() > two.begun.get(), "rows waited in the operator");
    SplitJob four = new SplitJob(4).from(second);
    long[] model = four.run(SplitStreamTest::files);
    assertTrue(four.begun.get() > two.begun.get(), "training went on");
    assertEachRowIsTrainedOnce(model);
    assertArrayEquals(model, new SplitJob(4).slow(3).from(second).run(SplitStreamTest::files));
    assertArrayEquals(model, new SplitJob(4).opensLate().from(second).run(SplitStreamTest::files));
    int failed = 0;
    for (int failing = 0; failing < 4; failing++) {
      SplitJob again = new SplitJob(4).slow(failing).failing(failing, 300).from(second);
      again.set("execution.checkpointing.interval", "50ms");
      assertArrayEquals(model, again.run(SplitStreamTest::files), "rank " + failing + " fails");
      failed += again.attempts.get(failing) - 1;
    }
    // A rank that has hardly any rows left doesn't come to the one at which it fails.
    assertTrue(failed >= 2, failed + " ranks failed");
  }

  private static RejoinException refusal(Executable run) {
    Throwable failure = assertThrows(Exception.class, run);
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      Throwable own = cause;
      if (own instanceof SerializedThrowable) {
        own = ((SerializedThrowable) own).deserializeError(RejoinException.class.getClassLoader());
      }
      if (own instanceof RejoinException) {
        return (RejoinException) own;
      }
    }
    throw new AssertionError("no RejoinException", failure);
  }

  @Test
  void rows_that_are_others_the_second_time_end_the_job_as_a_mismatch() {
    SplitJob job = new SplitJob(3).failing(1, 6_000).otherTheSecondTime();
    RejoinException refusal = refusal(() -> job.run(SplitStreamTest::files));
    assertEquals(RejoinException.Code.MISMATCH, refusal.code());
    assertEquals(2, job.attempts.get(1), "it is no use to try again");
  }

  @Test
  void rows_without_numbers_are_refused_at_another_parallelism_with_both_numbers()
      throws Exception {
    String savepoint = new SplitJob(3).plain().stop(30, directory, SplitStreamTest::files);
    SplitJob two = new SplitJob(2).plain().from(savepoint);
    RejoinException refusal = refusal(() -> two.run(SplitStreamTest::files));
    assertEquals(RejoinException.Code.BAD_ARGUMENT, refusal.code());
    assertTrue(refusal.text().contains("written by 3 subtasks"), refusal.text());
    assertTrue(refusal.text().contains("restored by 2"), refusal.text());
    assertTrue(refusal.text().contains("Rejoin.source"), refusal.text());
    assertEquals(-1, two.begun.get(), "nothing was trained");
    SplitJob numbered = new SplitJob(3).from(savepoint);
    RejoinException other = refusal(() -> numbered.run(SplitStreamTest::files));
    assertTrue(other.text().contains("written without numbers of splits"), other.text());
    assertEquals(-1, numbered.begun.get(), "nothing was trained");
  }
}

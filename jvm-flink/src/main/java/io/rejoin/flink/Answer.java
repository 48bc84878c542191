package io.rejoin.flink;

import io.rejoin.GangTask;
import io.rejoin.RejoinException;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.streaming.api.operators.collect.CollectCoordinationResponse;
import org.apache.flink.util.InstantiationUtil;

/** What the coordinator answers to a rank. */
final class Answer implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Flink takes answers of 10 MiB by default, and fails the task with longer ones. */
  private static final int MOST_RESULT_BYTES = 1 << 20;

  /** What the rank is to do. */
  enum Kind {
    /** Ask again soon. */
    WAIT,
    /** Take part in this gang. */
    JOIN,
    /** Nothing is left to train; here is a part of the result. */
    OVER,
    /** Flink is about to stop the job with a savepoint: nobody's input may wait. */
    STOPPING,
    /** Flink stops the job with a savepoint: end the task without a last model. */
    STOPPED,
    /** End the task with this error. */
    FAIL
  }

  final Kind kind;

  /** Whom it waits for, or why it has to fail. */
  final String text;

  /** With which code it has to fail. */
  final RejoinException.Code code;

  /** The number of the gang, from 1. */
  final int gang;

  /** How to take part. */
  final GangTask task;

  /** The version that the gang began with, whose state those who have it hand over; 0 for none. */
  final int version;

  /** What the rows of its ranks are; null where these are still to come. */
  final GangRows rows;

  /** What {@link Offer#read} said of each restored rank when the gang began. */
  final List<byte[]> read;

  /** How long the result is, when all is over; 0 for a rank that needs none. */
  final int resultBytes;

  /** The bytes of it that were asked for, or the first ones of these. */
  final byte[] result;

  private Answer(
      Kind kind,
      String text,
      RejoinException.Code code,
      int gang,
      GangTask task,
      int version,
      GangRows rows,
      List<byte[]> read,
      int resultBytes,
      byte[] result) {
    this.kind = kind;
    this.text = text;
    this.code = code;
    this.gang = gang;
    this.task = task;
    this.version = version;
    this.rows = rows;
    this.read = read;
    this.resultBytes = resultBytes;
    this.result = result;
  }

  static Answer await(String whom) {
    return new Answer(Kind.WAIT, whom, null, 0, null, 0, null, List.of(), 0, null);
  }

  static Answer fail(RejoinException.Code code, String why) {
    return new Answer(Kind.FAIL, why, code, 0, null, 0, null, List.of(), 0, null);
  }

  /** With the part of the result from a byte on; negative: with none. */
  static Answer over(byte[] result, int from) {
    byte[] part = {};
    if (from >= 0) {
      int to = Math.min(result.length, from + MOST_RESULT_BYTES);
      part = Arrays.copyOfRange(result, from, to);
    }
    int bytes = from < 0 ? 0 : result.length;
    return new Answer(Kind.OVER, "", null, 0, null, 0, null, List.of(), bytes, part);
  }

  static Answer stopped() {
    return new Answer(Kind.STOPPED, "", null, 0, null, 0, null, List.of(), 0, null);
  }

  static Answer stopping() {
    return new Answer(Kind.STOPPING, "", null, 0, null, 0, null, List.of(), 0, null);
  }

  static Answer join(int gang, GangTask task, int version, GangRows rows, List<byte[]> read) {
    return new Answer(Kind.JOIN, "", null, gang, task, version, rows, read, 0, null);
  }

  /**
   * Flink reads a response by its own class loader, which doesn't know the job's classes. So it
   * travels as bytes in a class of Flink's.
   */
  CoordinationResponse wrapped() {
    try {
      DataOutputSerializer out = new DataOutputSerializer(256);
      BytePrimitiveArraySerializer.INSTANCE.serialize(InstantiationUtil.serializeObject(this), out);
      return new CollectCoordinationResponse("rejoin", 0, List.of(out.getCopyOfBuffer()));
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  static Answer unwrapped(CoordinationResponse response, ClassLoader loader)
      throws IOException, ClassNotFoundException {
    byte[] bytes =
        ((CollectCoordinationResponse) response)
            .getResults(BytePrimitiveArraySerializer.INSTANCE)
            .get(0);
    return InstantiationUtil.deserializeObject(bytes, loader);
  }
}

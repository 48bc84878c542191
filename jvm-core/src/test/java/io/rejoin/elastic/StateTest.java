package io.rejoin.elastic;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rejoin.RejoinException;
import io.rejoin.RejoinException.Code;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** What a state refuses; what it keeps is tested by ranks under {@code rejoin run}. */
class StateTest {
  private static void refused(Code code, String says, Runnable wrong) {
    RejoinException error = assertThrows(RejoinException.class, wrong::run);
    assertEquals(code, error.code());
    assertTrue(error.getMessage().contains(says), error.getMessage());
  }

  @Test
  void a_name_is_kept_once() {
    State state = new State().keep("epoch", new long[1]);
    refused(Code.BAD_ARGUMENT, "a value epoch already", () -> state.keep("epoch", new int[1]));
  }

  @Test
  void arrays_are_put_back_in_place_and_values_by_themselves() {
    double[] doubles = {1.5, Double.NaN};
    float[] floats = {2.5f};
    long[] longs = {Long.MIN_VALUE, 3};
    int[] ints = {-4};
    ElasticSampler sampler = new ElasticSampler(10, 0, false);
    State state =
        new State()
            .keep("doubles", doubles)
            .keep("floats", floats)
            .keep("longs", longs)
            .keep("ints", ints)
            .keep("sampler", sampler);
    sampler.batches(0, 1, 4).iterator().next();
    byte[] encoded = state.encoded();
    doubles[0] = floats[0] = longs[1] = ints[0] = 9;
    sampler.batches(0, 1, 100).iterator().next();
    state.decode(encoded);
    assertArrayEquals(new double[] {1.5, Double.NaN}, doubles);
    assertArrayEquals(new float[] {2.5f}, floats);
    assertArrayEquals(new long[] {Long.MIN_VALUE, 3}, longs);
    assertArrayEquals(new int[] {-4}, ints);
    assertEquals(0, sampler.epoch());
    assertEquals(4, sampler.done());
  }

  @Test
  void a_state_of_another_program_is_refused_with_what_is_other() {
    byte[] encoded = new State().keep("a", new long[2]).keep("b", new int[1]).encoded();
    State renamed = new State().keep("a", new long[2]).keep("c", new int[1]);
    refused(Code.INCOMPATIBLE, "a value b where c is expected", () -> renamed.decode(encoded));
    State longer = new State().keep("a", new long[3]).keep("b", new int[1]);
    refused(Code.INCOMPATIBLE, "an array a of 16 bytes, not of 24", () -> longer.decode(encoded));
    State fewer = new State().keep("a", new long[2]);
    refused(Code.INCOMPATIBLE, "more values than this one keeps", () -> fewer.decode(encoded));
    State more = new State().keep("a", new long[2]).keep("b", new int[1]).keep("c", new int[1]);
    refused(Code.INCOMPATIBLE, "no more values", () -> more.decode(encoded));
    for (int length = 0; length < encoded.length; length++) {
      byte[] cut = Arrays.copyOf(encoded, length);
      refused(Code.INCOMPATIBLE, "", () -> more.decode(cut));
    }
  }

  @Test
  void nothing_is_committed_restored_or_synced_outside_of_a_training() {
    State state = new State().keep("model", new float[3]);
    refused(Code.BAD_STATE, "within Elastic.run", state::commit);
    refused(Code.BAD_STATE, "within Elastic.run", state::restore);
    refused(Code.BAD_STATE, "within Elastic.run", state::sync);
  }
}

package io.rejoin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.math.BigInteger;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class SecretTest {
  @Test
  void a_secret_has_256_bits_and_says_nothing_of_them() {
    Secret secret = Secret.random();

    assertEquals(32, secret.bytes().length);
    assertFalse(secret.toString().contains(new BigInteger(1, secret.bytes()).toString(16)));
    assertFalse(Arrays.equals(secret.bytes(), Secret.random().bytes()));
  }

  @Test
  void jobs_have_names_of_32_digits_of_their_own() {
    assertEquals(32, JobId.random().toString().length());
    assertNotEquals(JobId.random(), JobId.random());
  }
}

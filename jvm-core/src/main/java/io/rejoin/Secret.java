package io.rejoin;

import java.io.Serializable;
import java.math.BigInteger;
import java.security.SecureRandom;

/**
 * The 256 random bits that all processes of one job can prove to know. Give it to tasks only inside
 * the framework's own authenticated traffic; never put it into configuration, environment,
 * arguments or logs.
 */
public final class Secret implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int BYTES = 32;

  private final byte[] bytes;

  private Secret(byte[] bytes) {
    this.bytes = bytes;
  }

  /** A new secret for a job, from a cryptographic source of random numbers. */
  public static Secret random() {
    byte[] bytes = new byte[BYTES];
    new SecureRandom().nextBytes(bytes);
    return new Secret(bytes);
  }

  static Secret of(String digits) {
    byte[] bytes = new byte[BYTES];
    for (int at = 0; at < BYTES; at++) {
      bytes[at] = (byte) Integer.parseInt(digits.substring(2 * at, 2 * at + 2), 16);
    }
    return new Secret(bytes);
  }

  byte[] bytes() {
    return bytes.clone();
  }

  String digits() {
    return String.format("%064x", new BigInteger(1, bytes));
  }

  /** Says nothing. */
  @Override
  public String toString() {
    return "Secret(not shown)";
  }
}

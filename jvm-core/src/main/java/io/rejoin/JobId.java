package io.rejoin;

import java.io.Serializable;
import java.security.SecureRandom;
import java.util.Objects;

/** Names one job: 128 random bits, written as 32 hexadecimal digits. */
public final class JobId implements Serializable {
  private static final long serialVersionUID = 1L;

  private final String text;

  private JobId(String text) {
    this.text = text;
  }

  static JobId of(String digits) {
    return new JobId(digits);
  }

  /** A new id of 128 random bits. */
  public static JobId random() {
    SecureRandom random = new SecureRandom();
    return new JobId(String.format("%016x%016x", random.nextLong(), random.nextLong()));
  }

  /** The first 8 digits, for log lines; not unique among many jobs. */
  public String brief() {
    return text.substring(0, 8);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof JobId && ((JobId) other).text.equals(text);
  }

  @Override
  public int hashCode() {
    return Objects.hash(text);
  }

  /** The 32 hexadecimal digits. */
  @Override
  public String toString() {
    return text;
  }
}

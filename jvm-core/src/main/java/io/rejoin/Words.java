package io.rejoin;

/** Numbers in the texts that this library says. */
public final class Words {
  private Words() {}

  /**
   * How often: {@code once}, {@code 3 times}.
   *
   * @param count how often; not negative
   */
  public static String times(int count) {
    return count == 1 ? "once" : count + " times";
  }
}

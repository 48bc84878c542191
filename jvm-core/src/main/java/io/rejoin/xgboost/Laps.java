package io.rejoin.xgboost;

/** How long the parts of a rank's start took, one after the other, for the log. */
final class Laps {
  private final StringBuilder text = new StringBuilder();
  private long last = System.nanoTime();

  /** This part is over now; it began when the one before was. */
  void lap(String part) {
    long now = System.nanoTime();
    text.append(text.length() == 0 ? "" : ", ")
        .append(part)
        .append(' ')
        .append((now - last) / 1_000_000)
        .append(" ms");
    last = now;
  }

  @Override
  public String toString() {
    return text.toString();
  }
}

package io.rejoin;

/** Options of one collective; {@link #NONE} to begin with. */
public final class CallOptions {
  /** Rank order, no boot collective, the input is there. */
  public static final CallOptions NONE = new CallOptions(false, null, null);

  final boolean ring;
  final String boot;
  final Runnable prepare;

  private CallOptions(boolean ring, String boot, Runnable prepare) {
    this.ring = ring;
    this.boot = boot;
    this.prepare = prepare;
  }

  /**
   * Inputs are combined in XGBoost's order (chunk k begins with rank k) instead of 0, 1, 2, … It
   * decides about the last bits of a sum.
   */
  public CallOptions inRingOrder() {
    return new CallOptions(true, boot, prepare);
  }

  /**
   * A collective of the time before the first checkpoint, whose result is kept for the life of the
   * job. It is found again by its call site, the call, and how often that site has made it.
   */
  public CallOptions boot() {
    return new CallOptions(ring, "", prepare);
  }

  /** The same, found again by this name, which may be used once in each incarnation. */
  public CallOptions boot(String name) {
    if (name.isEmpty()) {
      throw new RejoinException(
          RejoinException.Code.BAD_ARGUMENT, "a boot collective's name must not be empty");
    }
    return new CallOptions(ring, name, prepare);
  }

  /**
   * Fills the input, in the calling thread. It isn't called when the result is a recorded one, and
   * by a broadcast at the root alone. What it throws ends the job with TRAINING_FAILED.
   */
  public CallOptions prepare(Runnable fill) {
    return new CallOptions(ring, boot, fill);
  }
}
